//! A real mail server and a real web server for one test, and what they took.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::wait::until;

/// A mail server with a folder of its own; dropping it ends it. Its login is `tester` with
/// `secret`; what it refuses stands in `rig/smtp.py`.
#[derive(Debug)]
pub struct MailServer {
    folder: PathBuf,
    host: Ipv4Addr,
    ports: (u16, u16),
    process: Child,
}

/// A message that the server took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaughtMail {
    /// Whether the connection was encrypted.
    pub is_encrypted: bool,
    /// The account, where one logged in.
    pub login: Option<String>,
    /// The sender of the envelope.
    pub from: String,
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// The message.
    pub bytes: Vec<u8>,
}

impl CaughtMail {
    /// The value of a header, its folds undone.
    pub fn header(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let head = text.split("\r\n\r\n").next()?.replace("\r\n ", " ");
        let mut lines = head.split("\r\n");
        lines.find_map(|line| Some(line.strip_prefix(&format!("{name}: "))?.to_owned()))
    }
}

impl MailServer {
    /// A server that answers, with its files below `folder`.
    pub fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        let host = own_address();
        certificate(folder, host);
        let process = spawn("smtp.py", folder, host, &[]);
        let mut server = Self {
            folder: folder.to_path_buf(),
            host,
            ports: (0, 0),
            process,
        };
        server.ports = server.wait_for_ports();
        server
    }

    /// `HOST:PORT` where it offers STARTTLS.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.ports.0)
    }

    /// `HOST:PORT` where everything is encrypted.
    pub fn tls_address(&self) -> String {
        format!("{}:{}", self.host, self.ports.1)
    }

    /// The certificate of the authority that signed the server's.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The messages that it took, in their order.
    pub fn caught(&self) -> Vec<CaughtMail> {
        let entries = fs::read_dir(self.folder.join("mail")).expect("the server made it");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut paths: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
            .collect();
        paths.sort();
        paths.iter().map(|path| caught(path)).collect()
    }

    /// Waits until it took so many messages, and returns them.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<CaughtMail> {
        until("mail", || {
            let caught = self.caught();
            if caught.len() >= count {
                Ok(caught)
            } else {
                Err(format!("{} of {count}", caught.len()))
            }
        })
    }

    /// Ends it as a power cut does.
    pub fn kill(&mut self) {
        self.process.kill().expect("it is our child");
        self.process.wait().expect("it is our child");
    }

    /// Starts it again behind the same addresses; it keeps its messages.
    pub fn restart(&mut self) {
        fs::remove_file(self.folder.join("ports")).expect("it served before");
        let ports = [self.ports.0.to_string(), self.ports.1.to_string()];
        self.process = spawn("smtp.py", &self.folder, self.host, &ports);
        self.wait_for_ports();
    }

    fn wait_for_ports(&mut self) -> (u16, u16) {
        let path = self.folder.join("ports");
        let log = self.folder.join("log");
        until("the mail server", || {
            if let Ok(Some(status)) = self.process.try_wait() {
                let log = fs::read_to_string(&log).unwrap_or_default();
                panic!(
                    "the mail server ended ({status}); it needs the package python3-aiosmtpd\n{log}"
                );
            }
            let text = fs::read(&path).map_err(|error| error.to_string())?;
            serde_json::from_slice(&text).map_err(|error| error.to_string())
        })
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address of this machine that no other process of tests uses: ports of a server that was
/// killed are still free when it starts again.
fn own_address() -> Ipv4Addr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    // The first is 127.0.0.1 for everybody else, and numbers of processes have 22 bits.
    Ipv4Addr::new(127, 64 | a, b, c)
}

/// A web server over TLS with a folder of its own; dropping it ends it.
#[derive(Debug)]
pub struct WebhookServer {
    folder: PathBuf,
    host: Ipv4Addr,
    process: Child,
}

impl WebhookServer {
    /// A server that answers, with its files below `folder`.
    pub fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        let host = own_address();
        certificate(folder, host);
        let process = spawn("hook.py", folder, host, &[]);
        Self {
            folder: folder.to_path_buf(),
            host,
            process,
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        let port = until("the web server", || {
            let port = fs::read_to_string(self.folder.join("hook-port"));
            port.map_err(|_| fs::read_to_string(self.folder.join("log")))
        });
        format!("https://{}:{port}/hook", self.host)
    }

    /// The certificate of the authority that signed the server's.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The events that it took, in their order.
    pub fn events(&self) -> Vec<Value> {
        let paths = (1..).map(|number| self.folder.join(format!("hook/{number}.json")));
        let bodies = paths.map_while(|path| fs::read(path).ok());
        let events = bodies.map(|body| serde_json::from_slice(&body).expect("JSON"));
        events.collect()
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(script: &str, folder: &Path, host: Ipv4Addr, ports: &[String]) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("rig")
        .join(script);
    let log = fs::File::create(folder.join("log")).expect("a file");
    // The interpreter for which Debian packages modules; it ends with its standard input, and so
    // with this process.
    Command::new("/usr/bin/python3")
        .args(["-W", "ignore"])
        .arg(script)
        .arg(folder)
        .arg(host.to_string())
        .args(ports)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .expect("python3 is there")
}

/// An authority, and the server's certificate that it signed.
fn certificate(folder: &Path, host: Ipv4Addr) {
    let openssl = |line: &str| {
        let output = Command::new("openssl")
            .args(line.split_whitespace())
            .current_dir(folder)
            .output()
            .expect("openssl is there");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {line}\n{told}");
    };
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let extensions = format!(
        "subjectAltName=IP:{host}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    );
    fs::write(folder.join("extensions"), extensions).expect("a file");
    openssl(&format!(
        "req -x509 {new_key} -days 30 -subj /CN=authority -keyout ca.key -out ca.pem"
    ));
    openssl(&format!(
        "req {new_key} -subj /CN=server -keyout server.key -out server.csr"
    ));
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile extensions -out server.pem",
    );
}

fn caught(path: &Path) -> CaughtMail {
    let text = fs::read(path).expect("a message");
    let about: Value = serde_json::from_slice(&text).expect("JSON");
    let to = about["to"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    CaughtMail {
        is_encrypted: about["tls"].as_bool().expect("true or false"),
        login: about["auth"].as_str().map(str::to_owned),
        from: text(&about["from"]),
        to: to.map(text).collect(),
        bytes: fs::read(path.with_extension("eml")).expect("it came first"),
    }
}
