//! The command line of `neromum`. Programs call it, not people: a few words
//! and options, read without a library.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use nero_model::paths::NodePaths;
use nero_model::{DeploymentId, MIN_FREE_BYTES};
use nero_node::cards::NodeCards;
use nero_node::config;
use nero_warden::{Kind, Settings};

use crate::lead::Terms;
use crate::relay::worker::{Worker, WorkerDoor};

/// Text of `--help`.
pub const HELP: &str = "\
The agent of one node: takes runs over, starts them, replicates what they record.

Usage:
  neromum serve --root DIR --deployment ID --node NAME [options]
  neromum dial  --root DIR --deployment ID --node NAME [options]
  neromum job FOLDER [--task N] [--job ID] [options]
  neromum door FOLDER SOCKET
  neromum call FOLDER NUMBER ADDRESS…
  neromum receive --pack FILE --bin DIR --build NAME
  neromum verify FOLDER
  neromum --version

serve    serves in the foreground; ends at once when another one serves there
dial     joins stdin and stdout to its socket; starts one when nobody answers
job      starts the runs of one task of a submission, in an allocation of a
         scheduler; see `neroman help schedulers`
door     (in an allocation) has other hosts of the cluster reach a worker's socket
         until stdin ends; prints its number and its addresses
call     joins stdin and stdout to the worker behind a door
receive  takes a pack of programs apart and puts them into DIR/NAME
verify   prints the name of the build that lies in FOLDER

Options:
  --cpus N          CPUs to give to runs (all; of an allocation: those it has)
  --memory BYTES    memory to give to runs (not counted)
  --gpus N          GPUs to give to runs: the first N, or [0,2] by number (all)
  --min-free BYTES  free disk to keep (67108864)
  --leave-after S   leave after so many seconds with nothing to do (60)
  --mark WORD       (dial) print a line with this word before anything else
  --shared WORD     several hosts share the root: yes, no, or auto: by its file
                    system (auto)
  --listen WHERE    for hosts that share the root: auto, never, or an address
  --warden NAME     the node's scheduler: none, slurm, oge, generic (none)
  --max-queued N    jobs of this user in its queue at most
  --max-running N   tasks of an array that run at once at most
  --recipe TEXT     how a generic scheduler is asked: neroman help schedulers
  --beat S          renew the lease of a shared root every so many seconds (15)
  --over EPOCH      (serve) lead though the leader of this epoch may live
  --because TEXT    (serve) why it cannot be reached
  --task N          (job) the scheduler's index of the task (0)
  --job ID          (job) the scheduler's id of the job, the same after a requeue
";

/// Command to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Serve a node.
    Serve(Options),
    /// Join stdin and stdout to the socket.
    Dial(Options),
    /// Start the runs of one task of a submission.
    Job(Grant),
    /// Have other hosts reach a worker.
    Door(Worker),
    /// Join stdin and stdout to a worker.
    Call(WorkerDoor),
    /// Put the programs of a pack into their place.
    Receive(Receive),
    /// Print the name of the build in a folder.
    Verify(PathBuf),
    /// Print the version.
    Version,
    /// Print the help.
    Help,
}

/// The node, and the share of it for runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The node's root.
    pub root: PathBuf,
    /// Deployment of the runs.
    pub deployment: DeploymentId,
    /// The node's name.
    pub node: String,
    /// CPUs to give.
    pub cpus: Option<f64>,
    /// Memory to give.
    pub memory: Option<u64>,
    /// GPUs to give.
    pub gpus: NodeCards,
    /// Free disk to keep.
    pub min_free: u64,
    /// Time without work after which neromum leaves.
    pub leave_after: Duration,
    /// Begin a session of its own: started by `dial`.
    pub own_session: bool,
    /// Mark that `dial` prints on a line of its own before the first byte.
    pub mark: Option<String>,
    /// How to lead where several hosts share the root.
    pub terms: Terms,
    /// Its scheduler.
    pub warden: Settings,
}

