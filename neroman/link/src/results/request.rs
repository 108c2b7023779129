//! Which files of a run are asked for.

use std::collections::HashSet;

use nero_model::safe::Safe;
use nero_wire::v1;

/// A request for files of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct FileRequest {
    pub(super) globs: Vec<Glob>,
    /// Whether the run is live: missing files do not matter yet.
    pub(super) live: bool,
    /// A person has just named the globs: a glob that fits nothing is reported.
    pub(super) named: bool,
    pub(super) unnamed: UnnamedFiles,
}

/// Treatment of files that fit no glob and that the job made or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UnnamedFiles {
    /// They are ignored.
    #[default]
    Ignore,
    /// They stay, which is reported.
    Report,
    /// They come, up to this many bytes in all.
    Fetch { most: u64 },
}

impl FileRequest {
    /// A line for each glob that matches no file of a list, if `named` is set.
    pub(super) fn unfit(&self, list: &v1::ListFilesReply) -> Vec<String> {
        let globs = self.unfitting(list).into_iter().filter(|_| self.named);
        globs
            .map(|glob| format!("nothing fits `{}`", Safe::line(&glob.path)))
            .collect()
    }

    /// The globs that match no file of a list.
    pub(super) fn unfitting(&self, list: &v1::ListFilesReply) -> Vec<&Glob> {
        // Without the globs of each file a list cannot be judged.
        let is_silent = |entry: &v1::FileEntry| entry.globs.is_empty() && !entry.made;
        if list.files.iter().any(is_silent) || list.links.iter().any(|link| link.fits) {
            return Vec::new();
        }
        let found: HashSet<u32> = list
            .files
            .iter()
            .flat_map(|entry| entry.globs.iter().copied())
            .collect();
        (0..)
            .zip(&self.globs)
            .filter(|(index, _)| !found.contains(index))
            .map(|(_, glob)| glob)
            .collect()
    }
}

/// One pattern, and the largest file that it brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    pub(super) path: String,
    /// Whether `outputs:` names it, and not `checkpoint:`.
    pub(super) is_output: bool,
    pub(super) most: u64,
}
