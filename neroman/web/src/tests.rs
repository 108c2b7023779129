//! A real server on loopback and clients that write bytes; what is behind the server is answered by
//! a few lines here. Each guard has its control: without it the same request is answered.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nero_wire::v1::paths_reply::One;
use nero_wire::v1::{ExperimentView, ListReply, LogChunk, PathsReply, Selection, WatchEvent};
use tokio::sync::{mpsc, oneshot};

use crate::accept::serve_by;
use crate::call::{LineResult, RowsMessage, ViewCall};
use crate::{Caller, Door, Site, ViewSettings};

mod agreement;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with what it asks for, ended with the test.
struct Rig {
    port: u16,
    token: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Clone, Default)]
struct Options {
    is_read_only: bool,
    is_unguarded: bool,
    socket: Option<PathBuf>,
    results: PathBuf,
    /// What the daemon has; empty: one hostile experiment.
    views: Vec<ExperimentView>,
}

impl Rig {
    fn new(options: Options) -> Self {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, ends) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let door = match &options.socket {
                    Some(path) => Door::socket(path).await,
                    None => Door::loopback(0).await,
                };
                let door = door.expect("a door");
                let (sender, calls) = mpsc::channel(8);
                let settings = ViewSettings {
                    is_read_only: options.is_read_only,
                    select: |text| Selection {
                        text: text.to_owned(),
                        ..Selection::default()
                    },
                };
                let caller = Caller::new(settings, sender);
                let site = Site::new(door.port(), caller).expect("a site");
                let router = if options.is_unguarded {
                    site.unguarded()
                } else {
                    site.router()
                };
                let told = (door.port().unwrap_or(0), site.token().to_owned());
                ready.send(told).expect("a test that waits");
                tokio::select! {
                    () = serve_by(&door, &router) => {}
                    () = answer(calls, options.results.clone(), options.views) => {}
                    _ = ends => {}
                }
            });
        });
        let (port, token) = is_ready.recv_timeout(PATIENCE).expect("a server");
        Self {
            port,
            token,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// Sends a request; returns the status, the head and the body.
    fn send(&self, request: &Request) -> Response {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // A server that refuses a long request closes before all of it is written.
        let _ = stream.write_all(request.bytes(self.port).as_slice());
        Response::read(&mut stream)
    }

    /// The cookie for the token.
    fn login(&self) -> String {
        let request = Request::post("/login", &self.token);
        let response = self.send(&request);
        assert_eq!(response.status, 204, "{}", response.head);
        let cookie = response.header("set-cookie").expect("a cookie");
        assert!(
            cookie.contains("HttpOnly; SameSite=Strict; Path=/"),
            "{cookie}"
        );
        assert!(
            cookie.starts_with(&format!("neroman-{}=", self.port)),
            "{cookie}"
        );
        cookie.split(';').next().unwrap_or_default().to_owned()
    }

    fn get(&self, path: &str) -> Response {
        self.send(&Request::get(path).with("Cookie", &self.login()))
    }

    fn post(&self, path: &str, body: &str) -> Response {
        self.send(&Request::post(path, body).with("Cookie", &self.login()))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the daemon and the lines answer here.
async fn answer(mut calls: mpsc::Receiver<ViewCall>, results: PathBuf, views: Vec<ExperimentView>) {
    let view = ExperimentView {
        id: 7,
        name: "<script>alert(1)</script>".to_owned(),
        state: "running".to_owned(),
        ..ExperimentView::default()
    };
    while let Some(call) = calls.recv().await {
        match call {
            ViewCall::List(_, answer) => {
                let hostile = || vec![view.clone()];
                let reply = ListReply {
                    experiments: Some(views.clone())
                        .filter(|views| !views.is_empty())
                        .unwrap_or_else(hostile),
                    ..ListReply::default()
                };
                let _ = answer.send(Ok(reply));
            }
            ViewCall::Watch(_, events) => {
                let event = WatchEvent {
                    experiments: vec![view.clone()],
                    window: Some(nero_wire::v1::WindowRows {
                        total: 1,
                        offset: 0,
                        ids: vec![7],
                    }),
                    ..WatchEvent::default()
                };
                let _ = events.send(RowsMessage::Rows(Box::new(event))).await;
            }
            ViewCall::Line(line, answer) => {
                let document =
                    serde_json::json!({"schema": 1, "words": line.words, "options": line.options});
                let _ = answer.send(Ok(LineResult {
                    exit_code: Some(0),
                    stdout: format!("{document}\n").into_bytes(),
                    ..LineResult::default()
                }));
            }
            ViewCall::Paths(_, answer) => {
                let path = results.display().to_string();
                let paths = vec![One {
                    path,
                    ..One::default()
                }];
                let _ = answer.send(Ok(PathsReply { paths }));
            }
            ViewCall::Log(asked, most, answer) => {
                let chunk = LogChunk {
                    offset: 40,
                    data: format!("{} {most}", asked.lines).into_bytes(),
                    end: true,
                    ..LogChunk::default()
                };
                let _ = answer.send(Ok(vec![chunk]));
            }
            other => panic!("{other:?} is not asked for here"),
        }
    }
}

/// A request as bytes; `PORT` in a value stands for the port of the server.
#[derive(Clone)]
struct Request {
    line: String,
    fields: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn get(path: &str) -> Self {
        Self {
            line: format!("GET {path} HTTP/1.1"),
            fields: vec![("Host".to_owned(), "127.0.0.1:PORT".to_owned())],
            body: String::new(),
        }
    }

    fn post(path: &str, body: &str) -> Self {
        let get = Self::get(path);
        Self {
            line: get.line.replacen("GET", "POST", 1),
            body: body.to_owned(),
            ..get
        }
        .with("Origin", "http://127.0.0.1:PORT")
        .with("X-Neroman", "1")
    }

    /// Sets a field.
    fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(one, _)| one != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(one, _)| one != name);
        self
    }

    fn bytes(&self, port: u16) -> Vec<u8> {
        let mut head = self.line.clone();
        for (name, value) in &self.fields {
            head.push_str(&format!("\r\n{name}: {value}"));
        }
        let length = self.body.len();
        head.push_str(&format!(
            "\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        ));
        let head = head.replace("PORT", &port.to_string());
        [head.as_bytes(), self.body.as_bytes()].concat()
    }
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn read(stream: &mut impl std::io::Read) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or(0),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

#[test]
fn a_request_that_the_guard_refuses_would_be_answered_without_it() {
    let guarded = Rig::new(Options::default());
    let unguarded = Rig::new(Options {
        is_unguarded: true,
        ..Options::default()
    });
    let cookie = guarded.login();
    let read = Request::get("/api/window").with("Cookie", &cookie);
    let abort = Request::post("/do", "{\"words\":[\"abort\",\"7\"]}").with("Cookie", &cookie);
    let attacks = [
        (read.clone().with("Host", "evil.example:PORT"), 421),
        (read.clone().with("Host", "127.0.0.1:1"), 421),
        (read.clone().with("Host", "127.0.0.1"), 421),
        (read.clone().with("Origin", "http://evil.example"), 403),
        (read.clone().with("Origin", "null"), 403),
        (read.clone().with("Sec-Fetch-Site", "cross-site"), 403),
        (read.clone().with("Cookie", "neroman-1=x"), 401),
        (read.clone().without("Cookie"), 401),
        (abort.clone().with("Host", "rebound.example:PORT"), 421),
        (abort.clone().with("Origin", "http://localhost:1"), 403),
        (abort.clone().without("Origin"), 403),
        (abort.clone().without("X-Neroman"), 403),
        (abort.clone().without("Cookie"), 401),
        (Request::get("/live").without("Cookie"), 401),
        (
            Request::get("/log?run=7")
                .with("Sec-Fetch-Site", "same-site")
                .with("Cookie", &cookie),
            403,
        ),
    ];
    for (attack, status) in &attacks {
        let refused = guarded.send(attack);
        assert_eq!(
            refused.status, *status,
            "{} {:?}",
            attack.line, attack.fields
        );
        assert!(!refused.body.contains("script"), "{}", refused.body);
        let control = unguarded.send(attack);
        assert_eq!(control.status, 200, "{} {:?}", attack.line, attack.fields);
    }
    for good in [read, abort] {
        let answered = guarded.send(&good);
        assert_eq!(answered.status, 200, "{}", answered.body);
    }
}

#[test]
fn a_token_is_exchanged_for_a_cookie_and_a_wrong_one_is_not() {
    let rig = Rig::new(Options::default());
    assert_eq!(rig.token.len(), 64);
    for wrong in ["", "x", &rig.token[..63], &rig.token.to_uppercase()] {
        let refused = rig.send(&Request::post("/login", wrong));
        assert_eq!(refused.status, 403, "{wrong}");
        assert!(refused.header("set-cookie").is_none());
    }
    rig.login();
}

#[test]
fn every_answer_has_the_headers_that_keep_a_browser_in() {
    let rig = Rig::new(Options::default());
    let answers = [
        rig.send(&Request::get("/")),
        rig.send(&Request::get("/?sel=1")),
        rig.send(&Request::get("/nothing")),
        rig.get("/nothing"),
        rig.get("/api/window"),
        rig.post("/do", "no document"),
    ];
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 401, 404, 200, 400]);
    for answer in answers {
        let policy = answer.header("content-security-policy").unwrap_or_default();
        let wanted = [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'none'",
        ];
        assert!(wanted.iter().all(|part| policy.contains(part)), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn another_user_is_refused_even_with_the_token() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let rig = Rig::new(Options::default());
    let request = Request::get("/api/window").with("Cookie", &rig.login());
    let text = String::from_utf8(request.bytes(rig.port)).expect("text");
    let said = |uid: u32| {
        let mut client = Command::new("bash");
        client.args([
            "-c",
            "exec 3<>/dev/tcp/127.0.0.1/$0 && printf '%s' \"$1\" >&3 && cat <&3",
        ]);
        let output = client
            .args([&rig.port.to_string(), &text])
            .uid(uid)
            .output();
        String::from_utf8_lossy(&output.expect("bash").stdout).into_owned()
    };
    assert!(said(0).starts_with("HTTP/1.1 200"), "the control");
    assert_eq!(said(65534), "");
}

#[test]
fn a_socket_is_its_owners_and_goes_with_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.sock");
    let options = Options {
        socket: Some(path.clone()),
        ..Options::default()
    };
    let rig = Rig::new(options.clone());
    let mode = std::fs::metadata(&path)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // The forwarder chooses the port.
    let login = Request::post("/login", &rig.token)
        .with("Host", "localhost:8123")
        .with("Origin", "http://localhost:8123");
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.write_all(&login.bytes(0)).expect("a request");
    let response = Response::read(&mut stream);
    let cookie = response.header("set-cookie").expect("a cookie");
    assert!(cookie.starts_with("neroman-8123="), "{cookie}");
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream
        .write_all(&Request::get("/").with("Host", "evil.example:8123").bytes(0))
        .expect("a request");
    assert_eq!(Response::read(&mut stream).status, 421);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let second = runtime.expect("a runtime").block_on(Door::socket(&path));
    assert!(second.unwrap_err().to_string().contains("listens on"));
    drop(rig);
    assert!(!path.exists());
    // One that a killed program left is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    drop(Rig::new(options));
    std::fs::write(&path, "mine").expect("a file");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let file = runtime.expect("a runtime").block_on(Door::socket(&path));
    assert!(file.unwrap_err().to_string().contains("no socket"));
    assert!(path.exists());
}

#[test]
fn long_requests_cut_ones_and_many_leave_the_server_as_it_was() {
    let rig = Rig::new(Options::default());
    let long = "a".repeat(1 << 20);
    let cookie = rig.login();
    let selector = Request::get(&format!("/api/window?sel={long}")).with("Cookie", &cookie);
    let answered = rig.send(&selector).status;
    assert!([431, 414, 0].contains(&answered), "{answered}");
    let body = Request::post("/do", &format!("{long}{long}")).with("Cookie", &cookie);
    assert!([413, 0].contains(&rig.send(&body).status));
    for part in [
        "GET",
        "POST /do HTTP/1.1\r\nContent-Length: 100\r\n\r\nx",
        "\0\0\0\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", rig.port)).expect("a connection");
        stream.write_all(part.as_bytes()).expect("bytes");
    }
    // Beyond the limit connections wait for a place, and get it.
    let idle = (0..300).map(|_| TcpStream::connect(("127.0.0.1", rig.port)).expect("a connection"));
    let idle: Vec<TcpStream> = idle.collect();
    let mut late = TcpStream::connect(("127.0.0.1", rig.port)).expect("a connection");
    late.write_all(&Request::get("/").bytes(rig.port))
        .expect("a request");
    drop(idle);
    late.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(Response::read(&mut late).status, 200);
}