impl Options {
    /// Whether a lease decides who leads this node: several hosts share the root of
    /// a cluster.
    ///
    /// # Errors
    /// When the type of the root's file system cannot be read.
    pub fn by_lease(&self, paths: &NodePaths) -> std::io::Result<bool> {
        Ok(self.warden.kind != Kind::None || self.terms.by_lease(paths)?)
    }

    /// The same, for a `serve` in a session of its own.
    pub fn for_serve(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--own-session".into()];
        let mut give = |option: &str, value: OsString| args.extend([option.into(), value]);
        give("--root", self.root.clone().into());
        give("--deployment", self.deployment.to_string().into());
        give("--node", self.node.clone().into());
        give("--min-free", self.min_free.to_string().into());
        let leave_after = self.leave_after.as_secs_f64();
        give("--leave-after", leave_after.to_string().into());
        give("--shared", self.terms.shared.to_string().into());
        give("--listen", self.terms.listen.to_string().into());
        give("--beat", self.terms.beat.as_secs_f64().to_string().into());
        if let Some(over) = self.terms.over {
            give("--over", over.to_string().into());
            give("--because", self.terms.because.clone().into());
        }
        if let Some(cpus) = self.cpus {
            give("--cpus", cpus.to_string().into());
        }
        if let Some(memory) = self.memory {
            give("--memory", memory.to_string().into());
        }
        if let Some(gpus) = self.gpus.text() {
            give("--gpus", gpus.into());
        }
        args.extend(self.warden.words().into_iter().map(OsString::from));
        args
    }
}

/// A task of a submission, and what the scheduler grants it.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The submission's folder.
    pub folder: PathBuf,
    /// The scheduler's index; 0 without an array.
    pub task: u32,
    /// The scheduler's id, for people.
    pub job: String,
    /// CPUs to give to runs; none: those that this process may use.
    pub cpus: Option<f64>,
    /// Memory to give to runs; none: it is not counted.
    pub memory: Option<u64>,
    /// GPUs that each of its runs asks for.
    pub gpus: u32,
    /// What the lines of `setup` printed; none: it has none.
    pub setup: Option<PathBuf>,
    /// Free disk to keep.
    pub min_free: u64,
}

/// A pack that arrived, and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The pack.
    pub pack: PathBuf,
    /// The node's `bin/`.
    pub bin: PathBuf,
    /// The build that it must be.
    pub build: String,
}

/// Reason why a command line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// No or another first word.
    #[error("say what to do: serve, dial, job, door, call, receive, verify or --version")]
    Command,
    /// An option that does not exist.
    #[error("there is no option {0}")]
    Unknown(String),
    /// An option lacks its value, or has an invalid one.
    #[error("{option} needs {needs}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its allowed values.
        needs: &'static str,
    },
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// When the command line is invalid.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, ArgsError> {
    let mut args = args.into_iter();
    let first = args.next();
    match first.as_ref().and_then(|word| word.to_str()) {
        Some("serve") => options(args).map(Command::Serve),
        Some("dial") => options(args).map(Command::Dial),
        Some("job") => grant(args).map(Command::Job),
        Some("door") => door(args).map(Command::Door),
        Some("call") => called(args).map(Command::Call),
        Some("receive") => receive(args).map(Command::Receive),
        Some("verify") => verify(args).map(Command::Verify),
        Some("--version" | "-V") => Ok(Command::Version),
        Some("--help" | "-h" | "help") => Ok(Command::Help),
        _ => Err(ArgsError::Command),
    }
}

