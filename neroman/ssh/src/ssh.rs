//! Finding, making and ending connections.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nero_model::paths::make_socket_folder;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::address;
use crate::classify::classify;
use crate::error::{SshError, Trouble};
use crate::local::{self, CommandFailure, ProgramOutput};
use crate::master::{self, Life, Master, Starter};
use crate::run;
use crate::settings::Settings;

/// Holds the words of the `ssh` command, as `GIT_SSH_COMMAND` does for git.
pub const SSH_VARIABLE: &str = "NERONET_SSH";

/// Time for `ssh -G`, which reads files and may run the user's `Match exec`
/// commands.
const SETTINGS: Duration = Duration::from_secs(15);
/// Time beyond that for the connection itself: keys, tickets, a touch of a
/// token.
const LOGIN: Duration = Duration::from_secs(40);
/// Time for a master to end.
const END: Duration = Duration::from_secs(5);

/// The user's `ssh`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ssh {
    inner: Arc<SshState>,
    /// Path of a private key that is tried, too.
    key: Option<String>,
}

#[derive(Debug)]
struct SshState {
    command: Vec<String>,
    folder: PathBuf,
    /// Locks that let only one connection of a node be made at a time.
    making: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Settings of `ssh` without any configuration.
    unset: OnceCell<Settings>,
}

/// A node and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) node: String,
    pub(crate) address: String,
    pub(crate) auth_sock: Option<PathBuf>,
    pub(crate) settings: Settings,
}

impl Ssh {
    /// `command` are the words of the command, `["ssh"]` unless the user chose
    /// others. `sockets` is a private folder for control sockets; a shorter one
    /// is used when their paths would not fit.
    pub fn new(command: Vec<String>, sockets: &Path) -> Self {
        let command = if command.is_empty() {
            vec!["ssh".to_owned()]
        } else {
            command
        };
        Self {
            inner: Arc::new(SshState {
                command,
                folder: master::folder_for(sockets),
                making: Mutex::default(),
                unset: OnceCell::new(),
            }),
            key: None,
        }
    }

