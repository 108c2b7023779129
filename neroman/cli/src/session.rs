//! State shared by the steps of one line: the home, the terminal, and one link
//! to the daemon that the first step that needs it makes.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use nero_config::{Config, ConfigError};
use nero_model::{Home, RequestId};
use nero_wire::v1::Selection;
use nero_wire::v1::man_client::ManClient;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::connect::{AwaitedNodes, Change, Client, Next, Program, READ_DEADLINE, Silence};
use crate::facts::FactsFunction;
use crate::fault::Fault;
use crate::say::{Screen, VerbOutput};

/// What Ctrl-C prints, and which run a second Ctrl-C aborts.
#[derive(Debug, Default)]
pub struct InterruptNotice {
    /// The text; empty: the standard one.
    pub text: String,
    /// A run that a second Ctrl-C aborts.
    pub run: Option<String>,
}

impl InterruptNotice {
    /// Nothing but this text.
    pub fn text(text: String) -> Self {
        Self { text, run: None }
    }
}

/// One command line at work.
#[derive(Debug)]
pub struct Session {
    /// The outputs of the steps.
    pub out: VerbOutput,
    /// What is known of this build.
    pub facts: FactsFunction,
    client: Option<Client>,
    /// The change that the daemon was asked for and has not answered.
    changing: Rc<Cell<Change>>,
    /// Whether a verb may go over ssh and the `ssh` commands were not compared
    /// yet.
    asks_ssh: bool,
    /// What is left when a person ends this program now.
    interrupted: Rc<RefCell<InterruptNotice>>,
}

impl Session {
    /// A session that has looked up the terminal only.
    pub fn new(facts: FactsFunction) -> Self {
        Self {
            out: VerbOutput {
                screen: Screen::find(),
                as_json: false,
            },
            facts,
            client: None,
            changing: Rc::default(),
            asks_ssh: false,
            interrupted: Rc::default(),
        }
    }

    /// What Ctrl-C leaves, readable after a step was dropped.
    pub fn interrupted(&self) -> Rc<RefCell<InterruptNotice>> {
        Rc::clone(&self.interrupted)
    }

    /// Sets what Ctrl-C leaves from now on.
    pub fn on_interrupt(&mut self, left: InterruptNotice) {
        *self.interrupted.borrow_mut() = left;
    }

    /// A session over the same link, for a call beside this one's.
    pub fn beside(&self) -> Self {
        Self {
            out: self.out,
            facts: self.facts,
            client: self.client.clone(),
            changing: Rc::clone(&self.changing),
            interrupted: Rc::clone(&self.interrupted),
            asks_ssh: false,
        }
    }

    /// The change that the daemon still works on, readable after a step was
    /// dropped.
    pub fn changing(&self) -> Rc<Cell<Change>> {
        Rc::clone(&self.changing)
    }

    /// Notes that the next calls may go over `ssh`: the user is told once about
    /// a daemon that uses another `ssh` command than this one would.
    pub fn goes_by_ssh(&mut self) {
        self.asks_ssh = true;
        if let Some(client) = &self.client {
            let other = client.other_ssh();
            self.says_ssh(other);
        }
    }

    /// Warns that the configuration is broken, where the output depends on it:
    /// the daemon goes on with the last one that it could read.
    pub fn warn_of_broken_config(&self) {
        let Ok(home) = home() else { return };
        if let Err(error) = Config::read(&home.config) {
            self.out.note(&broken(&error));
        }
    }

    fn says_ssh(&mut self, other: Option<String>) {
        if !std::mem::take(&mut self.asks_ssh) {
            return;
        }
        if let Some(other) = other {
            self.out.note(&format!("note: {other}"));
        }
    }

    /// The daemon, started when none answers.
    ///
    /// # Errors
    /// When the daemon cannot be started or greeted.
    pub async fn client(&mut self) -> Result<&mut Client, Fault> {
        if self.client.is_none() {
            let client = Client::connect(&home()?, &Program::own()?).await?;
            self.greeted(client);
        }
        self.known()
    }

