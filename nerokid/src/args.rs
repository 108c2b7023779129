//! The command line. Options may stand before the command, since the launcher
//! puts the arguments that it was given first.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::act::Act;
use crate::gpus::own::OwnCards;

/// Usage text.
pub const USAGE: &str = "\
usage: nerokid [--socket PATH] [--gpus FOLDER --cards UUIDS] watch RUN_DIR INCARNATION
       nerokid [--socket PATH] settle < LINES
       nerokid host RUN_DIR INCARNATION [NAME]
       nerokid gpus FOLDER [SYS]
       nerokid act FOLDER SECONDS WORK COMMAND
       nerokid --version

watch follows one live run until it is over: output, metrics, samples, rules.
settle reads lines `RUN_DIR<tab>INCARNATION` of runs that have ended, does the
same for each, and answers each with a line `ok …`, `full …`, `busy …` or `failed …`.
host measures a run's processes on one host of several until standard input ends or
the run is over, and ends what is left then.
gpus reads the host's GPUs once a second into a page in FOLDER, as long as it is read;
SYS stands in place of /sys.
act runs the command of one firing of a rule in WORK, once, and leaves its end in FOLDER;
0 SECONDS: it has no limits and ends when FOLDER is removed.
All are started by Neronet itself.";

/// Command to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Watch a run.
    Watch {
        /// Folder of the run.
        run_dir: PathBuf,
        /// Number of the job's start.
        incarnation: u32,
        /// neromum's socket.
        socket: Option<PathBuf>,
        /// The run's GPUs, where the node gave it some.
        cards: Option<OwnCards>,
    },
    /// Settle the runs named on stdin.
    Settle,
    /// Measure a run's processes on one of its hosts.
    Host {
        /// Folder of the run.
        run_dir: PathBuf,
        /// Number of the job's start.
        incarnation: u32,
        /// The host's name at the scheduler; `None`: the scheduler's variable has it.
        name: Option<String>,
    },
    /// Read the host's GPUs.
    Gpus {
        /// Folder of the page.
        folder: PathBuf,
        /// `/sys`, or what stands in its place.
        sys: PathBuf,
    },
    /// Run the command of one firing of a rule.
    Act(Act),
    /// Print the version.
    Version,
    /// Print the usage text.
    Help,
}

/// The command line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// An option that does not exist.
    #[error("there is no option `{0}`")]
    Option(String),
    /// A command that does not exist.
    #[error("there is no command `{0}`")]
    Command(String),
    /// An argument is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// There are too many arguments.
    #[error("`{0}` is too much")]
    TooMuch(String),
    /// Not a number from 1.
    #[error("`{0}` is no incarnation: they count from 1")]
    Incarnation(String),
}