    /// The same, which tries the private key at this path, too.
    #[must_use]
    pub fn with_key(&self, key: Option<String>) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            key,
        }
    }

    /// With the words of the variable `NERONET_SSH`, which is split as a shell
    /// would do, or with plain `ssh`.
    ///
    /// # Errors
    /// When the variable is no command line.
    pub fn from_environment(sockets: &Path) -> Result<Self, SshError> {
        words(std::env::var_os(SSH_VARIABLE).unwrap_or_default())
            .map(|words| Self::new(words, sockets))
            .map_err(|trouble| SshError::new("", "", trouble))
    }

    /// The words of a command that opens the connection from a terminal, where
    /// passwords and codes can be typed. The command ends with 0 once the
    /// connection stands; the connection stays. When a connection works
    /// already, the command only reports it.
    ///
    /// # Errors
    /// When `ssh` cannot be used at all.
    pub async fn login(&self, node: &str, address: &str) -> Result<Vec<OsString>, SshError> {
        self.login_words(node, address)
            .await
            .map_err(|trouble| SshError::new(node, address, trouble))
    }

    /// Ends the connections of this node that we opened by ourselves, wherever
    /// they lead; never the user's own, nor what a person opened by
    /// [`login`](Self::login).
    ///
    /// # Errors
    /// When a connection does not end, or our folder cannot be read.
    pub async fn hang_up(&self, node: &str, address: &str) -> Result<(), SshError> {
        self.end_those(node, address, |master| !master.is_persons())
            .await
            .map_err(|trouble| SshError::new(node, address, trouble))
    }

    /// Ends all our connections of this node, including those that a person
    /// opened by [`login`](Self::login); never the user's own.
    ///
    /// # Errors
    /// As [`hang_up`](Self::hang_up).
    pub async fn forget(&self, node: &str, address: &str) -> Result<(), SshError> {
        self.end_those(node, address, |_| true)
            .await
            .map_err(|trouble| SshError::new(node, address, trouble))
    }

    /// Ends the present connections that we opened by ourselves to nodes other
    /// than `nodes`: a killed neroman left them, and its nodes have been
    /// removed since. Returns how many it ended; a connection that does not end
    /// is left.
    pub fn end_strangers<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> impl Future<Output = usize> + Send + 'static {
        let found = self
            .folder()
            .and_then(|folder| master::strangers(folder, nodes));
        let ssh = self.clone();
        async move {
            let mut ended = 0;
            let ours = found.unwrap_or_default().into_iter();
            for master in ours.filter(|master| !master.is_persons()) {
                // The socket names the connection; the address does not matter.
                let done = ssh.end(&master, "localhost").await;
                ended += usize::from(done.is_ok());
            }
            ended
        }
    }

    async fn end_those(
        &self,
        node: &str,
        address: &str,
        which: impl Fn(&Master) -> bool,
    ) -> Result<(), Trouble> {
        let (some, more) = master::ours(self.folder()?, node, "")?;
        let mut first = Ok(());
        for master in some.iter().chain(&more).filter(|master| which(master)) {
            first = first.and(self.end(master, address).await);
        }
        first
    }

    async fn login_words(&self, node: &str, address: &str) -> Result<Vec<OsString>, Trouble> {
        let target = self.target(node, address, None).await?;
        let _making = self.lock(node).await;
        if let Some(works) = self.existing(&target).await? {
            let mut words = self.words();
            words.extend([
                "-S".into(),
                works.escaped_path(),
                "-O".into(),
                "check".into(),
            ]);
            words.extend(["--".into(), address.into()]);
            return Ok(words);
        }
        let ciphers = self.ciphers(&target.settings).await;
        self.master_words(&target, Starter::Person, ciphers)
            .map(|(words, _)| words)
    }

    pub(crate) async fn target(
        &self,
        node: &str,
        address: &str,
        auth_sock: Option<&Path>,
    ) -> Result<Target, Trouble> {
        if let Some(why) = address::fault(address) {
            return Err(Trouble::Address { why });
        }
        let words = [self.words(), vec!["-G".into(), "--".into(), address.into()]].concat();
        let ended = self.run(&words, auth_sock, "ssh -G", SETTINGS).await?;
        if !ended.status.success() {
            return Err(Trouble::Settings { said: ended.err });
        }
        Ok(Target {
            node: node.to_owned(),
            address: address.to_owned(),
            auth_sock: auth_sock.map(Path::to_path_buf),
            settings: Settings::parse(&ended.out),
        })
    }

    /// A master that works, made when there is none.
    pub(crate) async fn master(&self, target: &Target) -> Result<Master, Trouble> {
        let _making = self.lock(&target.node).await;
        match self.existing(target).await? {
            Some(master) => Ok(master),
            None => self.start(target).await,
        }
    }

    /// The user's own master if it works, else one of ours that lives. Removes
    /// dead sockets of ours, and ends our connections to destinations that the
    /// node's address had before.
    async fn existing(&self, target: &Target) -> Result<Option<Master>, Trouble> {
        if let Some(users) = master::users(&target.settings)
            && users.life().await == Life::Lives
            && run::works(&users).await
        {
            return Ok(Some(users));
        }
        let folder = self.folder()?;
        let (ours, before) = master::ours(folder, &target.node, &target.settings.destination())?;
        for master in before {
            // A failure here is ignored: a frozen connection ends by itself
            // later.
            let _ = self.end(&master, &target.address).await;
        }
        let mut lives = None;
        for master in ours {
            match master.life().await {
                Life::Lives if lives.is_none() => lives = Some(master),
                Life::Dead => forget(&master),
                Life::Lives | Life::Silent => {}
            }
        }
        Ok(lives)
    }

    /// A master of ours that is not in `full`: an existing one that lives, else
    /// a new one.
    pub(crate) async fn another(
        &self,
        target: &Target,
        full: &[Master],
    ) -> Result<Master, Trouble> {
        let _making = self.lock(&target.node).await;
        let (ours, _) = master::ours(self.folder()?, &target.node, &target.settings.destination())?;
        for master in ours.into_iter().filter(|master| !full.contains(master)) {
            if master.life().await == Life::Lives {
                return Ok(master);
            }
        }
        self.start(target).await
    }

    /// Starts a new master of ours.
    async fn start(&self, target: &Target) -> Result<Master, Trouble> {
        let ciphers = self.ciphers(&target.settings).await;
        let (words, master) = self.master_words(target, Starter::Daemon, ciphers)?;
        let deadline = Duration::from_secs(target.settings.connect_seconds()) + LOGIN;
        let auth_sock = target.auth_sock.as_deref();
        let ended = self
            .run(&words, auth_sock, "making the connection", deadline)
            .await?;
        if !ended.status.success() {
            return Err(classify(
                &ended.err,
                &ended.status.to_string(),
                &target.settings,
            ));
        }
        match master.life().await {
            Life::Lives => Ok(master),
            // The connection stood and has ended since.
            Life::Dead | Life::Silent => Err(Trouble::MasterGone { said: Vec::new() }),
        }
    }

    /// The words that open a new master of ours. `-f`: `ssh` goes on in a
    /// session of its own once the connection stands and its socket listens.
    fn master_words(
        &self,
        target: &Target,
        starter: Starter,
        ciphers: Option<String>,
    ) -> Result<(Vec<OsString>, Master), Trouble> {
        let folder = self.folder()?;
        let destination = target.settings.destination();
        let master = master::fresh(folder, &target.node, &destination, starter)?;
        let mut words = self.words();
        words.extend(["-f", "-M", "-N", "-T", "-S"].map(OsString::from));
        words.push(master.escaped_path());
        let ciphers = ciphers.map(|ciphers| format!("Ciphers={ciphers}"));
        for option in master::options(&target.settings, starter)
            .into_iter()
            .chain(ciphers)
        {
            words.extend(["-o".into(), option.into()]);
        }
        words.extend(["--".into(), OsString::from(&target.address)]);
        Ok((words, master))
    }

    /// The ciphers for a new master of ours, where another order is quicker.
    async fn ciphers(&self, settings: &Settings) -> Option<String> {
        let program = self.inner.command[0].as_str();
        // Only the program `ssh` is known to read these words as we mean them.
        if !has_aes() || Path::new(program).file_name() != Some("ssh".as_ref()) {
            return None;
        }
        // When `ssh -G` fails, no order is changed; the next call asks again.
        let unset = self.inner.unset.get_or_try_init(|| async {
            let words = [program, "-F", "none", "-G", "--", "unset"];
            let words = words.map(OsString::from);
            let ended = self.run(&words, None, "ssh -G", SETTINGS).await;
            match ended {
                Ok(ended) if ended.status.success() => Ok(Settings::parse(&ended.out)),
                Ok(_) | Err(_) => Err(()),
            }
        });
        settings.quicker_ciphers(unset.await.ok()?)
    }

    /// Ends one of our masters.
    async fn end(&self, master: &Master, address: &str) -> Result<(), Trouble> {
        if master.life().await == Life::Dead {
            forget(master);
            return Ok(());
        }
        let mut words = self.words();
        words.extend([
            "-S".into(),
            master.escaped_path(),
            "-O".into(),
            "exit".into(),
        ]);
        words.extend(["--".into(), address.into()]);
        self.run(&words, None, "ending the connection", END).await?;
        if master.life().await == Life::Dead {
            forget(master);
        }
        Ok(())
    }

    /// The words of the command itself.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let key = self.key.iter().flat_map(|key| ["-i", key.as_str()]);
        let command = self.inner.command.iter().map(String::as_str);
        command.chain(key).map(OsString::from).collect()
    }

    fn folder(&self) -> Result<&Path, Trouble> {
        let folder = &self.inner.folder;
        make_socket_folder(folder).map_err(|source| master::folder_fault(folder, source))?;
        Ok(folder)
    }

    async fn lock(&self, node: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let mutex = {
            let mut making = self.inner.making.lock().expect("no holder panics");
            Arc::clone(making.entry(node.to_owned()).or_default())
        };
        mutex.lock_owned().await
    }

    /// Runs the program here. It never asks anything, in no terminal and no
    /// window. `BatchMode` is not enough: `ssh` does not pass it to the `ssh`
    /// that it starts for a jump host. So a program that fails answers each
    /// question.
    async fn run(
        &self,
        words: &[OsString],
        auth_sock: Option<&Path>,
        what: &'static str,
        deadline: Duration,
    ) -> Result<ProgramOutput, Trouble> {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env("SSH_ASKPASS", "false")
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env_remove("SSH_AUTH_SOCK");
        if let Some(auth_sock) = auth_sock {
            command.env("SSH_AUTH_SOCK", auth_sock);
        }
        local::run(command, deadline)
            .await
            .map_err(|failed| match failed {
                CommandFailure::Start(source) => Trouble::NoProgram {
                    program: words[0].to_string_lossy().into_owned(),
                    source,
                },
                CommandFailure::Wait(source) => Trouble::Io {
                    what: "read the output of ssh",
                    source,
                },
                CommandFailure::Late => Trouble::Deadline {
                    what,
                    seconds: deadline.as_secs(),
                },
            })
    }
}

