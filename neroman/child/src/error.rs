//! Why a process gave no answer.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;

use crate::{ADDRESS_SPACE_MAX, BUILD, CPU_SECONDS_MAX, OFFICE};

/// The exit code of a program of Rust that panicked.
const PANICKED: i32 = 101;

/// Why a process gave no answer, in words for people. `program` is its name.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The system refuses to start it, or to tell how it goes on.
    #[error("cannot {doing} {program}: {error}")]
    System {
        doing: &'static str,
        program: String,
        error: io::Error,
    },
    /// It was ended because it took longer.
    #[error("{program} did not end within {} s", .patience.as_secs())]
    Late { program: String, patience: Duration },
    /// It was ended because it printed more bytes.
    #[error("{program} printed more than {} MiB", .bytes >> 20)]
    Long { program: String, bytes: usize },
    /// `neroman-office` is not in this folder.
    #[error(
        "neroman-office is not in {}, beside neroman: install both, `cargo xtask install` or install.sh of a release",
        .0.display()
    )]
    Absent(PathBuf),
    /// `neroman-office` in this folder is of another build.
    #[error(
        "neroman-office in {} is of another build than this neroman, {BUILD}: install both of one release, then `neroman daemon stop`",
        .0.display()
    )]
    OtherBuild(PathBuf),
    /// It met the limit of its time on a processor.
    #[error("it takes more than {CPU_SECONDS_MAX} s of processor time")]
    Processor,
    /// It met the limit of its memory.
    #[error("it needs more than {} MiB of memory", ADDRESS_SPACE_MAX >> 20)]
    Memory,
    /// Something else ended it.
    #[error("{OFFICE} was killed (SIGKILL): this machine may be short of memory; try again")]
    Killed,
    /// A reader of formats met what it did not expect, which is no bug of ours.
    #[error("it is damaged: what it says of itself does not fit together")]
    Damaged,
    /// It failed by itself.
    #[error("{0}")]
    Failed(String),
}

impl ChildError {
    /// Of the system, which refused this for a program.
    pub(crate) fn system(
        doing: &'static str,
        program: &str,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let program = program.to_owned();
        move |error| Self::System {
            doing,
            program,
            error,
        }
    }

    /// Why a process of `neroman-office` that ended this way has no answer; `last_words`: what it
    /// printed last.
    pub(crate) fn of_end(status: ExitStatus, last_words: String) -> Self {
        match status.signal().map(Signal::from_named_raw) {
            None if status.code() == Some(PANICKED) => Self::Damaged,
            None => Self::Failed(last_words),
            Some(Some(Signal::XCPU)) => Self::Processor,
            Some(Some(Signal::KILL)) => Self::Killed,
            // What finds no memory ends itself by one of these.
            Some(Some(Signal::ABORT | Signal::SEGV | Signal::BUS)) => Self::Memory,
            Some(_) => Self::Failed(format!("{OFFICE} was ended: {status}; try again")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_is_told_from_one_that_met_a_limit() {
        let why = |status| ChildError::of_end(ExitStatus::from_raw(status), "no SVG".into());
        assert!(matches!(why(24), ChildError::Processor));
        assert!(matches!(why(9), ChildError::Killed));
        assert!(matches!(why(6), ChildError::Memory));
        let by_hand = "neroman-office was ended: signal: 15 (SIGTERM); try again";
        assert_eq!(why(15).to_string(), by_hand);
        assert_eq!(why(1 << 8).to_string(), "no SVG");
    }
}
