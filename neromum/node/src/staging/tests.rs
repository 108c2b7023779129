//! Work folders from trees, hostile ones included.

use super::*;
use crate::config;
use nero_model::{DeploymentId, ExperimentId};
use nero_wire::v1::{EnvVar, MetricReader, MetricReading, Param, Tree, TreeEntry};
use prost::Message as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

struct NodeFolder {
    folder: tempfile::TempDir,
    deployment: DeploymentId,
    paths: NodePaths,
}

fn place() -> NodeFolder {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let paths = NodePaths::new(folder.path(), &deployment, "n");
    nero_model::paths::make_private(&paths.mum()).unwrap();
    nero_model::paths::make_private(&paths.run(run())).unwrap();
    NodeFolder {
        folder,
        deployment,
        paths,
    }
}

fn run() -> RunId {
    RunId {
        experiment: ExperimentId(1),
        number: 1,
    }
}

fn put(paths: &NodePaths, content: &[u8]) -> Vec<u8> {
    let store = Store::new(paths);
    let hash = *blake3::hash(content).as_bytes();
    let mut incoming = store.begin(hash, 0, true).unwrap();
    incoming.write(content).unwrap();
    store.finish(incoming).unwrap();
    hash.to_vec()
}

fn file(paths: &NodePaths, path: &str, content: &[u8], executable: bool) -> TreeEntry {
    TreeEntry {
        path: path.to_owned(),
        hash: put(paths, content),
        size: content.len() as u64,
        executable,
        ..TreeEntry::default()
    }
}

fn link(path: &str, to: &str) -> TreeEntry {
    TreeEntry {
        path: path.to_owned(),
        link: to.to_owned(),
        ..TreeEntry::default()
    }
}

fn prepare_tree(
    place: &NodeFolder,
    entries: Vec<TreeEntry>,
) -> Result<PreparedStart, PrepareError> {
    let tree = put(&place.paths, &Tree { entries }.encode_to_vec());
    let spec = RunSpec {
        argv: vec!["sh".to_owned()],
        tree,
        ..RunSpec::default()
    };
    let store = Store::new(&place.paths);
    prepare(&place.paths, &store, &Base::of_node(), run(), &spec, 1)
}

#[test]
fn a_tree_is_copied_privately_with_its_modes_and_links() {
    let place = place();
    let paths = &place.paths;
    let entries = vec![
        file(paths, "main.py", b"print(1)", false),
        file(paths, "bin/go", b"#!/bin/sh\n", true),
        file(paths, "a/b/c.txt", b"", false),
        link("a/back", "../main.py"),
        link("out", "/somewhere"),
    ];
    let prepared = prepare_tree(&place, entries).unwrap();
    let work = prepared.work;
    assert_eq!(fs::read(work.join("main.py")).unwrap(), b"print(1)");
    let mode = |name: &str| fs::metadata(work.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("main.py"), mode("bin/go")), (0o600, 0o700));
    assert_eq!(fs::metadata(work.join("main.py")).unwrap().nlink(), 1);
    assert_eq!(
        fs::read_link(work.join("a/back")).unwrap(),
        Path::new("../main.py")
    );
    // Writing to the copy does not change the store.
    fs::write(work.join("main.py"), "changed").unwrap();
    let hash = *blake3::hash(b"print(1)").as_bytes();
    assert_eq!(Store::new(paths).read(&hash).unwrap(), b"print(1)");
}

