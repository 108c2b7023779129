//! Chooses the files to fetch now: compares a node's list with the request, the
//! limits, and the files here.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use nero_model::RunId;
use nero_model::safe::Safe;
use nero_wire::v1;

use super::folder::{Folder, earlier_path, link_target, safe_path};
use super::names::{LinkTargets, Names};
use super::notes::Notes;
use super::request::{FileRequest, Glob, UnnamedFiles};
use super::stamps::{FileStamps, Stamp};

/// Files of one run that are fetched at most.
pub(super) const FILES_MAX: usize = 100_000;
/// How much a file may have grown since it was listed.
const GROWN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A file to fetch.
#[derive(Clone, Debug)]
pub(super) struct FileToFetch {
    /// The node's name for it.
    pub(super) name: String,
    /// Its path below the results.
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    /// The offset to begin at: an earlier try brought the bytes before.
    pub(super) from: u64,
    /// Most bytes that are taken.
    pub(super) most: u64,
    pub(super) executable: bool,
}

/// A file that is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfetchedFile {
    /// The name as it is shown.
    pub name: String,
    pub bytes: u64,
}

/// The files of a list, by what happens to them.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) wanted: Vec<FileToFetch>,
    /// Bytes to fetch.
    pub(super) bytes: u64,
    /// Files whose copy here is up to date.
    pub(super) unchanged: u64,
    /// Links to make: path and target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Files that are too large to come.
    pub(super) left: Vec<UnfetchedFile>,
    /// Files for which there is no room here.
    pub(super) no_room: Vec<UnfetchedFile>,
    /// Files that the job made and no glob names.
    pub(super) unnamed: Vec<UnfetchedFile>,
    /// Outputs that match no file.
    pub(super) unfit: Vec<String>,
    /// Files that can never come home: without a name that can be kept, too
    /// many, or not even listed.
    pub(super) unkept: u64,
    pub(super) notes: Notes,
}

/// The run and the node, for texts.
#[derive(Clone, Debug)]
pub(super) struct RunOnNode {
    pub(super) run: RunId,
    pub(super) node: String,
}

/// Chooses from a list; the chosen bytes fit into `room`. Blocks: looks at the
/// files here.
pub(super) fn choose(
    list: &v1::ListFilesReply,
    ask: &FileRequest,
    whose: &RunOnNode,
    folder: &mut Folder,
    known: &FileStamps,
    room: u64,
) -> Choice {
    let mut choice = Choice::of_list(list, ask, whose);
    let names = Names::of(list, folder);
    let leads = LinkTargets::of(list);
    let loose = coming(list, ask.unnamed);
    let mut taken: HashSet<PathBuf> = HashSet::new();
    for entry in list.files.iter().take(FILES_MAX) {
        let shown = Safe::line(&entry.path).to_string();
        // A link without its target would be a name of nothing here.
        let is_named =
            !entry.globs.is_empty() || !entry.made || leads.include(Path::new(&entry.path));
        let stays = || UnfetchedFile {
            name: shown.clone(),
            bytes: entry.size,
        };
        if !is_named && ask.unnamed == UnnamedFiles::Report {
            choice.unnamed.push(stays());
            continue;
        }
        let most = if is_named {
            most(entry, &ask.globs)
        } else if loose.contains(entry.path.as_str()) {
            u64::MAX
        } else {
            0
        };
        if entry.size > most {
            choice.left.push(stays());
            choice.notes.add(format!(
                "{shown} has {} bytes and stays on {}: neroman fetch {} --include '{shown}'",
                entry.size, whose.node, whose.run,
            ));
            continue;
        }
        let Some(path) = choice.own_path(&names, &entry.path, &mut taken) else {
            continue;
        };
        let stamp = Stamp::of(entry);
        if is_here(&entry.path, &path, stamp, folder, known)
            || was_here(&entry.path, &path, stamp, folder)
        {
            choice.unchanged += 1;
            continue;
        }
        let from = half(&entry.path, &path, stamp, folder, known);
        choice.wanted.push(FileToFetch {
            name: entry.path.clone(),
            path,
            stamp,
            from,
            most: most.min(grown(stamp.size)),
            executable: entry.executable,
        });
    }
    choice.links(list, ask, &leads, whose);
    choice.fit_into(room);
    choice
}

