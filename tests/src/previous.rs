//! Programs of an earlier build, to be mixed with those of this build.

use std::path::{Path, PathBuf};

use crate::Home;
use crate::home::program;

/// Variable with the folder of all programs of an earlier revision; see `cargo
/// xtask skew`.
pub const PREVIOUS: &str = "NERONET_PREVIOUS";

/// Two builds.
#[derive(Clone, Debug)]
pub struct Builds {
    /// Programs of an earlier revision, or this one's with other content.
    pub older: PathBuf,
    /// Programs of this build.
    pub newer: PathBuf,
}

impl Builds {
    /// The earlier revision in the environment; without one, this build with
    /// other content.
    pub fn of(home: &Home) -> Self {
        let older = match std::env::var_os(PREVIOUS) {
            Some(folder) => PathBuf::from(folder),
            None => home.other_build(1),
        };
        let newer = program("neroman");
        Self {
            older,
            newer: newer.parent().unwrap_or(Path::new("/")).to_path_buf(),
        }
    }

    /// Whether the older build reaches nodes over ssh.
    pub fn older_knows_nodes(&self, home: &mut Home) -> bool {
        home.use_programs(&self.older);
        let knows = home.run(&["node", "add", "--help"]).code == Some(0);
        home.use_programs(&self.newer);
        knows
    }
}