/// Whether this processor has instructions for AES. Without them, ssh's own
/// first choice is the quickest.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Removes the socket file that a dead master of ours left behind.
fn forget(master: &Master) {
    // Another process may have removed it. Any other failure shows again at the
    // next look.
    let _ = std::fs::remove_file(&master.path);
}

/// The words of a command line; none for an empty one.
fn words(line: OsString) -> Result<Vec<String>, Trouble> {
    let words = line.to_str().and_then(shlex::split);
    words.ok_or_else(|| Trouble::Words {
        variable: SSH_VARIABLE,
        value: line.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_split_as_a_shell_would() {
        let split = |line: &str| words(line.into());
        let given = split("ssh -F '/my config' -v").expect("a command line");
        assert_eq!(given, ["ssh", "-F", "/my config", "-v"]);
        assert!(split("").expect("plain ssh").is_empty());
        let ssh = Ssh::new(Vec::new(), Path::new("/s"));
        assert_eq!(ssh.words(), ["ssh"]);
        let with_key = ssh.with_key(Some("/my key".to_owned()));
        assert_eq!(with_key.words(), ["ssh", "-i", "/my key"]);
        let error = SshError::new("", "", split("ssh 'x").expect_err("an open quote"));
        assert_eq!(error.fault(), crate::Fault::Program);
        assert!(error.trouble.to_string().contains("NERONET_SSH"));
    }
}