/// Reads the arguments behind the program's name.
///
/// # Errors
/// See [`ArgsError`].
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, ArgsError> {
    let mut words = Vec::new();
    let (mut socket, mut folder, mut cards) = (None, None, None);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let mut value = |what| args.next().ok_or(ArgsError::Missing(what));
        match arg.to_str() {
            // A command may look like an option.
            _ if words.first().is_some_and(|word| word == "act") => words.push(arg),
            Some("--socket") => socket = Some(PathBuf::from(value("the path of --socket")?)),
            Some("--gpus") => folder = Some(value("the folder of --gpus")?),
            Some("--cards") => cards = Some(value("the names of --cards")?),
            Some("--version" | "-V") => return Ok(Command::Version),
            Some("--help" | "-h") => return Ok(Command::Help),
            Some(option) if option.starts_with("--") => match option.split_once('=') {
                Some(("--socket", path)) => socket = Some(PathBuf::from(path)),
                _ => return Err(ArgsError::Option(option.to_owned())),
            },
            _ => words.push(arg),
        }
    }
    let mut words = words.into_iter();
    let text = |word: OsString| word.to_string_lossy().into_owned();
    let command = text(words.next().ok_or(ArgsError::Missing("the command"))?);
    let parsed = match command.as_str() {
        "watch" => {
            let (run_dir, incarnation) = start(&mut words)?;
            Command::Watch {
                run_dir,
                incarnation,
                socket,
                cards: folder
                    .zip(cards)
                    .map(|(folder, cards)| OwnCards::of(folder.into(), &text(cards))),
            }
        }
        "host" => {
            let (run_dir, incarnation) = start(&mut words)?;
            Command::Host {
                run_dir,
                incarnation,
                name: words.next().map(text),
            }
        }
        "gpus" => Command::Gpus {
            folder: words.next().ok_or(ArgsError::Missing("FOLDER"))?.into(),
            sys: words.next().unwrap_or_else(|| "/sys".into()).into(),
        },
        "act" => {
            let mut next = |what| words.next().ok_or(ArgsError::Missing(what));
            let folder = next("FOLDER")?.into();
            let seconds = text(next("SECONDS")?).parse().ok();
            let seconds = seconds.ok_or(ArgsError::Missing("SECONDS"))?;
            Command::Act(Act {
                folder,
                limit: (seconds > 0).then(|| Duration::from_secs(seconds)),
                work: next("WORK")?.into(),
                command: next("COMMAND")?,
            })
        }
        "settle" => Command::Settle,
        _ => return Err(ArgsError::Command(command)),
    };
    match words.next() {
        Some(extra) => Err(ArgsError::TooMuch(text(extra))),
        None => Ok(parsed),
    }
}

/// `RUN_DIR INCARNATION`.
fn start(words: &mut impl Iterator<Item = OsString>) -> Result<(PathBuf, u32), ArgsError> {
    let run_dir = words.next().ok_or(ArgsError::Missing("RUN_DIR"))?.into();
    let number = words.next().ok_or(ArgsError::Missing("INCARNATION"))?;
    let number = number.to_string_lossy().into_owned();
    let incarnation = number.parse().ok().filter(|number| *number > 0);
    Ok((run_dir, incarnation.ok_or(ArgsError::Incarnation(number))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(line: &str) -> Result<Command, ArgsError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_stand_before_or_behind_the_command() {
        let watch = Ok(Command::Watch {
            run_dir: "/r/1".into(),
            incarnation: 2,
            socket: Some("/s".into()),
            cards: None,
        });
        assert_eq!(parse_words("--socket /s watch /r/1 2"), watch);
        assert_eq!(parse_words("watch /r/1 2 --socket=/s"), watch);
        let with_cards = parse_words("--gpus /g --cards GPU-a,GPU-b watch /r/1 2");
        let Ok(Command::Watch { cards, .. }) = with_cards else {
            panic!("{with_cards:?}");
        };
        assert_eq!(cards, Some(OwnCards::of("/g".into(), "GPU-a,GPU-b")));
        assert_eq!(parse_words("--socket /s settle"), Ok(Command::Settle));
        let host = |name: Option<&str>| {
            Ok(Command::Host {
                run_dir: "/r/1".into(),
                incarnation: 2,
                name: name.map(str::to_owned),
            })
        };
        assert_eq!(parse_words("host /r/1 2 n1"), host(Some("n1")));
        assert_eq!(parse_words("host /r/1 2"), host(None));
        assert_eq!(parse_words("--version"), Ok(Command::Version));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, message) in [
            ("", "the command is missing"),
            ("watch /r", "INCARNATION is missing"),
            ("watch /r 0", "`0` is no incarnation: they count from 1"),
            ("watch /r 1 2", "`2` is too much"),
            ("look", "there is no command `look`"),
            ("--sock /s settle", "there is no option `--sock`"),
            ("gpus", "FOLDER is missing"),
            ("settle --socket", "the path of --socket is missing"),
        ] {
            assert_eq!(parse_words(line).unwrap_err().to_string(), message);
        }
    }
}