fn options(mut args: impl Iterator<Item = OsString>) -> Result<Options, ArgsError> {
    let (mut root, mut deployment, mut node) = (None, None, None);
    let (mut cpus, mut memory, mut gpus) = (None, None, NodeCards::All);
    let mut min_free = MIN_FREE_BYTES;
    let mut leave_after = config::LEAVE_AFTER;
    let mut own_session = false;
    let mut mark = None;
    let mut terms = Terms::default();
    let mut warden = Settings::default();
    while let Some(option) = args.next() {
        let option = option.to_string_lossy().into_owned();
        if option == "--own-session" {
            own_session = true;
            continue;
        }
        let value = args.next();
        let text = value.as_ref().and_then(|value| value.to_str());
        match option.as_str() {
            "--root" => root = value.map(PathBuf::from).filter(|path| path.is_absolute()),
            "--deployment" => deployment = text.and_then(deployment_id),
            "--node" => node = text.filter(|name| !name.is_empty()).map(str::to_owned),
            "--cpus" => cpus = Some(number(text, "--cpus", positive)?),
            "--memory" => memory = Some(number(text, "--memory", whole)?),
            "--gpus" => gpus = number(text, "--gpus", NodeCards::read)?,
            "--min-free" => min_free = number(text, "--min-free", whole)?,
            "--mark" => mark = Some(parse_mark(text)?),
            "--shared" => terms.shared = one_of(text, "--shared", "yes, no or auto")?,
            "--listen" => terms.listen = one_of(text, "--listen", "auto, never or an address")?,
            "--beat" => {
                terms.beat = Duration::from_secs_f64(number(text, "--beat", beat)?);
            }
            "--warden" => taken(&mut warden, text, "--warden")?,
            "--max-queued" => taken(&mut warden, text, "--max-queued")?,
            "--max-running" => taken(&mut warden, text, "--max-running")?,
            "--recipe" => taken(&mut warden, text, "--recipe")?,
            "--over" => terms.over = Some(number(text, "--over", whole)?),
            "--because" => terms.because = text.unwrap_or_default().to_owned(),
            "--leave-after" => {
                leave_after = Duration::from_secs_f64(number(text, "--leave-after", positive)?);
            }
            _ => return Err(ArgsError::Unknown(option)),
        }
    }
    let missing = |option, needs| ArgsError::Value { option, needs };
    if warden.kind != Kind::None && warden.warden().is_none() {
        return Err(missing(
            "--recipe",
            "the description of a generic scheduler",
        ));
    }
    Ok(Options {
        root: root.ok_or(missing("--root", "an absolute path"))?,
        deployment: deployment.ok_or(missing("--deployment", "26 characters or 32 hex digits"))?,
        node: node.ok_or(missing("--node", "a name"))?,
        cpus,
        memory,
        gpus,
        min_free,
        leave_after,
        own_session,
        mark,
        terms,
        warden,
    })
}

fn grant(mut args: impl Iterator<Item = OsString>) -> Result<Grant, ArgsError> {
    let mut grant = Grant {
        folder: absolute(args.next(), "job", SUBMISSION)?,
        task: 0,
        job: String::new(),
        cpus: None,
        memory: None,
        gpus: 0,
        setup: None,
        min_free: MIN_FREE_BYTES,
    };
    while let Some(option) = args.next() {
        let option = option.to_string_lossy().into_owned();
        let value = args.next();
        let text = value.as_ref().and_then(|value| value.to_str());
        match option.as_str() {
            "--task" => grant.task = number(text, "--task", |text| text.parse().ok())?,
            "--job" => grant.job = text.unwrap_or_default().to_owned(),
            "--gpus" => grant.gpus = number(text, "--gpus", |text| text.parse().ok())?,
            "--cpus" => grant.cpus = Some(number(text, "--cpus", positive)?),
            "--memory" => grant.memory = Some(number(text, "--memory", whole)?),
            "--setup" => grant.setup = Some(absolute(value, "--setup", "an absolute path")?),
            "--min-free" => grant.min_free = number(text, "--min-free", whole)?,
            _ => return Err(ArgsError::Unknown(option)),
        }
    }
    Ok(grant)
}

