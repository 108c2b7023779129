//! Power cuts: what of a disk is there after one, made of what `nero-disk` wrote down.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::chaos::random::Random;

/// Bytes that reach a disk together.
const PAGE: usize = 4096;

/// What is left of a part of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remnant {
    /// All: its programs alone died.
    Now,
    /// What was synced; any sync keeps all names (ext4, XFS).
    All,
    /// What was synced; a sync keeps the names of its file, and the entries of its folder (Btrfs).
    Own,
    /// What was synced, and of the rest any pages; others are zeros, or were not there yet.
    Torn,
}

/// A moment at which the power was cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Has the contents.
    folder: PathBuf,
    name: String,
}

/// One name of a file, folder or link.
struct Line {
    kind: char,
    mode: u32,
    number: String,
    durable: Option<PathBuf>,
    now: Option<PathBuf>,
}

impl Cut {
    /// The cut of this name, in a folder that has the contents.
    pub(crate) fn of(folder: &Path, name: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
        }
    }

    fn names(&self, file: &str) -> io::Result<BTreeMap<PathBuf, Line>> {
        let text = fs::read_to_string(self.folder.join(&self.name).join(file))?;
        let content = |word: &str| (word != "-").then(|| self.folder.join(word));
        let lines = text.lines().map(|line| {
            let words: Vec<&str> = line.splitn(6, ' ').collect();
            let [kind, mode, number, durable, now, path] = words[..] else {
                panic!("a line of {}: {line}", self.name);
            };
            let line = Line {
                kind: kind.chars().next().expect("a letter"),
                mode: u32::from_str_radix(mode, 8).expect("a mode"),
                number: number.to_owned(),
                durable: content(durable),
                now: content(now),
            };
            (PathBuf::from(path), line)
        });
        Ok(lines.collect())
    }

    /// Fills the empty folder `at` with what is left, which `left` tells of each path.
    ///
    /// # Errors
    /// When the real disk refuses.
    pub(crate) fn put(
        &self,
        at: &Path,
        left: impl Fn(&Path) -> Remnant,
        random: &mut Random,
    ) -> io::Result<()> {
        let torn = if random.percent(50) { "all" } else { "now" };
        let mut names = BTreeMap::new();
        for (kind, file) in [
            (Remnant::Now, "now"),
            (Remnant::All, "all"),
            (Remnant::Own, "own"),
            (Remnant::Torn, torn),
        ] {
            let its = self.names(file)?.into_iter();
            let its = its.filter(|(path, _)| left(path) == kind);
            names.extend(its.map(|(path, line)| (path, (kind, line))));
        }
        // Folders come before the files in them.
        let mut made: HashMap<String, PathBuf> = HashMap::new();
        for (path, (left, line)) in names {
            let path = at.join(path);
            // The name of its folder may be gone.
            if !path.parent().is_some_and(Path::is_dir) {
                continue;
            }
            match line.kind {
                'd' => fs::create_dir_all(&path)?,
                'l' => {
                    if let Some(target) = &line.now {
                        symlink(fs::read_to_string(target)?, &path)?;
                    }
                    continue;
                }
                'f' if made.contains_key(&line.number) => {
                    fs::hard_link(&made[&line.number], &path)?;
                    continue;
                }
                'f' => {
                    fs::write(&path, line.content(left, random)?)?;
                    made.insert(line.number, path.clone());
                }
                // A socket without its program.
                _ => continue,
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(line.mode))?;
        }
        Ok(())
    }
}

impl Line {
    fn content(&self, left: Remnant, random: &mut Random) -> io::Result<Vec<u8>> {
        let read = |path: &Option<PathBuf>| path.as_ref().map_or(Ok(Vec::new()), fs::read);
        let durable = read(&self.durable)?;
        match left {
            Remnant::Now => read(&self.now),
            Remnant::All | Remnant::Own => Ok(durable),
            Remnant::Torn if self.now == self.durable => Ok(durable),
            Remnant::Torn => Ok(torn(&durable, &read(&self.now)?, random)),
        }
    }
}

/// Of each page what is durable, what was written, or zeros; of any length between both.
fn torn(durable: &[u8], now: &[u8], random: &mut Random) -> Vec<u8> {
    let (short, long) = (durable.len().min(now.len()), durable.len().max(now.len()));
    let length = random.between(short as u64, long as u64) as usize;
    let mut all = vec![0; length];
    for (number, page) in all.chunks_mut(PAGE).enumerate() {
        let sources = [durable, now, &[]];
        let last = if number * PAGE < durable.len() { 1 } else { 2 };
        let source = sources[random.between(0, last) as usize];
        let bytes = source.get(number * PAGE..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(page.len())];
        page[..bytes.len()].copy_from_slice(bytes);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_torn_file_each_page_is_durable_written_or_zeros() {
        let (durable, now) = (vec![1; 2 * PAGE], vec![2; 4 * PAGE]);
        let mut seen = BTreeMap::new();
        for seed in 0..50 {
            let torn = torn(&durable, &now, &mut Random::new(seed));
            assert!((2 * PAGE..=4 * PAGE).contains(&torn.len()));
            for (number, page) in torn.chunks(PAGE).enumerate() {
                assert!(page.iter().all(|byte| *byte == page[0]));
                *seen.entry((number, page[0])).or_insert(0) += 1;
            }
        }
        let seen: Vec<(usize, u8)> = seen.into_keys().collect();
        let beyond = [(2, 0), (2, 2), (3, 0), (3, 2)];
        assert_eq!(seen, [[(0, 1), (0, 2), (1, 1), (1, 2)], beyond].concat());
    }
}
