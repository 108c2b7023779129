//! Chooses the files to fetch now: compares a node's list with the request, the
//! limits, and the files here.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nero_model::RunId;
use nero_model::paths::run::{STDERR, STDOUT};
use nero_model::safe::Safe;
use nero_wire::v1;

use super::folder::{Folder, distinct, earlier_path, link_target, safe_path};
use super::known::{Known, Stamp};

/// Files of one run that are fetched at most.
const FILES_MAX: usize = 100_000;
/// Notes of one run that are kept at most.
pub(super) const NOTES_MAX: usize = 200;
/// Bytes of one note: names come from nodes.
const NOTE_BYTES_MAX: usize = 600;
/// How much a file may have grown since it was listed.
const GROWN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A request for files of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    pub(super) globs: Vec<Glob>,
    /// Whether the run is live: missing files do not matter yet.
    pub(super) live: bool,
    /// A person has just named the globs: a glob that fits nothing is reported.
    pub(super) named: bool,
    pub(super) made: Made,
}

/// Treatment of files that fit no glob and that the job made or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Made {
    /// They are ignored.
    #[default]
    Ignored,
    /// They stay, which is reported.
    Told,
    /// They come, up to this many bytes in all.
    Comes { most: u64 },
}

impl Ask {
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
pub(crate) struct UnfetchedFile {
    /// The name as it is shown.
    pub(crate) name: String,
    pub(crate) bytes: u64,
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

/// Lines for a person, within bounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    lines: Vec<String>,
    more: usize,
}

impl Notes {
    pub(super) fn of(lines: Vec<String>) -> Self {
        let mut notes = Self::default();
        for line in lines {
            notes.add(line);
        }
        notes
    }

    pub(super) fn add(&mut self, mut line: String) {
        if line.len() > NOTE_BYTES_MAX {
            line.truncate(line.floor_char_boundary(NOTE_BYTES_MAX));
            line.push('…');
        }
        if self.lines.len() < NOTES_MAX {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.more += other.more;
        for line in other.lines {
            self.add(line);
        }
    }

    /// All lines.
    pub(crate) fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("{} more remarks", self.more));
        }
        self.lines
    }
}

/// The run and the node, for texts.
#[derive(Clone, Debug)]
pub(super) struct Whose {
    pub(super) run: RunId,
    pub(super) node: String,
}

/// Chooses from a list; the chosen bytes fit into `room`. Blocks: looks at the
/// files here.
pub(super) fn choose(
    list: &v1::ListFilesReply,
    ask: &Ask,
    whose: &Whose,
    folder: &mut Folder,
    known: &Known,
    room: u64,
) -> Choice {
    let mut choice = Choice::told(list, ask, whose);
    let names = Names::of(list, folder);
    let leads = LinkTargets::of(list);
    let loose = coming(list, ask.made);
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
        if !is_named && ask.made == Made::Told {
            choice.unnamed.push(stays());
            continue;
        }
        let most = match is_named {
            true => most(entry, &ask.globs),
            false if loose.contains(entry.path.as_str()) => u64::MAX,
            false => 0,
        };
        if entry.size > most {
            choice.left.push(stays());
            choice.notes.add(format!(
                "{shown} has {} bytes and stays on {}: neroman fetch {} --include '{shown}'",
                entry.size, whose.node, whose.run,
            ));
            continue;
        }
        let path = names.path(&entry.path);
        let Some(path) = path.filter(|path| taken.insert(path.clone())) else {
            choice.unkept += 1;
            choice
                .notes
                .add(format!("{shown} has no name that can be kept"));
            continue;
        };
        if path != Path::new(&entry.path) {
            choice.notes.add(format!(
                "{shown} is kept as {}",
                Safe::line(path.as_os_str().as_encoded_bytes())
            ));
        }
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
    for link in &list.links {
        let is_named = link.fits || leads.include(Path::new(&link.path));
        if is_named || matches!(ask.made, Made::Comes { .. }) {
            choice.link(link, &list.work, whose);
            if leads.to_nothing(link, list) {
                let shown = Safe::line(&link.path);
                let target = Safe::line(&link.target);
                choice.notes.add(format!(
                    "{shown} is a link to {target}, which does not come along from {}",
                    whose.node
                ));
            }
        }
    }
    choice.fit_into(room);
    choice
}

/// Where the links that outputs name lead.
struct LinkTargets {
    /// Targets below the work folder, by the paths of links.
    targets: HashMap<PathBuf, PathBuf>,
    /// What the links lead to that a glob fits: other links, and their ends.
    named: HashSet<PathBuf>,
}

impl LinkTargets {
    /// Links that lead to one another are followed so often.
    const FOLLOWED_MAX: usize = 8;

