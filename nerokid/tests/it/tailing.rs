//! Following a file that its writer treats badly.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;

use nerokid::core::log::Log;
use nerokid::output::tail::{Look, Tail};

struct Bench {
    folder: tempfile::TempDir,
    file: File,
    tail: Tail,
    buffer: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        Self {
            file: open(&path),
            tail: Tail::new(Log::Stdout, path, 0),
            folder,
            buffer: vec![0; 16],
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("stdout.log")
    }

    fn write(&mut self, text: &str) {
        self.file.write_all(text.as_bytes()).unwrap();
    }

    fn look(&mut self) -> String {
        match self.tail.read_next(&mut self.buffer).unwrap() {
            Look::Bytes(count) => String::from_utf8(self.buffer[..count].to_vec()).unwrap(),
            Look::Nothing => "nothing".to_owned(),
            Look::NewPart => "new part".to_owned(),
        }
    }
}

fn open(path: &std::path::Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap()
}

#[test]
fn growth_is_read_in_blocks() {
    let mut bench = Bench::new();
    assert_eq!(bench.look(), "nothing");
    bench.write("0123456789abcdefgh");
    assert_eq!(bench.look(), "0123456789abcdef");
    assert_eq!(bench.look(), "gh");
    assert_eq!(bench.look(), "nothing");
}

#[test]
fn a_log_that_comes_late_is_found() {
    let mut bench = Bench::new();
    fs::remove_file(bench.path()).unwrap();
    assert_eq!(bench.look(), "nothing");
    bench.file = open(&bench.path());
    bench.write("hello");
    assert_eq!(bench.look(), "hello");
}

#[test]
fn a_cut_log_is_read_again_from_its_start() {
    let mut bench = Bench::new();
    bench.write("hello");
    bench.look();
    bench.file.set_len(0).unwrap();
    assert_eq!(bench.look(), "new part");
    assert_eq!(bench.look(), "nothing");
    bench.write("new");
    assert_eq!(bench.look(), "new");
}

#[test]
fn a_new_watcher_of_a_log_that_was_cut_meanwhile_says_so() {
    let mut bench = Bench::new();
    bench.write("hi");
    bench.tail = Tail::new(Log::Stdout, bench.path(), 100);
    assert_eq!(bench.look(), "new part");
    assert_eq!(bench.look(), "hi");
}

#[test]
fn a_deleted_log_is_read_on() {
    let mut bench = Bench::new();
    bench.write("one");
    bench.look();
    fs::remove_file(bench.path()).unwrap();
    bench.write("two");
    bench.tail.check_name();
    assert_eq!(bench.look(), "two");
    assert_eq!(bench.look(), "nothing");
    assert!(bench.tail.was_deleted());
    assert!(!bench.tail.was_deleted(), "it is said once");
}

#[test]
fn a_replaced_log_is_read_to_its_end_and_then_the_new_one() {
    let mut bench = Bench::new();
    bench.write("one");
    bench.look();
    fs::rename(bench.path(), bench.folder.path().join("old")).unwrap();
    let mut new = open(&bench.path());
    new.write_all(b"new").unwrap();
    bench.write("last");
    bench.tail.check_name();
    assert_eq!(bench.look(), "last");
    assert_eq!(bench.look(), "new part");
    assert_eq!(bench.look(), "new");
    assert!(!bench.tail.was_deleted());
}

#[test]
fn a_folder_in_place_of_a_log_is_never_read() {
    let mut bench = Bench::new();
    fs::remove_file(bench.path()).unwrap();
    fs::create_dir(bench.path()).unwrap();
    assert_eq!(bench.look(), "nothing");
}

#[test]
fn a_table_written_anew_with_the_same_length_is_read_again() {
    let mut bench = Bench::new();
    bench.tail = Tail::of_rows(Log::File(0), bench.path());
    bench.write("a\n1\n");
    assert_eq!(bench.look(), "a\n1\n");
    assert_eq!(bench.look(), "nothing");
    let mut later = std::time::SystemTime::now();
    let mut write_anew = |bench: &Bench, text: &str| {
        fs::write(bench.path(), text).unwrap();
        // Without that, the clock of the file system may give both writes the same time.
        later += std::time::Duration::from_secs(1);
        bench.file.set_modified(later).unwrap();
    };
    write_anew(&bench, "a\n1\n");
    assert_eq!(bench.look(), "nothing");
    write_anew(&bench, "a\n2\n");
    assert_eq!(bench.look(), "new part");
    assert_eq!(bench.look(), "a\n2\n");
    assert_eq!(bench.look(), "nothing");
}

#[test]
fn a_replaced_log_with_unread_bytes_is_still_to_be_checked() {
    let mut bench = Bench::new();
    bench.look();
    bench.write("rest");
    bench.tail.check_name();
    assert_eq!(bench.look(), "rest");
    assert!(bench.tail.must_check_name());
    assert_eq!(bench.look(), "nothing");
    assert!(!bench.tail.must_check_name());
}