fn absolute(
    word: Option<OsString>,
    option: &'static str,
    needs: &'static str,
) -> Result<PathBuf, ArgsError> {
    word.map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .ok_or(ArgsError::Value { option, needs })
}

const SUBMISSION: &str = "the absolute path of a submission's folder";

fn door(mut args: impl Iterator<Item = OsString>) -> Result<Worker, ArgsError> {
    Ok(Worker {
        submission: absolute(args.next(), "door", SUBMISSION)?,
        socket: absolute(args.next(), "door", "the absolute path of a socket")?,
    })
}

fn called(mut args: impl Iterator<Item = OsString>) -> Result<WorkerDoor, ArgsError> {
    let submission = absolute(args.next(), "call", SUBMISSION)?;
    let text = args.next();
    Ok(WorkerDoor {
        submission,
        number: number(text.as_ref().and_then(|text| text.to_str()), "call", whole)?,
        addresses: args
            .map(|address| address.to_string_lossy().into_owned())
            .collect(),
    })
}

fn receive(mut args: impl Iterator<Item = OsString>) -> Result<Receive, ArgsError> {
    let (mut pack, mut bin, mut build) = (None, None, None);
    while let Some(option) = args.next() {
        let value = args.next().map(PathBuf::from);
        match option.to_str() {
            Some("--pack") => pack = value,
            Some("--bin") => bin = value,
            Some("--build") => build = value,
            _ => return Err(ArgsError::Unknown(option.to_string_lossy().into_owned())),
        }
    }
    let missing = |option, needs| ArgsError::Value { option, needs };
    Ok(Receive {
        pack: pack.ok_or(missing("--pack", "a file"))?,
        bin: bin.ok_or(missing("--bin", "a folder"))?,
        build: build
            .and_then(|name| name.to_str().map(str::to_owned))
            .filter(|name| nero_model::builds::is_name(name))
            .ok_or(missing("--build", "the name of a build"))?,
    })
}

fn verify(mut args: impl Iterator<Item = OsString>) -> Result<PathBuf, ArgsError> {
    args.next().map(PathBuf::from).ok_or(ArgsError::Value {
        option: "verify",
        needs: "a folder",
    })
}

