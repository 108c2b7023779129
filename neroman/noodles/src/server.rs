//! Servers, and the names under which scripts see them.

use nero_yaml::Mark;

/// A server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Where it is; `localhost` is the own machine.
    pub hostname: String,
    /// The user there.
    pub username: Option<String>,
    /// The port.
    pub port: Option<String>,
    /// The private key's file.
    pub private_key_path: Option<String>,
    /// Where it stands.
    pub mark: Mark,
}

impl Server {
    /// Whether commands run without ssh.
    pub fn is_local(&self) -> bool {
        self.hostname == "localhost"
    }

    /// `user@host`, or the host alone.
    pub fn authority(&self) -> String {
        match &self.username {
            Some(user) => format!("{user}@{}", self.hostname),
            None => self.hostname.clone(),
        }
    }

    /// The words before the shell that reads a script: those of ssh, or the local shell.
    pub fn endpoint(&self, shell_string: &str) -> String {
        if self.is_local() {
            return shell_string.to_owned();
        }
        let mut options = Vec::new();
        if let Some(key) = &self.private_key_path {
            options.extend(["-i", key]);
        }
        if let Some(port) = &self.port {
            options.extend(["-p", port]);
        }
        format!("ssh {} {}", options.join(" "), self.authority())
    }

    /// The variables of a deployment, as the spec has them; a `$` in them is expanded on the
    /// caller's machine.
    pub fn variables(&self, experiment: &str) -> [(&'static str, String); 6] {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "None".to_owned());
        [
            ("NOODLES_EXPERIMENT_NAME", experiment.to_owned()),
            ("NOODLES_SERVER_NAME", self.name.clone()),
            ("NOODLES_SERVER_PORT", text(&self.port)),
            ("NOODLES_SERVER_USERNAME", text(&self.username)),
            ("NOODLES_SERVER_HOSTNAME", self.hostname.clone()),
            ("NOODLES_SERVER_AUTHORITY", self.authority()),
        ]
    }
}