#[test]
fn a_page_does_the_lines_that_it_may_and_no_others() {
    let rig = Rig::new(Options::default());
    let done = rig.post(
        "/do",
        "{\"words\":[\"note\",\"7\",\"it's\"],\"dry_run\":true}",
    );
    let done: serde_json::Value = serde_json::from_str(&done.body).expect("a document");
    assert_eq!(done["line"], "neroman note 7 \"it's\"");
    assert_eq!(
        done["documents"][0]["options"],
        serde_json::json!(["--json", "--dry-run"])
    );
    let done = rig.post("/do", "{\"words\":[\"abort\",\"7\"]}");
    assert!(done.body.contains("--yes"), "{}", done.body);
    for (words, status) in [
        ("[\"exec\",\"7\",\"--\",\"rm\"]", 403),
        ("[\"daemon\",\"stop\"]", 403),
        ("[\"node\",\"join\",\"x\"]", 403),
        ("[\"--abort\",\"7\"]", 403),
        ("[]", 400),
        ("[1]", 400),
        ("\"abort\"", 400),
    ] {
        let refused = rig.post("/do", &format!("{{\"words\":{words}}}"));
        assert_eq!(refused.status, status, "{words}: {}", refused.body);
    }
    assert_eq!(
        rig.post("/do", "{\"words\":[\"rm\",\"7\"],\"dry\":true}")
            .status,
        400
    );
    let read_only = Rig::new(Options {
        is_read_only: true,
        ..Options::default()
    });
    let refused = read_only.post("/do", "{\"words\":[\"abort\",\"7\"]}");
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("read-only"), "{}", refused.body);
}