#[test]
fn a_large_file_is_a_private_copy_and_no_run_can_write_into_that_of_another() {
    let place = place();
    let content = vec![7; 20_000_000];
    let big = file(&place.paths, "data/big", &content, false);
    let work = prepare_tree(&place, vec![big.clone()]).unwrap().work;
    let path = work.join("data/big");
    let found = fs::symlink_metadata(&path).unwrap();
    assert!(found.is_file() && found.nlink() == 1, "{found:?}");
    fs::write(&path, "changed by the job").unwrap();
    fs::rename(&work, work.with_file_name("earlier")).unwrap();
    prepare_tree(&place, vec![big]).unwrap();
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn a_file_with_mode_link_is_shared_and_lies_on_the_disk_once() {
    let place = place();
    let mut big = file(&place.paths, "data/big.bin", b"read by many", false);
    let mut program = file(&place.paths, "run", b"#!/bin/sh", true);
    (big.shared, program.shared) = (true, true);
    let work = prepare_tree(&place, vec![big.clone(), program])
        .unwrap()
        .work;
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let target = fs::read_link(work.join("data/big.bin")).unwrap();
    assert!(target.starts_with(place.paths.trees()) && target.ends_with("data/big.bin"));
    assert_eq!((mode(&target), mode(&work.join("run"))), (0o400, 0o500));
    let stored = Store::new(&place.paths).path(blake3::hash(b"read by many").as_bytes());
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    // Root would write to the stored file through it.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(inode(&target) == inode(&stored), !is_root);
    let beside = fs::read_dir(target.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "private names are gone");
    // No later run reads what a job wrote through the link.
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&target, "read by mani").unwrap();
    put(&place.paths, b"read by many");
    fs::rename(&work, work.with_file_name("earlier")).unwrap();
    let work = prepare_tree(&place, vec![big]).unwrap().work;
    let read = fs::read(work.join("data/big.bin")).unwrap();
    assert_eq!(read, b"read by many");
}

#[test]
fn stored_content_that_changed_is_not_started_and_is_asked_for_again() {
    type Change = fn(&Path);
    let content = b"loss 0.5";
    let hash = *blake3::hash(content).as_bytes();
    let changes: [(&str, Change); 3] = [
        ("one bit", |stored| fs::write(stored, "loqs 0.5").unwrap()),
        ("cut to nothing", |stored| fs::write(stored, "").unwrap()),
        ("gone", |stored| fs::remove_file(stored).unwrap()),
    ];
    for (what, change) in changes {
        let place = place();
        let entry = file(&place.paths, "data/in.txt", content, false);
        let store = Store::new(&place.paths);
        let stored = store.path(&hash);
        if stored.exists() {
            fs::set_permissions(&stored, fs::Permissions::from_mode(0o600)).unwrap();
        }
        change(&stored);
        let refused = prepare_tree(&place, vec![entry.clone()]).unwrap_err();
        assert!(refused.is_lacking(), "{what}: {refused:?}");
        assert!(!place.paths.run(run()).join("work").exists(), "{what}");
        assert!(!store.view().has(&hash), "{what}");
        put(&place.paths, content);
        let work = prepare_tree(&place, vec![entry]).unwrap().work;
        assert_eq!(fs::read(work.join("data/in.txt")).unwrap(), content);
    }
}

