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
    let known = FileStamps::open(&base.path().join("known/1")).unwrap();
    let glob = |path: &str, most| Glob {
        path: path.to_owned(),
        is_output: true,
        most,
    };
    let ask = FileRequest {
        globs: vec![glob("a*", 10), glob("*b", 100)],
        live,
        ..FileRequest::default()
    };
    let whose = RunOnNode {
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
    let known = FileStamps::open(&base.path().join("known/1")).unwrap();
    let ask = FileRequest {
        globs: vec![Glob {
            path: "ckpt/last.ckpt".to_owned(),
            is_output: true,
            most: 100,
        }],
        unnamed: UnnamedFiles::Report,
        ..FileRequest::default()
    };
    let whose = RunOnNode {
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
    let mut ask = FileRequest {
        globs: vec![glob("a*"), glob("../*"), glob("c\n")],
        live: true,
        named: true,
        unnamed: UnnamedFiles::Ignore,
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
    let known = FileStamps::open(&base.path().join("known/1")).unwrap();
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
    let whose = RunOnNode {
        run: "4.2".parse().unwrap(),
        node: "lab".to_owned(),
    };
    let mut chosen = |made, room| {
        let ask = FileRequest {
            unnamed: made,
            ..FileRequest::default()
        };
        let choice = choose(&list, &ask, &whose, &mut folder, &known, room);
        let names = |stays: &[UnfetchedFile]| stays.iter().map(|one| one.name.clone()).collect();
        let wanted: Vec<String> = choice.wanted.iter().map(|one| one.name.clone()).collect();
        let all: [Vec<String>; 3] =
            [&choice.left, &choice.no_room, &choice.unnamed].map(|stays| names(stays));
        (wanted.join(" "), all.map(|names| names.join(" ")))
    };
    let of = |texts: [&str; 3]| texts.map(str::to_owned);
    let within = chosen(UnnamedFiles::Fetch { most: 94 }, u64::MAX);
    assert_eq!(within, ("b c".to_owned(), of(["a giant", "", ""])));
    let all = chosen(UnnamedFiles::Fetch { most: u64::MAX }, 40);
    assert_eq!(all, ("b c".to_owned(), of(["", "a giant", ""])));
    let told = chosen(UnnamedFiles::Report, u64::MAX);
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
    let known = FileStamps::open(&base.path().join("known/1")).unwrap();
    let list = v1::ListFilesReply {
        files: vec![entry("a b.txt", 4, &[0])],
        ..v1::ListFilesReply::default()
    };
    let ask = FileRequest {
        globs: vec![Glob {
            path: "*".to_owned(),
            is_output: true,
            most: 10,
        }],
        ..FileRequest::default()
    };
    let whose = RunOnNode {
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
    let mut known = FileStamps::open(&base.path().join("known/1")).unwrap();
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