    /// Calls the daemon for what it answers at once (see [`Client::call`]).
    pub async fn read<Q: Clone, P>(
        &mut self,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<P, Fault> {
        self.call(READ_DEADLINE, request, send).await
    }

    /// As [`Client::call`].
    pub async fn call<Q: Clone, P>(
        &mut self,
        deadline: Duration,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<P, Fault> {
        self.client().await?.call(deadline, request, send).await
    }

    /// As [`Client::change`], for a change that adds and starts nothing.
    pub async fn change<Q: Clone, P>(
        &mut self,
        request: Q,
        send: impl AsyncFn(&mut ManClient<Channel>, Request<Q>) -> Result<Response<P>, Status>,
    ) -> Result<P, Fault> {
        let client = self.client().await?;
        client.change(Change::Other, request, send).await
    }

    /// Makes a call and hands over each message of its stream, until `take` returns false. After a
    /// lost connection `take` gets `None`, and every message once more by a new call.
    ///
    /// # Errors
    /// Those of `take`, the daemon's error, or why it cannot be reached.
    pub async fn each<Q: Clone, M, E: From<Fault>>(
        &mut self,
        deadline: Duration,
        request: Q,
        send: impl AsyncFn(
            &mut ManClient<Channel>,
            Request<Q>,
        ) -> Result<Response<Streaming<M>>, Status>,
        mut take: impl AsyncFnMut(Option<M>) -> Result<bool, E>,
    ) -> Result<(), E> {
        loop {
            let client = self.client().await?;
            let mut messages = client.call(deadline, request.clone(), &send).await?;
            loop {
                let message = match client.next(&mut messages).await? {
                    Next::Message(message) => Some(message),
                    Next::Lost => None,
                    Next::End => return Ok(()),
                };
                let is_lost = message.is_none();
                if !take(message).await? {
                    return Ok(());
                }
                if is_lost {
                    break;
                }
            }
        }
    }

    /// Makes a watch over the next calls that reports which of these nodes do
    /// not answer.
    pub async fn silence(&mut self, whose: AwaitedNodes) -> Result<Silence, Fault> {
        let out = self.out;
        Ok(self.client().await?.silence(out, whose))
    }

    /// The daemon, if it runs already.
    ///
    /// # Errors
    /// When a process answers that cannot be greeted.
    pub async fn running(&mut self) -> Result<Option<&mut Client>, Fault> {
        if self.client.is_none() {
            let Some(client) = Client::connect_only(&home()?, &Program::own()?).await? else {
                return Ok(None);
            };
            self.greeted(client);
        }
        self.known().map(Some)
    }

    /// Forgets the link: the next step makes a new one.
    pub fn hang_up(&mut self) {
        self.client = None;
    }

    fn greeted(&mut self, client: Client) {
        let client = client.telling(&self.changing);
        if let Some(skew) = client.skew() {
            self.out.note(&format!("note: {skew}"));
        }
        self.says_ssh(client.other_ssh());
        self.client = Some(client);
    }

    fn known(&mut self) -> Result<&mut Client, Fault> {
        self.client
            .as_mut()
            .ok_or_else(|| Fault::no_daemon("the daemon is not connected"))
    }
}

/// The first mistake of a configuration, and what holds meanwhile.
fn broken(error: &ConfigError) -> String {
    let first = match error {
        ConfigError::Mistakes { path, mistakes } if mistakes.list.len() > 1 => {
            let (first, more) = (&mistakes.list[0], mistakes.list.len() - 1);
            let (path, place) = (path.display(), &first.place);
            let place = format!("{path}:{}:{}", place.line, place.column);
            format!("{} ({place}), and {more} more", first.message)
        }
        other => other.to_string(),
    };
    format!("note: the configuration is broken, the last good one is in force: {first}")
}

/// The folders of Neronet.
///
/// # Errors
/// When the environment sets none.
pub fn home() -> Result<Home, Fault> {
    Home::find().map_err(|error| {
        Fault::usage("cannot tell where Neronet keeps its things")
            .because(&error)
            .hint("set NERONET_HOME to an absolute path")
    })
}

/// The configuration.
///
/// # Errors
/// Its mistakes.
pub fn read_config(home: &Home) -> Result<Config, Fault> {
    Config::read(&home.config).map_err(|error| {
        Fault::usage("the configuration cannot be used")
            .because(&error)
            .maybe_hint(error.hint())
    })
}

/// A selector as it was typed; several words are a union.
pub fn selection(words: &[String]) -> Selection {
    let zone = zone();
    let utc_offset_s = if zone.is_empty() {
        jiff::Zoned::now().offset().seconds().cast_unsigned()
    } else {
        0
    };
    Selection {
        text: words.join(","),
        utc_offset_s,
        zone,
    }
}

/// A selector of exactly these experiments or runs.
pub fn exactly(text: String) -> Selection {
    Selection {
        text,
        ..Selection::default()
    }
}

/// Refuses words that were typed and select nothing, as of a variable that is
/// not set: without words a verb may mean all experiments.
///
/// # Errors
/// When words are there and all of them are empty.
pub fn refuse_empty(words: &[String]) -> Result<(), Fault> {
    if words.is_empty() || words.iter().any(|word| !word.trim().is_empty()) {
        return Ok(());
    }
    Err(Fault::usage("the selector is empty")
        .hint("name experiments, for example 1-3 or crashed; all means every one"))
}

/// The name of the user's time zone; empty when it has none.
pub fn zone() -> String {
    let named = |text: &str| {
        let text = text.strip_prefix(':').unwrap_or(text);
        let plain = |c: char| c.is_ascii_alphanumeric() || "/_+-".contains(c);
        let is_name = (text.contains('/') || text == "UTC") && !text.starts_with('/');
        (is_name && text.chars().all(plain)).then(|| text.to_owned())
    };
    if let Some(zone) = std::env::var("TZ").ok().filter(|zone| !zone.is_empty()) {
        return named(&zone).unwrap_or_default();
    }
    std::fs::read_link("/etc/localtime")
        .ok()
        .and_then(|link| {
            link.to_str()?
                .split_once("zoneinfo/")
                .map(|(_, name)| name.to_owned())
        })
        .and_then(|name| named(&name))
        .unwrap_or_default()
}

/// A new request id.
pub fn request() -> Vec<u8> {
    RequestId::random().to_vec()
}

/// A path, made absolute for the daemon.
///
/// # Errors
/// When the present folder is gone, or the path is no text.
pub fn absolute(path: &str) -> Result<String, Fault> {
    let cannot = || Fault::usage(format!("cannot use the path `{path}`"));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let expanded = match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    };
    std::path::absolute(expanded)
        .map_err(|error| cannot().because(&error))?
        .into_os_string()
        .into_string()
        .map_err(|_| cannot().cause("it is not UTF-8 text"))
}

/// The variable in which a view that executes a line names itself.
pub const AUTHOR: &str = "NERONET_AUTHOR";

/// Who did it, for records: the view that executes this line, else the user's name.
pub fn author() -> String {
    [AUTHOR, "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
}