#[test]
fn content_that_was_verified_is_hashed_again_when_it_was_written_to() {
    let place = place();
    let hash: [u8; 32] = put(&place.paths, b"same").try_into().unwrap();
    let store = Store::new(&place.paths);
    let path = store.path(&hash);
    drop(store.verified().open(&path, &hash).unwrap());
    let before = fs::metadata(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "evil").unwrap();
    // As a job does that hides its change.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let error = store.verified().open(&path, &hash).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let error = store
        .view()
        .copy(&hash, &place.folder.path().join("copy"), 0o600);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn paths_that_lead_out_are_refused_before_anything_is_made() {
    let place = place();
    let paths = &place.paths;
    let hostile = |path: &str| vec![file(paths, path, b"x", false)];
    for path in [
        "../x",
        "/etc/x",
        "a/../../x",
        "a//b",
        ".",
        "",
        "a\0b",
        "a/.",
    ] {
        let error = prepare_tree(&place, hostile(path)).unwrap_err();
        assert!(
            matches!(error, PrepareError::Tree(tree::TreeError::Path { .. })),
            "{path:?}: {error}"
        );
    }
    let through = vec![link("a", "/tmp"), file(paths, "a/escaped", b"x", false)];
    assert!(prepare_tree(&place, through).is_err());
    let twice = vec![file(paths, "a", b"x", false), file(paths, "a", b"y", false)];
    assert!(prepare_tree(&place, twice).is_err());
    assert!(!paths.run(run()).join("work").exists());
}

/// Stores contents that arrive together.
fn gather(paths: &NodePaths, contents: &[Vec<u8>]) {
    gather_with(paths, contents, true);
}

/// The same, with or without room to join packs.
fn gather_with(paths: &NodePaths, contents: &[Vec<u8>], is_room: bool) {
    let mut gathering = gather::UnnamedContents::new(&Store::new(paths));
    for content in contents {
        let hash = *blake3::hash(content).as_bytes();
        gathering.take(hash, content.clone()).unwrap();
    }
    gathering.name(|_| is_room).unwrap();
}

fn many(count: usize) -> (Vec<Vec<u8>>, Vec<TreeEntry>) {
    let contents = (0..count).map(|number| format!("content {number}").into_bytes());
    let contents: Vec<Vec<u8>> = contents.collect();
    let entries = contents
        .iter()
        .enumerate()
        .map(|(number, content)| TreeEntry {
            path: format!("d{}/f{number}", number % 7),
            hash: blake3::hash(content).as_bytes().to_vec(),
            size: content.len() as u64,
            executable: number == 3,
            ..TreeEntry::default()
        });
    let entries = entries.collect();
    (contents, entries)
}

fn packs(paths: &NodePaths) -> Vec<PathBuf> {
    let packs = nero_blobs::Packs::open(&paths.store()).unwrap();
    packs.iter().map(|pack| pack.path().to_path_buf()).collect()
}

#[test]
fn many_small_files_that_come_together_lie_in_one_and_are_copied_from_there() {
    let place = place();
    let (contents, entries) = many(config::FILES_MADE_ALONE + 20);
    gather(&place.paths, &contents);
    assert_eq!(packs(&place.paths).len(), 1);
    let alone = Store::new(&place.paths).path(blake3::hash(&contents[0]).as_bytes());
    assert!(!alone.exists());
    let tree = Tree {
        entries: entries.clone(),
    };
    tree::complete(&Store::new(&place.paths), &tree).unwrap();
    let work = prepare_tree(&place, entries.clone()).unwrap().work;
    for (content, entry) in contents.iter().zip(&entries) {
        assert_eq!(fs::read(work.join(&entry.path)).unwrap(), *content);
        let mode = fs::symlink_metadata(work.join(&entry.path)).unwrap().mode();
        assert_eq!(mode & 0o777 == 0o700, entry.executable, "{mode:o}");
    }
}

#[test]
fn a_list_gets_no_name_when_the_disk_refused_what_it_lists() {
    let place = place();
    let store = Store::new(&place.paths);
    let (contents, _) = many(100);
    let mut gathering = gather::UnnamedContents::new(&store);
    for content in &contents {
        let hash = *blake3::hash(content).as_bytes();
        gathering.take(hash, content.clone()).unwrap();
    }
    let list = *blake3::hash(b"list").as_bytes();
    gathering.take(list, b"list".to_vec()).unwrap();
    fs::write(store.folder().join(nero_blobs::FOLDER), "in the way").unwrap();
    gathering.name(|_| true).unwrap_err();
    // A second call, as after a cut that is noticed twice.
    gathering.name(|_| true).unwrap();
    assert!(!store.view().has(&list));
}

#[test]
fn a_few_small_files_are_files_of_their_own() {
    let place = place();
    let (contents, entries) = many(10);
    gather(&place.paths, &contents);
    assert!(packs(&place.paths).is_empty());
    let work = prepare_tree(&place, entries).unwrap().work;
    assert_eq!(fs::read(work.join("d1/f8")).unwrap(), b"content 8");
}

#[test]
fn a_damaged_part_of_a_pack_goes_and_is_asked_for_again() {
    let place = place();
    let (contents, entries) = many(100);
    gather(&place.paths, &contents);
    let [pack] = packs(&place.paths).try_into().unwrap();
    fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[5] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let refused = prepare_tree(&place, entries.clone()).unwrap_err();
    assert!(refused.to_string().contains("is damaged"), "{refused}");
    let tree = Tree {
        entries: entries.clone(),
    };
    let missing = tree::complete(&Store::new(&place.paths), &tree).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "1 of 100 files are not on the node yet",
        "what else it held stays"
    );
    let store = Store::new(&place.paths);
    let look = store.view();
    let lacks = |content: &&Vec<u8>| !look.has(blake3::hash(content).as_bytes());
    let lacking: Vec<Vec<u8>> = contents.iter().filter(lacks).cloned().collect();
    gather(&place.paths, &lacking);
    prepare_tree(&place, entries).unwrap();
}

#[test]
fn the_list_that_ends_a_transfer_is_a_file_of_its_own() {
    let place = place();
    let (mut contents, entries) = many(100);
    let list = Tree { entries }.encode_to_vec();
    let hash = *blake3::hash(&list).as_bytes();
    contents.push(list);
    gather(&place.paths, &contents);
    assert_eq!(packs(&place.paths).len(), 1);
    assert!(Store::new(&place.paths).path(&hash).exists());
}