/// A mark: letters and digits only, since it is searched in a shell's output.
fn parse_mark(text: Option<&str>) -> Result<String, ArgsError> {
    text.filter(|text| (1..=64).contains(&text.len()))
        .filter(|text| text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'))
        .map(str::to_owned)
        .ok_or(ArgsError::Value {
            option: "--mark",
            needs: "up to 64 letters and digits",
        })
}

fn one_of<T: std::str::FromStr>(
    text: Option<&str>,
    option: &'static str,
    needs: &'static str,
) -> Result<T, ArgsError> {
    text.and_then(|text| text.parse().ok())
        .ok_or(ArgsError::Value { option, needs })
}

/// Reads an option about the scheduler.
fn taken(warden: &mut Settings, text: Option<&str>, option: &'static str) -> Result<(), ArgsError> {
    let read = warden.take(option, text.unwrap_or_default());
    read.ok_or(ArgsError::Value {
        option,
        needs: "the word that neroman gives it",
    })
}

fn number<T>(
    text: Option<&str>,
    option: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, ArgsError> {
    text.and_then(read).ok_or(ArgsError::Value {
        option,
        needs: "a positive number",
    })
}

fn positive(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number > 0.0 && number <= 1e6).then_some(number)
}

/// Seconds between beats, within the bounds that other hosts accept.
fn beat(text: &str) -> Option<f64> {
    positive(text).filter(|seconds| (0.05..=600.0).contains(seconds))
}

fn whole(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// 26 characters as ids print, or 32 hexadecimal digits.
fn deployment_id(text: &str) -> Option<DeploymentId> {
    let bits_each = match text.len() {
        26 => 5,
        32 => 4,
        _ => return None,
    };
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(16), 0u32, 0u32);
    for digit in text.bytes() {
        let value = match (bits_each, digit) {
            (5, b'a'..=b'z') => digit - b'a',
            (5, b'2'..=b'7') => digit - b'2' + 26,
            (4, _) => char::from(digit).to_digit(16)? as u8,
            _ => return None,
        };
        held = (held << bits_each) | u32::from(value);
        bits += bits_each;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    let id = DeploymentId::from_slice(&bytes)?;
    // The last of 26 characters has bits to spare; they must be zero.
    (held == 0).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, ArgsError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_deployment_reads_back_in_both_spellings() {
        for _ in 0..100 {
            let id = DeploymentId::random();
            assert_eq!(deployment_id(&id.to_string()), Some(id));
            assert_eq!(
                deployment_id(&nero_model::ids::hex(id.as_bytes())),
                Some(id)
            );
        }
        for wrong in [
            "",
            "abc",
            "!aaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaab",
        ] {
            assert_eq!(deployment_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn command_lines_are_read_or_refused_by_name() {
        let id = DeploymentId::random();
        let line = format!("serve --root /r --deployment {id} --node local --cpus 2.5");
        let shared = "--shared yes --listen 10.0.0.7 --beat 0.5 --over 3 --because no-route";
        let warden = "--warden slurm --max-queued 100 --max-running 7";
        let line = format!("{line} {shared} {warden}");
        let Command::Serve(options) = read(&line).unwrap() else {
            panic!("not read as serve");
        };
        assert_eq!((options.cpus, options.deployment), (Some(2.5), id));
        assert_eq!(options.min_free, MIN_FREE_BYTES);
        assert!(HELP.contains(&format!("({MIN_FREE_BYTES})")));
        let again = parse([vec!["serve".into()], options.for_serve()].concat());
        let expected = Options {
            own_session: true,
            ..options
        };
        assert_eq!(expected.warden.max_queued, Some(100));
        assert_eq!(again, Ok(Command::Serve(expected)));
        let error = read(&format!("{line} --warden pbs")).unwrap_err();
        assert!(error.to_string().contains("--warden"));
        assert_eq!(read("--version"), Ok(Command::Version));
        assert_eq!(read(""), Err(ArgsError::Command));
        let error = read("serve --root relative").unwrap_err();
        assert!(error.to_string().contains("--root"));
        let error = read("serve --what x").unwrap_err();
        assert_eq!(error, ArgsError::Unknown("--what".to_owned()));
        let error = read(&format!("{line} --cpus -1")).unwrap_err();
        assert!(error.to_string().contains("--cpus"));
        let error = read(&format!("{line} --mark a;b")).unwrap_err();
        assert!(error.to_string().contains("--mark"));
        let error = read(&format!("{line} --listen everywhere")).unwrap_err();
        assert!(error.to_string().contains("never or an address"));
        let Command::Job(grant) = read("job /s --task 3 --cpus 2 --memory 9 --job 7_3").unwrap()
        else {
            panic!("not read as job");
        };
        let granted = (grant.task, grant.cpus, grant.memory, &*grant.job);
        assert_eq!(granted, (3, Some(2.0), Some(9), "7_3"));
        for wrong in ["job", "job relative", "job /s --task x", "job /s --what 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let worker = Worker {
            submission: "/s".into(),
            socket: "/w".into(),
        };
        assert_eq!(read("door /s /w"), Ok(Command::Door(worker)));
        let called = WorkerDoor {
            submission: "/s".into(),
            number: u64::MAX,
            addresses: vec!["10.0.0.1:7".to_owned()],
        };
        let line = format!("call /s {} 10.0.0.1:7", u64::MAX);
        assert_eq!(read(&line), Ok(Command::Call(called)));
        for wrong in ["door /s", "door s /w", "call /s", "call /s x 10.0.0.1:7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read("verify /x"), Ok(Command::Verify("/x".into())));
        let error = read("receive --pack /p --bin /b --build ../x").unwrap_err();
        assert!(error.to_string().contains("--build"));
    }
}
