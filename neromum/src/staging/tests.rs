//! Work folders from trees, hostile ones included.

use super::*;
use crate::config;
use nero_model::{DeploymentId, ExperimentId};
use nero_wire::v1::{Param, Tree, TreeEntry};
use prost::Message as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

struct Place {
    folder: tempfile::TempDir,
    deployment: DeploymentId,
    paths: NodePaths,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let paths = NodePaths::new(folder.path(), &deployment, "n");
    nero_model::paths::make_private(&paths.mum()).unwrap();
    nero_model::paths::make_private(&paths.run(run())).unwrap();
    Place {
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
        link: String::new(),
    }
}

fn link(path: &str, to: &str) -> TreeEntry {
    TreeEntry {
        path: path.to_owned(),
        link: to.to_owned(),
        ..TreeEntry::default()
    }
}

fn prepare_tree(place: &Place, entries: Vec<TreeEntry>) -> Result<Prepared, PrepareError> {
    let tree = put(&place.paths, &Tree { entries }.encode_to_vec());
    let spec = RunSpec {
        argv: vec!["sh".to_owned()],
        tree,
        ..RunSpec::default()
    };
    prepare(&place.paths, &Base::of_node(), run(), &spec, 1)
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
    // Writing to the copy leaves the store as it is.
    fs::write(work.join("main.py"), "changed").unwrap();
    let hash = *blake3::hash(b"print(1)").as_bytes();
    assert_eq!(Store::new(paths).read(&hash).unwrap(), b"print(1)");
}

#[test]
fn a_large_file_is_shared_and_cannot_be_written() {
    let place = place();
    let mut big = file(&place.paths, "data/big", b"pretended", false);
    big.size = config_limit() + 1;
    let work = prepare_tree(&place, vec![big]).unwrap().work;
    let path = work.join("data/big");
    assert_eq!(fs::read(&path).unwrap(), b"pretended");
    let found = fs::symlink_metadata(&path).unwrap();
    if found.is_symlink() {
        let target = fs::read_link(&path).unwrap();
        assert!(target.starts_with(place.paths.trees()));
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o400);
        // No second copy of it takes space.
        let stored = Store::new(&place.paths).path(blake3::hash(b"pretended").as_bytes());
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        // Root would write to the stored file through it.
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(inode(&target) == inode(&stored), !is_root);
    }
}

fn config_limit() -> u64 {
    config::FILE_BYTES_COPIED_MAX
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

/// Contents that come together, named when this returns.
fn gather(paths: &NodePaths, contents: &[Vec<u8>]) {
    gather_with(paths, contents, true);
}

/// Where there is room to put packs together, or none.
fn gather_with(paths: &NodePaths, contents: &[Vec<u8>], is_room: bool) {
    let mut gathering = gather::Gathering::new(&Store::new(paths));
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
            link: String::new(),
        });
    let entries = entries.collect();
    (contents, entries)
}

fn packs(paths: &NodePaths) -> Vec<PathBuf> {
    let packs = nero_pack::Packs::open(&paths.store()).unwrap();
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
    let mut gathering = gather::Gathering::new(&store);
    for content in &contents {
        let hash = *blake3::hash(content).as_bytes();
        gathering.take(hash, content.clone()).unwrap();
    }
    let list = *blake3::hash(b"list").as_bytes();
    gathering.take(list, b"list".to_vec()).unwrap();
    fs::write(store.folder().join(nero_pack::FOLDER), "in the way").unwrap();
    gathering.name(|_| true).unwrap_err();
    // As whoever notices a cut does it once more.
    gathering.name(|_| true).unwrap();
    assert!(!store.look().has(&list));
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
fn what_a_disk_damaged_in_a_pack_goes_and_is_asked_for_again() {
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
    let look = store.look();
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
    let (contents, entries) = many(50 * (nero_pack::CONTENTS_MIN + 1));
    for part in contents.chunks(nero_pack::CONTENTS_MIN + 1) {
        gather_with(&place.paths, part, false);
    }
    assert_eq!(
        packs(&place.paths).len(),
        50,
        "there was no room for others"
    );
    let (more, _) = many(51 * (nero_pack::CONTENTS_MIN + 1));
    gather(&place.paths, &more[contents.len()..]);
    let count = packs(&place.paths).len();
    assert!(count < 32, "{count} packs");
    prepare_tree(&place, entries).unwrap();
}

#[test]
fn a_tree_too_large_to_be_copied_for_each_run_is_linked() {
    let place = place();
    let (contents, mut entries) = many(config::TREE_BYTES_COPIED.0 + 10);
    gather(&place.paths, &contents);
    // Counted by what its list says.
    entries[0].size = config::TREE_BYTES_COPIED.1;
    entries[0].hash = put(&place.paths, b"large");
    let work = prepare_tree(&place, entries).unwrap().work;
    for (path, content) in [("d0/f0", "large"), ("d5/f5", "content 5")] {
        assert_eq!(fs::read(work.join(path)).unwrap(), content.as_bytes());
    }
    let shared = fs::read_link(work.join("d5/f5")).unwrap();
    assert!(shared.starts_with(place.paths.trees()));
    assert_eq!(fs::metadata(shared).unwrap().mode() & 0o777, 0o400);
    let shared = fs::read_link(work.join("d3/f3")).unwrap();
    assert_eq!(fs::metadata(shared).unwrap().mode() & 0o777, 0o500);
    let left = fs::read_dir(work.join("d5")).unwrap().count();
    let shared = fs::read_link(work.join("d5/f5")).unwrap();
    let beside = fs::read_dir(shared.parent().unwrap()).unwrap().count();
    assert_eq!(left, beside, "private names are gone");
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
    assert!(!store.look().has(&[3; 32]));
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
    let prepared = prepare(&place.paths, &Base::of_node(), run(), &spec, 1).unwrap();
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
fn a_shared_file_that_a_power_cut_emptied_is_made_anew() {
    let place = place();
    let content = vec![7; usize::try_from(config_limit()).unwrap() + 1];
    let entries = vec![file(&place.paths, "big", &content, false)];
    let work = prepare_tree(&place, entries.clone()).unwrap().work;
    let Ok(shared) = fs::read_link(work.join("big")) else {
        return; // The file system shares blocks: nothing is linked.
    };
    fs::remove_file(&shared).unwrap();
    fs::write(&shared, "").unwrap();
    fs::remove_dir_all(&work).unwrap();
    let work = prepare_tree(&place, entries).unwrap().work;
    let size = fs::metadata(work.join("big")).unwrap().len();
    assert_eq!(size, content.len() as u64);
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
    prepare(&place.paths, &Base::of_node(), run(), &spec, 1).unwrap();
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