    fn of(list: &v1::ListFilesReply) -> Self {
        let below_work = |link: &v1::LinkEntry| {
            let path = PathBuf::from(&link.path);
            let target = link_target(&path, &link.target, &list.work)?;
            let mut at = path.parent()?.to_path_buf();
            for part in target.components() {
                match part {
                    std::path::Component::ParentDir => {
                        at.pop();
                    }
                    part => at.push(part),
                }
            }
            Some((path, at))
        };
        let targets = list.links.iter().filter_map(below_work).collect();
        let mut leads = Self {
            targets,
            named: HashSet::new(),
        };
        let fitting = list.links.iter().filter(|link| link.fits);
        let named = fitting.flat_map(|link| leads.follow(link).cloned());
        leads.named = named.collect();
        leads
    }

    /// What a link leads to: other links, then its end.
    fn follow(&self, link: &v1::LinkEntry) -> impl Iterator<Item = &PathBuf> {
        let first = self.targets.get(Path::new(&link.path));
        let all = std::iter::successors(first, |at| self.targets.get(*at));
        all.take(Self::FOLLOWED_MAX)
    }

    /// Whether a named link leads to this file or link, or to a folder above it.
    fn include(&self, path: &Path) -> bool {
        !self.named.is_empty() && path.ancestors().any(|one| self.named.contains(one))
    }

    /// Whether a link leads into the work folder, and to nothing of the list.
    fn to_nothing(&self, link: &v1::LinkEntry, list: &v1::ListFilesReply) -> bool {
        self.follow(link).last().is_some_and(|end| {
            let mut files = list.files.iter();
            !files.any(|entry| Path::new(&entry.path).starts_with(end))
        })
    }
}