#[test]
fn packs_do_not_become_ever_more() {
    let place = place();
    let (contents, entries) = many(50 * (nero_blobs::CONTENTS_MIN + 1));
    for part in contents.chunks(nero_blobs::CONTENTS_MIN + 1) {
        gather_with(&place.paths, part, false);
    }
    assert_eq!(
        packs(&place.paths).len(),
        50,
        "there was no room for others"
    );
    let (more, _) = many(51 * (nero_blobs::CONTENTS_MIN + 1));
    gather(&place.paths, &more[contents.len()..]);
    let count = packs(&place.paths).len();
    assert!(count < 32, "{count} packs");
    prepare_tree(&place, entries).unwrap();
}

#[test]
fn every_file_of_a_tree_of_very_many_is_a_private_copy() {
    let place = place();
    let (contents, entries) = many(20_010);
    gather(&place.paths, &contents);
    let work = prepare_tree(&place, entries.clone()).unwrap().work;
    for entry in &entries {
        let found = fs::symlink_metadata(work.join(&entry.path)).unwrap();
        assert!(found.is_file() && found.nlink() == 1, "{}", entry.path);
    }
    assert!(!place.paths.trees().exists());
}

#[test]
fn missing_content_is_counted() {
    let place = place();
    let mut lost = file(&place.paths, "lost", b"x", false);
    lost.hash = vec![9; 32];
    let tree = Tree {
        entries: vec![file(&place.paths, "here", b"y", false), lost],
    };
    let error = tree::complete(&Store::new(&place.paths), &tree).unwrap_err();
    assert_eq!(error.to_string(), "1 of 2 files are not on the node yet");
}

#[test]
fn a_wrong_hash_never_gets_a_name() {
    let place = place();
    let store = Store::new(&place.paths);
    let mut incoming = store.begin([3; 32], 0, true).unwrap();
    incoming.write(b"other").unwrap();
    assert!(store.finish(incoming).is_err());
    assert!(!store.view().has(&[3; 32]));
    let left = |folder| fs::read_dir(folder).unwrap().count();
    assert_eq!((left(place.paths.store()), left(store.partials())), (1, 0));
}

#[test]
fn parameters_keep_their_types_and_order_in_the_file() {
    let place = place();
    let param = |name: &str, text: &str, json: &str| Param {
        name: name.to_owned(),
        text: text.to_owned(),
        json: json.to_owned(),
    };
    let spec = RunSpec {
        argv: vec!["sh".to_owned()],
        params: vec![
            param("z", "0.10", "0.1"),
            param("a", "no", "false"),
            param("odd", "x", "not json"),
        ],
        ..RunSpec::default()
    };
    let store = Store::new(&place.paths);
    let prepared = prepare(&place.paths, &store, &Base::of_node(), run(), &spec, 1).unwrap();
    let path = place.paths.run(run()).join("params.json");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"z\":0.1,\"a\":false,\"odd\":\"x\"}\n"
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let expected = format!("NERO_PARAMS={}", path.display()).into_bytes();
    assert!(prepared.env.contains(&expected));
}