#[test]
fn addresses_read_and_never_write() {
    let rig = Rig::new(Options::default());
    let read = rig.get("/api/results?w=7&w=--by=lr");
    assert!(
        read.body.contains("[\"results\",\"7\",\"--by=lr\"]"),
        "{}",
        read.body
    );
    let read = rig.get("/api/rule-why?w=7");
    assert!(
        read.body.contains("[\"rule\",\"why\",\"7\"]"),
        "{}",
        read.body
    );
    for path in [
        "/api/results?w=7&w=-o&w=/tmp/x",
        "/api/results?w=7&w=--output=/tmp/x",
        "/api/status?w=--abort&w=all",
        "/api/status?w=--watch",
        "/api/abort?w=7",
        "/api/window?sel=1&sel=2",
        "/api/window?count=1001",
        "/api/window?count=-1",
        "/api/window?zzz=1",
        "/log?run=7&stream=stdin",
    ] {
        let refused = rig.get(path);
        assert_eq!(refused.status, 400, "{path}: {}", refused.body);
    }
}

#[test]
fn a_window_has_columns_and_is_sent_again_when_it_changes() {
    let rig = Rig::new(Options::default());
    let window = rig.get("/api/window?columns=id&columns=zzz(1)&columns=name");
    let window: serde_json::Value = serde_json::from_str(&window.body).expect("a document");
    assert_eq!(window["experiments"][0]["cells"][0], "7");
    assert_eq!(
        window["experiments"][0]["name"],
        "<script>alert(1)</script>"
    );
    assert_eq!(window["columns"][0]["number"], true);
    let request = Request::get("/live?count=5").with("Cookie", &rig.login());
    let mut stream = TcpStream::connect(("127.0.0.1", rig.port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
        .write_all(&request.bytes(rig.port))
        .expect("a request");
    let response = Response::read(&mut stream);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert!(
        response
            .body
            .contains("event: window\ndata: {\"schema\":1,"),
        "{}",
        response.body
    );
}

#[test]
fn logs_and_files_are_no_pages_and_nothing_leads_out_of_the_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    std::fs::create_dir_all(results.join("out")).expect("a folder");
    std::fs::write(results.join("out/a b.html"), "<script>1</script>").expect("a file");
    std::fs::write(folder.path().join("secret"), "secret").expect("a file");
    symlink(folder.path().join("secret"), results.join("link")).expect("a link");
    let rig = Rig::new(Options {
        results: results.clone(),
        ..Options::default()
    });
    let log = rig.get("/log?run=7&last=3");
    assert_eq!(
        log.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(
        (log.header("x-from"), log.header("x-end")),
        (Some("40"), Some("1"))
    );
    let listed = rig.get("/files?run=7");
    assert!(
        listed
            .body
            .contains("{\"path\":\"out/a b.html\",\"bytes\":18}"),
        "{}",
        listed.body
    );
    assert!(!listed.body.contains("\"link\""), "{}", listed.body);
    let file = rig.get("/file?run=7&path=out/a%20b.html");
    assert!(file.body.contains("<script>"), "{}", file.body);
    assert_eq!(
        file.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(
        file.header("content-disposition"),
        Some("attachment; filename*=UTF-8''a%20b.html")
    );
    assert!(
        file.header("content-security-policy")
            .unwrap_or_default()
            .starts_with("sandbox")
    );
    let secret = folder.path().join("secret");
    for path in [
        "link",
        "../secret",
        "out/../../secret",
        "out",
        "",
        &secret.display().to_string(),
    ] {
        let refused = rig.get(&format!("/file?run=7&path={path}"));
        assert_eq!(refused.status, 404, "{path}: {}", refused.body);
    }
    assert!(Path::new(&secret).exists());
}