impl Choice {
    /// Nothing chosen yet: what a list tells besides its files.
    fn told(list: &v1::ListFilesReply, ask: &Ask, whose: &Whose) -> Self {
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
        if ask.made != Made::Ignored {
            let unfit = ask
                .unfitting(list)
                .into_iter()
                .filter(|glob| glob.is_output);
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

    fn link(&mut self, link: &v1::LinkEntry, work: &str, whose: &Whose) {
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
fn coming(list: &v1::ListFilesReply, made: Made) -> HashSet<&str> {
    let Made::Comes { most } = made else {
        return HashSet::new();
    };
    let loose = list.files.iter().take(FILES_MAX);
    let mut loose: Vec<&v1::FileEntry> = loose
        .filter(|entry| entry.made && entry.globs.is_empty())
        .collect();
    loose.sort_by_key(|entry| entry.size);
    let mut bytes: u64 = 0;
    let within = loose.into_iter().take_while(|entry| {
        bytes = bytes.saturating_add(entry.size);
        bytes <= most
    });
    within.map(|entry| entry.path.as_str()).collect()
}

/// The paths of files here. Files whose names would collide here, or with the
/// logs, get distinct ones.
struct Names {
    /// How many files have a name, as the file system compares names; empty if
    /// every two names differ.
    alike: HashMap<String, usize>,
}

impl Names {
    fn of(list: &v1::ListFilesReply, folder: &Folder) -> Self {
        let mut alike: HashMap<String, usize> = HashMap::new();
        let mut any = false;
        for entry in list.files.iter().take(FILES_MAX) {
            let count = alike.entry(entry.path.to_lowercase()).or_default();
            *count += 1;
            any |= *count > 1;
        }
        if !any || !folder.ignores_case() {
            alike.clear();
        }
        Self { alike }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let path = safe_path(name)?;
        let is_log = [STDOUT, STDERR].iter().any(|log| path == Path::new(log));
        let is_alike = self.alike.get(&name.to_lowercase()) > Some(&1);
        if is_log || is_alike {
            Some(path.with_file_name(distinct(path.file_name()?.to_str()?)))
        } else {
            Some(path)
        }
    }
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

fn is_here(name: &str, path: &Path, stamp: Stamp, folder: &mut Folder, known: &Known) -> bool {
    let same = folder.there(path) == Some((stamp.size, stamp.modified_ms));
    // A file that is not remembered came in a try that was killed before it
    // could write that down, or long ago.
    let known_as = known.kept_as(name);
    same && known_as.is_none_or(|kept| kept == stamp)
}

fn half(name: &str, path: &Path, stamp: Stamp, folder: &mut Folder, known: &Known) -> u64 {
    if known.begun_as(name) != Some(stamp) {
        return 0;
    }
    let there = folder.part_bytes(path);
    if there < stamp.size { there } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, size: u64, globs: &[u32]) -> v1::FileEntry {
        v1::FileEntry {
            path: path.to_owned(),
            size,
            modified_ms: 1000,
            inode: 7,
            globs: globs.to_vec(),
            ..v1::FileEntry::default()
        }
    }

    fn chosen(files: Vec<v1::FileEntry>, live: bool) -> (Vec<String>, Choice) {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        let known = Known::open(&base.path().join("known/1")).unwrap();
        let glob = |path: &str, most| Glob {
            path: path.to_owned(),
            is_output: true,
            most,
        };
        let ask = Ask {
            globs: vec![glob("a*", 10), glob("*b", 100)],
            live,
            ..Ask::default()
        };
        let whose = Whose {
            run: "4.2".parse().unwrap(),
            node: "lab".to_owned(),
        };
        let list = v1::ListFilesReply {
            files,
            left_out: vec!["pipe (a pipe)".to_owned(), "d (too deep)".to_owned()],
            left_out_as: [v1::LeftOut::Pipe, v1::LeftOut::Depth]
                .map(i32::from)
                .to_vec(),
            ..v1::ListFilesReply::default()
        };
        let choice = choose(&list, &ask, &whose, &mut folder, &known, u64::MAX);
        let names = choice.wanted.iter().map(|one| one.name.clone()).collect();
        (names, choice)
    }

    #[test]
    fn the_target_of_a_named_link_comes_along() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        let known = Known::open(&base.path().join("known/1")).unwrap();
        let ask = Ask {
            globs: vec![Glob {
                path: "ckpt/last.ckpt".to_owned(),
                is_output: true,
                most: 100,
            }],
            made: Made::Told,
            ..Ask::default()
        };
        let whose = Whose {
            run: "4.2".parse().unwrap(),
            node: "lab".to_owned(),
        };
        let made = |path: &str| v1::FileEntry {
            made: true,
            ..entry(path, 9, &[])
        };
        let link = |path: &str, target: &str, fits| v1::LinkEntry {
            path: path.to_owned(),
            target: target.to_owned(),
            fits,
        };
        let list = v1::ListFilesReply {
            files: vec![made("ckpt/epoch=1.ckpt"), made("ckpt/epoch=2.ckpt")],
            links: vec![
                link("ckpt/last.ckpt", "newest", true),
                link("ckpt/newest", "epoch=2.ckpt", false),
                link("ckpt/old", "epoch=1.ckpt", false),
            ],
            made_told: true,
            ..v1::ListFilesReply::default()
        };
        let choice = choose(&list, &ask, &whose, &mut folder, &known, u64::MAX);
        let names: Vec<&str> = choice.wanted.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["ckpt/epoch=2.ckpt"]);
        let links = ["ckpt/last.ckpt", "ckpt/newest"].map(PathBuf::from);
        assert!(choice.links.iter().map(|(path, _)| path).eq(&links));
        let list = v1::ListFilesReply {
            files: Vec::new(),
            ..list
        };
        let choice = choose(&list, &ask, &whose, &mut folder, &known, u64::MAX);
        let notes = choice.notes.into_lines();
        let told = "ckpt/last.ckpt is a link to newest, which does not come along from lab";
        assert_eq!(notes[0], told);
    }

    #[test]
    fn each_file_is_bound_by_the_outputs_that_found_it() {
        let (names, choice) = chosen(
            vec![
                entry("a1", 11, &[0]),
                entry("a2", 10, &[0]),
                entry("ab", 99, &[0, 1]),
                entry("xb", 101, &[1]),
                entry("lies", 1, &[7]),
                entry("old", 100, &[]),
            ],
            false,
        );
        assert_eq!(names, ["a2", "ab", "old"]);
        assert_eq!(
            (choice.left.len(), choice.bytes, choice.unkept),
            (3, 209, 1)
        );
        let lines = choice.notes.into_lines();
        assert_eq!(lines[0], "left on lab: pipe (a pipe)");
        assert_eq!(
            lines[2],
            "a1 has 11 bytes and stays on lab: neroman fetch 4.2 --include 'a1'"
        );
    }

    #[test]
    fn a_glob_of_a_person_that_fits_nothing_is_told() {
        let glob = |path: &str| Glob {
            path: path.to_owned(),
            is_output: false,
            most: 1,
        };
        let mut ask = Ask {
            globs: vec![glob("a*"), glob("../*"), glob("c\n")],
            live: true,
            named: true,
            made: Made::Ignored,
        };
        let mut list = v1::ListFilesReply {
            files: vec![entry("a", 1, &[0])],
            ..v1::ListFilesReply::default()
        };
        let told = ["nothing fits `../*`", "nothing fits `c\\n`"];
        assert_eq!(ask.unfit(&list), told);
        // A node of an earlier build does not report which glob matched a file.
        list.files[0].globs.clear();
        assert!(ask.unfit(&list).is_empty());
        list.files.clear();
        assert_eq!(ask.unfit(&list).len(), 3);
        ask.named = false;
        assert!(ask.unfit(&list).is_empty());
    }

    #[test]
    fn names_that_lead_elsewhere_or_are_taken_do_not_come() {
        let (names, choice) = chosen(
            ["../x", "/x", "", "stdout.log", "a", "a"]
                .map(|path| entry(path, 1, &[0]))
                .to_vec(),
            true,
        );
        assert_eq!(names, ["stdout.log", "a"]);
        let path = choice.wanted[0].path.to_str().unwrap();
        assert!(
            path.starts_with("stdout~") && path.ends_with(".log"),
            "{path}"
        );
        assert_eq!(choice.unkept, 5);
        assert_eq!(choice.notes.into_lines().len(), 5);
    }

    #[test]
    fn of_files_that_no_output_names_the_small_ones_come_and_what_has_no_room_is_named() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        let known = Known::open(&base.path().join("known/1")).unwrap();
        let made = |path: &str, size| v1::FileEntry {
            made: true,
            ..entry(path, size, &[])
        };
        let list = v1::ListFilesReply {
            files: vec![
                made("a", 60),
                made("b", 5),
                made("c", 30),
                made("giant", 1 << 40),
            ],
            made_told: true,
            ..v1::ListFilesReply::default()
        };
        let whose = Whose {
            run: "4.2".parse().unwrap(),
            node: "lab".to_owned(),
        };
        let mut chosen = |made, room| {
            let ask = Ask {
                made,
                ..Ask::default()
            };
            let choice = choose(&list, &ask, &whose, &mut folder, &known, room);
            let names =
                |stays: &[UnfetchedFile]| stays.iter().map(|one| one.name.clone()).collect();
            let wanted: Vec<String> = choice.wanted.iter().map(|one| one.name.clone()).collect();
            let all: [Vec<String>; 3] =
                [&choice.left, &choice.no_room, &choice.unnamed].map(|stays| names(stays));
            (wanted.join(" "), all.map(|names| names.join(" ")))
        };
        let of = |texts: [&str; 3]| texts.map(str::to_owned);
        let within = chosen(Made::Comes { most: 94 }, u64::MAX);
        assert_eq!(within, ("b c".to_owned(), of(["a giant", "", ""])));
        let all = chosen(Made::Comes { most: u64::MAX }, 40);
        assert_eq!(all, ("b c".to_owned(), of(["", "a giant", ""])));
        let told = chosen(Made::Told, u64::MAX);
        assert_eq!(told, (String::new(), of(["", "", "a b c giant"])));
    }

    #[test]
    fn a_file_at_home_under_another_name_gets_its_own_and_is_not_fetched_again() {
        let base = tempfile::tempdir().unwrap();
        let earlier = base.path().join(earlier_path("a b.txt").unwrap());
        std::fs::write(&earlier, "four").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let file = std::fs::File::options().write(true).open(&earlier).unwrap();
        file.set_modified(time).unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        let known = Known::open(&base.path().join("known/1")).unwrap();
        let list = v1::ListFilesReply {
            files: vec![entry("a b.txt", 4, &[0])],
            ..v1::ListFilesReply::default()
        };
        let ask = Ask {
            globs: vec![Glob {
                path: "*".to_owned(),
                is_output: true,
                most: 10,
            }],
            ..Ask::default()
        };
        let whose = Whose {
            run: "4.2".parse().unwrap(),
            node: "lab".to_owned(),
        };
        let choice = choose(&list, &ask, &whose, &mut folder, &known, u64::MAX);
        assert_eq!((choice.wanted.len(), choice.unchanged), (0, 1));
        assert_eq!(std::fs::read(base.path().join("a b.txt")).unwrap(), b"four");
        assert!(!earlier.exists());
    }

    #[test]
    fn equal_files_stay_and_halves_go_on() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        let mut known = Known::open(&base.path().join("known/1")).unwrap();
        let stamp = |inode| Stamp {
            size: 4,
            modified_ms: 2000,
            inode,
        };
        let path = Path::new("f");
        let mut part = folder.begin(path, false).unwrap();
        std::io::Write::write_all(&mut part.file, b"123").unwrap();
        known.begin("f", stamp(1)).unwrap();
        assert_eq!(half("f", path, stamp(1), &mut folder, &known), 3);
        assert_eq!(half("f", path, stamp(2), &mut folder, &known), 0);
        std::io::Write::write_all(&mut part.file, b"4").unwrap();
        assert_eq!(half("f", path, stamp(1), &mut folder, &known), 0);
        folder.finish(path, part.file, Some(2000), false).unwrap();
        assert!(is_here("f", path, stamp(1), &mut folder, &known));
        known.keep("f", stamp(1)).unwrap();
        assert!(is_here("f", path, stamp(1), &mut folder, &known));
        assert!(!is_here("f", path, stamp(2), &mut folder, &known));
        std::fs::remove_file(base.path().join("f")).unwrap();
        assert!(!is_here("f", path, stamp(1), &mut folder, &known));
    }
}