impl Choice {
    /// The path of a file here, which no other file of the list has.
    fn own_path(
        &mut self,
        names: &Names,
        name: &str,
        taken: &mut HashSet<PathBuf>,
    ) -> Option<PathBuf> {
        let path = names.path(name);
        let shown = Safe::line(name);
        let Some(path) = path.filter(|path| taken.insert(path.clone())) else {
            self.unkept += 1;
            self.notes
                .add(format!("{shown} has no name that can be kept"));
            return None;
        };
        if path != Path::new(name) {
            let own = Safe::line(path.as_os_str().as_encoded_bytes());
            self.notes.add(format!("{shown} is kept as {own}"));
        }
        Some(path)
    }

    /// Chooses the links of a list.
    fn links(
        &mut self,
        list: &v1::ListFilesReply,
        ask: &FileRequest,
        leads: &LinkTargets,
        whose: &RunOnNode,
    ) {
        for link in &list.links {
            let is_named = link.fits || leads.include(Path::new(&link.path));
            if is_named || matches!(ask.unnamed, UnnamedFiles::Fetch { .. }) {
                self.link(link, &list.work, whose);
                if leads.to_nothing(link, list) {
                    let shown = Safe::line(&link.path);
                    let target = Safe::line(&link.target);
                    self.notes.add(format!(
                        "{shown} is a link to {target}, which does not come along from {}",
                        whose.node
                    ));
                }
            }
        }
    }

    /// Nothing chosen yet: what a list tells besides its files.
    fn of_list(list: &v1::ListFilesReply, ask: &FileRequest, whose: &RunOnNode) -> Self {
        let mut choice = Choice {
            unkept: unlisted(list),
            ..Choice::default()
        };
        for line in ask.unfit(list) {
            choice.notes.add(line);
        }
        if !ask.live || ask.named {
            for left_out in &list.left_out {
                let line = format!("left on {}: {}", whose.node, Safe::line(left_out));
                choice.notes.add(line);
            }
        }
        if ask.unnamed != UnnamedFiles::Ignore {
            let unfit = ask.unfitting(list).into_iter();
            let unfit = unfit.filter(|glob| glob.is_output);
            choice.unfit = unfit
                .map(|glob| Safe::line(&glob.path).to_string())
                .collect();
            if !list.made_told {
                let line = format!(
                    "{} runs an agent that does not tell what a run made",
                    whose.node
                );
                choice.notes.add(line);
            }
        }
        if list.files.len() > FILES_MAX {
            choice.notes.add(format!(
                "{} files are too many; the first {FILES_MAX} came home",
                list.files.len()
            ));
        }
        choice
    }

    fn link(&mut self, link: &v1::LinkEntry, work: &str, whose: &RunOnNode) {
        let shown = Safe::line(&link.path).to_string();
        let path = safe_path(&link.path).filter(|path| path == Path::new(&link.path));
        let leads = path.and_then(|path| Some((link_target(&path, &link.target, work)?, path)));
        match leads {
            Some((target, path)) => self.links.push((path, target)),
            None => self.notes.add(format!(
                "left on {}: {shown} (a link to {}, which does not come along)",
                whose.node,
                Safe::line(&link.target)
            )),
        }
    }

    /// Drops the largest files until the rest fits.
    fn fit_into(&mut self, room: u64) {
        let mut order: Vec<usize> = (0..self.wanted.len()).collect();
        let travels = |want: &FileToFetch| want.stamp.size - want.from;
        order.sort_by_key(|at| travels(&self.wanted[*at]));
        let mut out: HashSet<usize> = HashSet::new();
        for at in order {
            let bytes = self.bytes.checked_add(travels(&self.wanted[at]));
            match bytes.filter(|bytes| *bytes <= room) {
                Some(bytes) => self.bytes = bytes,
                None => {
                    out.insert(at);
                }
            }
        }
        let mut at = 0;
        self.wanted.retain(|want| {
            let is_out = out.contains(&at);
            at += 1;
            if is_out {
                self.no_room.push(UnfetchedFile {
                    name: Safe::line(&want.name).to_string(),
                    bytes: want.stamp.size,
                });
            }
            !is_out
        });
    }
}