#[test]
fn the_environment_is_kept_for_readers_of_the_output_alone() {
    let place = place();
    let mut spec = RunSpec {
        argv: vec!["sh".to_owned()],
        env: vec![EnvVar {
            name: "SCALE".to_owned(),
            value: "a b=c".to_owned(),
            ..EnvVar::default()
        }],
        ..RunSpec::default()
    };
    let store = Store::new(&place.paths);
    let path = place.paths.run(run()).join("reader-2.env");
    prepare(&place.paths, &store, &Base::of_node(), run(), &spec, 2).unwrap();
    assert!(!path.exists());
    spec.metric_reading = Some(MetricReading {
        readers: vec![MetricReader {
            argv: vec!["./reader.py".to_owned()],
        }],
        ..MetricReading::default()
    });
    let prepared = prepare(&place.paths, &store, &Base::of_node(), run(), &spec, 2).unwrap();
    let kept = fs::read(&path).unwrap();
    let kept: Vec<&[u8]> = kept.split_inclusive(|byte| *byte == 0).collect();
    assert!(kept.contains(&b"SCALE=a b=c\0".as_slice()));
    assert!(kept.iter().any(|var| var.starts_with(b"NERO_RUN=")));
    // With this one it would be taken for a process of the job.
    assert!(!kept.iter().any(|var| var.starts_with(b"NERO_DIR=")));
    assert_eq!(kept.len() + 1, prepared.env.len());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_shared_file_that_a_power_cut_emptied_is_made_anew() {
    let place = place();
    let mut big = file(&place.paths, "big", b"whole", false);
    big.shared = true;
    let work = prepare_tree(&place, vec![big.clone()]).unwrap().work;
    let shared = fs::read_link(work.join("big")).unwrap();
    fs::remove_file(&shared).unwrap();
    fs::write(&shared, "").unwrap();
    fs::remove_dir_all(&work).unwrap();
    let work = prepare_tree(&place, vec![big]).unwrap().work;
    assert_eq!(fs::read(work.join("big")).unwrap(), b"whole");
}

#[test]
fn a_work_folder_that_cannot_be_built_leaves_nothing() {
    let place = place();
    let mut lost = file(&place.paths, "b", b"x", false);
    lost.hash = vec![9; 32];
    let entries = vec![file(&place.paths, "a", b"y", false), lost];
    prepare_tree(&place, entries).unwrap_err();
    let left = fs::read_dir(place.paths.run(run())).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn an_empty_file_of_no_parameters_is_written_anew() {
    let place = place();
    let path = place.paths.mum().join("no-params.json");
    let spec = RunSpec {
        argv: vec!["sh".to_owned()],
        ..RunSpec::default()
    };
    // As a full disk leaves it.
    fs::write(&path, "").unwrap();
    let store = Store::new(&place.paths);
    prepare(&place.paths, &store, &Base::of_node(), run(), &spec, 1).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
}

#[test]
fn two_nodes_with_one_store_do_not_write_one_half() {
    let place = place();
    let content = vec![5; 100_000];
    let hash = *blake3::hash(&content).as_bytes();
    let first = Store::new(&place.paths);
    let mut going = first.begin(hash, 0, false).unwrap();
    going.write(&content[..60_000]).unwrap();
    // Another node of the same deployment begins with the same file.
    let other = NodePaths::new(place.folder.path(), &place.deployment, "other");
    let second = Store::new(&other);
    assert_eq!(second.partial(&hash), 0);
    let mut late = second.begin(hash, 0, false).unwrap();
    late.write(&content[..10]).unwrap();
    going.write(&content[60_000..]).unwrap();
    first.finish(going).unwrap();
    assert_eq!(fs::read(first.path(&hash)).unwrap(), content);
    drop(late);
    assert_eq!((first.partial(&hash), second.partial(&hash)), (0, 10));
}

#[test]
fn a_later_start_begins_with_the_newest_checkpoints_of_the_ones_before() {
    let place = place();
    let spec = RunSpec {
        argv: vec!["sh".to_owned()],
        checkpoint: vec!["ckpt/*".to_owned()],
        ..RunSpec::default()
    };
    let store = Store::new(&place.paths);
    let resumed = |incarnation: u32| {
        let made = prepare(
            &place.paths,
            &store,
            &Base::of_node(),
            run(),
            &spec,
            incarnation,
        );
        let made = made.unwrap();
        let set = made.env.iter().find(|var| var.starts_with(b"NERO_RESUME="));
        let is_own = set.map(|var| var.ends_with(made.work.as_os_str().as_encoded_bytes()));
        (made.work.clone(), is_own)
    };
    let (first, is_set) = resumed(1);
    assert_eq!(is_set, None);
    // Nothing was kept: the next start begins at the beginning.
    assert_eq!(resumed(2).1, None);
    fs::create_dir(first.join("ckpt")).unwrap();
    fs::write(first.join("ckpt/a"), "7").unwrap();
    fs::write(first.join("other"), "x").unwrap();
    // The second start made none: those of the first count.
    let (third, is_set) = resumed(3);
    assert_eq!(is_set, Some(true));
    assert_eq!(fs::read(third.join("ckpt/a")).unwrap(), b"7");
    assert!(!third.join("other").exists());
    fs::write(third.join("ckpt/a"), "8").unwrap();
    let (fourth, is_set) = resumed(4);
    assert_eq!(
        (is_set, fs::read(fourth.join("ckpt/a")).unwrap()),
        (Some(true), b"8".to_vec())
    );
    // A try that is made again finds its folder as it was built.
    assert_eq!(resumed(4).1, Some(true));
}
