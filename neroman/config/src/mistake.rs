//! Mistakes of the file and their texts.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nero_model::safe::Safe;
use nero_yaml::{Mistake, Mistakes};

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The file is far larger than any configuration.
    #[error("{path} is larger than 1 MiB")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file or its folder is another user's.
    #[error(
        "{} belongs to another user (id {owner}) and is not obeyed; if its content is right: `sudo chown {own} {}`, else set NERONET_HOME to a folder of your own",
        display_path(path),
        display_path(path)
    )]
    Stranger {
        /// The file or the folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our own user.
        own: u32,
    },
    /// Another user may write the file, or replace it.
    #[error(
        "{} can be written by {by} and is not obeyed; look at it, then `chmod go-w {}`",
        display_path(path),
        display_path(path)
    )]
    Writable {
        /// The file or the folder.
        path: PathBuf,
        /// Who may.
        by: &'static str,
    },
    /// A value that is not valid, or a key that is not built.
    #[error("{}", MistakeList { path, mistakes })]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// All of them.
        mistakes: Mistakes,
    },
}

impl ConfigError {
    /// What to do, when there is one answer.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Mistakes { mistakes, .. } if mistakes.list.len() == 1 => {
                Some(mistakes.list[0].hint.as_str()).filter(|hint| !hint.is_empty())
            }
            // The message holds the command.
            Self::Mistakes { .. } | Self::Stranger { .. } | Self::Writable { .. } => None,
            Self::Read { .. } => Some("give yourself the right to read it, or move it away"),
            Self::TooLarge { .. } => Some("move it away: it is no configuration"),
        }
    }
}

fn display_path(path: &Path) -> String {
    Safe::line(&path.display().to_string()).to_string()
}

/// All mistakes, a line each.
struct MistakeList<'a> {
    path: &'a PathBuf,
    mistakes: &'a Mistakes,
}

impl fmt::Display for MistakeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        let path = Safe::line(&path);
        let Mistakes { list, truncated } = self.mistakes;
        let several = list.len() > 1;
        if several {
            let more = if *truncated { "more than " } else { "" };
            write!(f, "{path} has {more}{} mistakes", list.len())?;
        }
        for Mistake {
            place,
            message,
            hint,
        } in list
        {
            if several {
                f.write_str("\n  ")?;
            }
            write!(f, "{message} ({path}:{}:{})", place.line, place.column)?;
            if several && !hint.is_empty() {
                write!(f, "; {hint}")?;
            }
        }
        Ok(())
    }
}