/// The files without a glob that come: the smallest first, as long as their sum
/// is within bounds.
fn coming(list: &v1::ListFilesReply, unnamed: UnnamedFiles) -> HashSet<&str> {
    let UnnamedFiles::Fetch { most } = unnamed else {
        return HashSet::new();
    };
    let loose = list.files.iter().take(FILES_MAX);
    let loose = loose.filter(|entry| entry.made && entry.globs.is_empty());
    let mut loose: Vec<&v1::FileEntry> = loose.collect();
    loose.sort_by_key(|entry| entry.size);
    let mut bytes: u64 = 0;
    let within = loose.into_iter().take_while(|entry| {
        bytes = bytes.saturating_add(entry.size);
        bytes <= most
    });
    within.map(|entry| entry.path.as_str()).collect()
}

/// Whether an earlier build brought the file home under another name; the file
/// is then renamed.
fn was_here(name: &str, path: &Path, stamp: Stamp, folder: &mut Folder) -> bool {
    let Some(earlier) = earlier_path(name).filter(|earlier| earlier != path) else {
        return false;
    };
    folder.there(path).is_none()
        && folder.there(&earlier) == Some((stamp.size, stamp.modified_ms))
        && folder.rename(&earlier, path).is_ok()
}

/// The least number of files that a list counts without naming them.
pub(super) fn unlisted(list: &v1::ListFilesReply) -> u64 {
    let without = list.left_out_as().filter(|why| !hides_files(*why)).count();
    let apart = list.left_out.len().saturating_sub(without);
    (apart + list.files.len().saturating_sub(FILES_MAX)) as u64
}

/// Whether what a node leaves out may have content to miss. An older node does not
/// say why it leaves something out.
fn hides_files(why: v1::LeftOut) -> bool {
    match why {
        v1::LeftOut::Link
        | v1::LeftOut::Pipe
        | v1::LeftOut::Socket
        | v1::LeftOut::Device
        | v1::LeftOut::Irregular
        | v1::LeftOut::NoPattern => false,
        v1::LeftOut::Unspecified
        | v1::LeftOut::Name
        | v1::LeftOut::Depth
        | v1::LeftOut::Entries
        | v1::LeftOut::Files
        | v1::LeftOut::Unreadable => true,
    }
}

/// The size limit of a file: the largest `most` of the globs that matched it; of
/// all globs if the node does not report which matched.
fn most(entry: &v1::FileEntry, globs: &[Glob]) -> u64 {
    let of = |index: &u32| Some(globs.get(usize::try_from(*index).ok()?)?.most);
    let found = entry.globs.iter().filter_map(of).max();
    let all = || globs.iter().map(|glob| glob.most).max();
    if entry.globs.is_empty() {
        all().unwrap_or(0)
    } else {
        found.unwrap_or(0)
    }
}

/// The limit for a file that grows while it is read.
fn grown(size: u64) -> u64 {
    size.saturating_mul(2)
        .max(size.saturating_add(GROWN_BYTES_MAX))
}

fn is_here(name: &str, path: &Path, stamp: Stamp, folder: &mut Folder, known: &FileStamps) -> bool {
    let same = folder.there(path) == Some((stamp.size, stamp.modified_ms));
    // A file that is not remembered came in a try that was killed before it
    // could write that down, or long ago.
    let known_as = known.kept_as(name);
    same && known_as.is_none_or(|kept| kept == stamp)
}

fn half(name: &str, path: &Path, stamp: Stamp, folder: &mut Folder, known: &FileStamps) -> u64 {
    if known.begun_as(name) != Some(stamp) {
        return 0;
    }
    let there = folder.part_bytes(path);
    if there < stamp.size { there } else { 0 }
}

#[cfg(test)]
mod tests;
