//! Laws of the readers of bytes that others wrote.
//!
//! A [`Target`] is one reader with its law: a function that takes any bytes and panics where a
//! promise is broken. `tests/fuzz` plays the laws with bytes that libFuzzer chooses by the code
//! that they reach. The test of this crate plays the seeds and random changes of them.

mod choices;
mod meter;

use std::fs;
use std::path::{Path, PathBuf};

pub use choices::{Choices, Random, mutate};
use meter::Meter;

/// Memory that one input takes at once.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// A folder whose files lie in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
/// Bytes behind a text from which its law takes its decisions.
const CHOICE_BYTES: usize = 24;
/// Length of the longest input.
const INPUT_BYTES_MAX: usize = 1 << 20;

/// A reader of bytes, and what must hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its program in `tests/fuzz`.
    pub name: &'static str,
    law: fn(&[u8]),
    /// What it begins with: folders of the project and endings of names.
    seeds: &'static [(&'static str, &'static str)],
}

/// Declares the module and the constant of each target.
macro_rules! targets {
    ($($name:ident $constant:ident: $text:literal, $($seed:expr),*;)*) => {
        $(
            mod $name;

            #[doc = $text]
            pub const $constant: Target = Target {
                name: stringify!($name),
                law: $name::law,
                seeds: &[$($seed),*],
            };
        )*

        /// Every target.
        pub const TARGETS: &[Target] = &[$($constant),*];
    };
}

targets! {
    journal JOURNAL: "Segments, cut, flipped, swapped and mixed.",;
    frame FRAME: "Files of one message.", ("tests/golden", "");
    blobs BLOBS: "Packs of contents.",;
    fold FOLD: "Journals, folded in pieces.",;
    workbook WORKBOOK: "Sheets and tables, of which some cells are changed.",
        ("neroman/workbook/tests/golden", ".ods"), ("neroman/workbook/tests/golden", ".xlsx"),
        ("examples", ".csv");
    metrics METRICS: "Logs and files of metrics.", ("proto/metrics/tests", ".log");
    intake INTAKE: "What a job prints, and watchers that die.", ("proto/metrics/tests", ".log"),
        ("proto/metrics/tests/corpus", ".txt");
    warden WARDEN: "Answers of schedulers.", ("neromum/warden/tests/recorded", "");
    format FORMAT: "Files of experiments.", ("neroman/format/tests/fixtures", ".yaml"),
        ("examples", ".yaml"), ("neroman/format/tests/fixtures", ".sge"),
        ("neroman/format/tests/fixtures", ".sh"), ("neroman/format/tests/fixtures", ".slurm"),
        ("examples", ".csv");
    node NODE: "Login shells, `ssh` and machines, before an agent runs there.",
        ("neroman/ssh/src/classify", ".rs");
    smtp SMTP: "Answers of mail servers.",;
    spreadsheet SPREADSHEET: "Workbooks of any cells, and sheets near their limits.",;
    noodles NOODLES: "Specs of Training Noodles.", ("examples/noodles", ".yml");
}

impl Target {
    /// Plays one input, which takes less than so many seconds of a CPU.
    ///
    /// # Panics
    /// When the law is broken, or the input takes too much time or memory.
    pub fn judge(&self, bytes: &[u8], seconds_max: f64) {
        let meter = Meter::start();
        (self.law)(bytes);
        let (seconds, peak) = meter.stop();
        assert!(seconds < seconds_max, "it takes {seconds:.1} s");
        assert!(peak < MEMORY_BYTES_MAX, "it takes {} MB", peak >> 20);
    }

    /// What this target begins with.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders = self.seeds.iter();
        let paths = folders.flat_map(|(folder, ending)| files(&root.join(folder), ending));
        let read = |path| fs::read(path).expect("a seed is readable");
        paths.map(read).flat_map(workbook::sheets).collect()
    }

    /// Writes the seeds into a folder, and plays each of them repeated up to the longest input:
    /// what takes too long grows faster than its input.
    ///
    /// # Panics
    /// As [`Self::judge`], and when the folder cannot be written.
    pub fn write_seeds(&self, folder: &Path, seconds_max: f64) {
        for (number, seed) in self.seeds().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed).expect("the folder is writable");
            self.judge(&repeated(seed, INPUT_BYTES_MAX), seconds_max);
        }
    }
}

/// These bytes again and again, up to this length.
pub fn repeated(bytes: &[u8], length: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(length).collect()
}

/// A text, or what is written, and the bytes of decisions behind it.
fn parts(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().saturating_sub(CHOICE_BYTES))
}

/// Checks that no character of a line for people acts on a terminal.
fn assert_safe(line: &str) {
    assert!(
        !line.contains(char::is_control),
        "a line is not safe: {line:?}"
    );
}

/// Files below a folder whose names have this ending, in their order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of seeds is there");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let below = |path: PathBuf| {
        if path.is_dir() {
            files(&path, ending)
        } else {
            let has_ending = path.to_string_lossy().ends_with(ending);
            Vec::from_iter(has_ending.then_some(path))
        }
    };
    paths.into_iter().flat_map(below).collect()
}
