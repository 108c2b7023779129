//! Files on their way into the store, interrupted and continued, and swept from
//! there.

use std::path::PathBuf;

use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{BlobList, BlobPart, CleanRequest, PutBlobsReply, RunSpec, Tree, TreeEntry};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::rig::{Follower, Known, Mum, Node, wait_for};
use crate::setup::hash;

/// A blob cut into parts, from an offset on.
fn parts(content: &[u8], offset: usize, size: usize) -> Vec<BlobPart> {
    let count = (content.len() - offset).div_ceil(size).max(1);
    let mut parts: Vec<BlobPart> = (0..count)
        .map(|index| {
            let from = offset + index * size;
            BlobPart {
                data: content[from..content.len().min(from + size)].to_vec(),
                ..BlobPart::default()
            }
        })
        .collect();
    parts[0].hash = hash(content);
    parts[0].offset = offset as u64;
    parts[count - 1].last = true;
    parts
}

async fn put(mum: &mut Mum, parts: Vec<BlobPart>) -> Result<PutBlobsReply, Status> {
    let reply = mum.client.put_blobs(tokio_stream::iter(parts)).await;
    reply.map(tonic::Response::into_inner)
}

async fn missing(mum: &mut Mum, hashes: &[Vec<u8>]) -> BlobList {
    let list = BlobList {
        hashes: hashes.to_vec(),
        ..BlobList::default()
    };
    mum.client.missing_blobs(list).await.unwrap().into_inner()
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn blob(node: &Node, hash: &[u8]) -> PathBuf {
    let name = nero_model::ids::hex(hash);
    node.paths.store().join(&name[..2]).join(name)
}

fn partial(node: &Node, hash: &[u8]) -> PathBuf {
    let name = nero_model::ids::hex(hash);
    node.paths.store().join("partial/n").join(name)
}

fn length(path: &std::path::Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| found.len())
}

/// Begins a blob and leaves its stream open; returns once that many bytes are
/// on disk.
async fn begin(
    node: &Node,
    mum: &Mum,
    content: &[u8],
    bytes: usize,
) -> (
    mpsc::Sender<BlobPart>,
    tokio::task::JoinHandle<Result<PutBlobsReply, Status>>,
) {
    let (sender, queue) = mpsc::channel(64);
    let mut client = mum.client.clone();
    let put = tokio::spawn(async move {
        let reply = client.put_blobs(ReceiverStream::new(queue)).await;
        reply.map(tonic::Response::into_inner)
    });
    for mut part in parts(&content[..bytes], 0, 64 * 1024) {
        if !part.hash.is_empty() {
            part.hash = hash(content);
        }
        part.last = false;
        sender.send(part).await.unwrap();
    }
    let path = partial(node, &hash(content));
    wait_for("the first part on disk", || {
        (length(&path) == Some(bytes as u64)).then_some(())
    })
    .await;
    (sender, put)
}

fn small(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| format!("small {number}").into_bytes())
        .collect()
}

fn hashes(contents: &[Vec<u8>]) -> Vec<Vec<u8>> {
    contents.iter().map(|content| hash(content)).collect()
}

#[tokio::test]
async fn of_many_small_files_none_that_came_before_a_cut_is_sent_again() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let contents = small(200);
    let (sender, queue) = mpsc::channel(400);
    let mut client = mum.client.clone();
    let cut = tokio::spawn(async move { client.put_blobs(ReceiverStream::new(queue)).await });
    for content in &contents[..150] {
        sender
            .send(parts(content, 0, 64 * 1024).remove(0))
            .await
            .unwrap();
    }
    // Half of a longer file: its arrival shows that the small ones arrived.
    let long = noise(200_000, 9);
    let half = parts(&long, 0, 100_000).remove(0);
    sender.send(half).await.unwrap();
    wait_for("the longer file's half", || {
        (length(&partial(&node, &hash(&long))) == Some(100_000)).then_some(())
    })
    .await;
    cut.abort();
    let all = hashes(&contents);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let lacking = loop {
        let lacking = missing(&mut mum, &all).await.hashes;
        if lacking.len() == 50 || std::time::Instant::now() > deadline {
            break lacking;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert_eq!(lacking, all[150..]);
    // The rest, the longer file, and the tree that lists them.
    let mut rest: Vec<BlobPart> = contents[150..]
        .iter()
        .flat_map(|content| parts(content, 0, 64 * 1024))
        .collect();
    rest.extend(parts(&long, 100_000, 64 * 1024));
    let reply = put(&mut mum, rest).await.unwrap();
    assert_eq!(reply.stored, 51);
    assert!(missing(&mut mum, &all).await.hashes.is_empty());
    node.kill_mum();
    let mut mum = node.start().await;
    assert!(missing(&mut mum, &all).await.hashes.is_empty());
    assert!(missing(&mut mum, &[hash(&long)]).await.hashes.is_empty());
}

#[tokio::test]
async fn while_a_long_file_comes_the_small_ones_before_it_are_safe() {
    let mut node = Node::new();
    let mum = node.start().await;
    let contents = small(100);
    let (sender, queue) = mpsc::channel(400);
    let mut client = mum.client.clone();
    let cut = tokio::spawn(async move { client.put_blobs(ReceiverStream::new(queue)).await });
    for content in &contents {
        let part = parts(content, 0, 64 * 1024).remove(0);
        sender.send(part).await.unwrap();
    }
    let long = noise(200_000, 9);
    let half = parts(&long, 0, 100_000).remove(0);
    sender.send(half).await.unwrap();
    wait_for("the longer file's half", || {
        (length(&partial(&node, &hash(&long))) == Some(100_000)).then_some(())
    })
    .await;
    node.kill_mum();
    assert!(cut.await.unwrap().is_err());
    let mut mum = node.start().await;
    let lacking = missing(&mut mum, &hashes(&contents)).await;
    assert!(lacking.hashes.is_empty());
}

#[tokio::test]
async fn small_files_with_another_content_than_announced_are_refused() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let contents = small(100);
    let mut all: Vec<BlobPart> = contents
        .iter()
        .flat_map(|content| parts(content, 0, 64 * 1024))
        .collect();
    all[70].data = b"another".to_vec();
    let refused = put(&mut mum, all).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let lacking = missing(&mut mum, &hashes(&contents)).await.hashes;
    assert!(lacking.contains(&hash(&contents[70])));
}

#[tokio::test]
async fn a_transfer_that_neromum_died_in_goes_on_where_it_was() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let content = noise(3_000_000, 1);
    let name = hash(&content);
    assert_eq!(
        missing(&mut mum, std::slice::from_ref(&name)).await.partial,
        [0]
    );
    let (_sender, put_first) = begin(&node, &mum, &content, 1_000_000).await;
    node.kill_mum();
    assert!(put_first.await.unwrap().is_err());
    let mut mum = node.start().await;
    let other = hash(b"other");
    let lacking = missing(&mut mum, &[other.clone(), name.clone()]).await;
    assert_eq!(lacking.hashes, [other, name.clone()]);
    assert_eq!(lacking.partial, [0, 1_000_000]);
    // An offset beyond the stored bytes is refused, without harm.
    let refused = put(&mut mum, parts(&content, 2_000_000, 100_000)).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::FailedPrecondition);
    // An earlier offset is accepted: the bytes after it come again.
    let reply = put(&mut mum, parts(&content, 999_000, 256 * 1024)).await;
    assert_eq!((reply.unwrap().stored), 1);
    assert_eq!(std::fs::read(blob(&node, &name)).unwrap(), content);
    assert!(!partial(&node, &name).exists());
    assert_eq!(missing(&mut mum, &[name]).await, BlobList::default());
}

#[tokio::test]
async fn a_partial_file_with_wrong_content_is_dropped_and_asked_for_anew() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let content = noise(600_000, 2);
    let name = hash(&content);
    let (sender, first) = begin(&node, &mum, &content, 200_000).await;
    drop(sender);
    assert!(first.await.unwrap().is_err(), "the blob was not ended");
    let mut wrong = std::fs::read(partial(&node, &name)).unwrap();
    wrong[7] ^= 1;
    std::fs::write(partial(&node, &name), wrong).unwrap();
    let refused = put(&mut mum, parts(&content, 200_000, 256 * 1024)).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::Aborted);
    assert!(!blob(&node, &name).exists() && !partial(&node, &name).exists());
    assert_eq!(
        missing(&mut mum, std::slice::from_ref(&name)).await.partial,
        [0]
    );
    put(&mut mum, parts(&content, 0, 256 * 1024)).await.unwrap();
    assert_eq!(std::fs::read(blob(&node, &name)).unwrap(), content);
}

#[tokio::test]
async fn two_senders_of_one_blob_do_not_harm_each_other() {
    let mut node = Node::new();
    let mum = node.start().await;
    let content = noise(2_000_000, 3);
    let (sender, first) = begin(&node, &mum, &content, 500_000).await;
    // The second sender continues at the offset that the first reached, and a
    // third begins at the beginning.
    let mut second = node.connect().await;
    put(&mut second, parts(&content, 300_000, 200_000))
        .await
        .unwrap();
    let mut third = node.connect().await;
    put(&mut third, parts(&content, 0, 200_000)).await.unwrap();
    let rest = parts(&content, 500_000, 64 * 1024);
    for mut part in rest {
        part.hash.clear();
        sender.send(part).await.unwrap();
    }
    drop(sender);
    assert_eq!(first.await.unwrap().unwrap().bytes, 2_000_000);
    let name = hash(&content);
    assert_eq!(std::fs::read(blob(&node, &name)).unwrap(), content);
    let left: Vec<_> = std::fs::read_dir(node.paths.store())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes()[0] == b'.')
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn thousands_of_small_files_come_in_one_stream() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let contents: Vec<Vec<u8>> = (0..3_000)
        .map(|index| format!("small file {index}\n").repeat(20).into_bytes())
        .collect();
    let begun = std::time::Instant::now();
    let all: Vec<BlobPart> = contents
        .iter()
        .flat_map(|content| parts(content, 0, 64 * 1024))
        .collect();
    let reply = put(&mut mum, all).await.unwrap();
    println!("3000 small files took {:?}", begun.elapsed());
    assert_eq!(reply.stored, 3_000);
    let hashes: Vec<_> = contents.iter().map(|content| hash(content)).collect();
    assert_eq!(missing(&mut mum, &hashes).await, BlobList::default());
    let packs = std::fs::read_dir(node.paths.store().join("packs")).unwrap();
    let [pack] = packs.collect::<Vec<_>>().try_into().unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    let mode = pack.unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o400);
}

#[tokio::test]
async fn a_disk_without_room_says_how_much_is_lacking() {
    let mut node = Node::with(&["--cpus", "2", "--min-free", "1000000000000000000"]);
    let mut mum = node.start().await;
    let refused = put(&mut mum, parts(&noise(5000, 4), 0, 1000)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    for part in ["are free at", "888P are kept back", "4.9K more"] {
        assert!(refused.message().contains(part), "{}", refused.message());
    }
}

#[tokio::test]
async fn a_blob_that_a_power_cut_emptied_is_asked_for_again() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let content = b"whole".to_vec();
    let tree = Tree {
        entries: vec![TreeEntry {
            path: "a".to_owned(),
            hash: hash(&content),
            size: 5,
            ..TreeEntry::default()
        }],
    }
    .encode_to_vec();
    let spec = RunSpec {
        tree: hash(&tree),
        ..node.sh(1, "cat a")
    };
    let all = [parts(&content, 0, 100), parts(&tree, 0, 1000)].concat();
    put(&mut mum, all).await.unwrap();
    let path = blob(&node, &hash(&content));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "who").unwrap();
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert!(reply.refused[0].why.contains("1 of 1 files"), "{reply:?}");
    // The run itself is not at fault: it is accepted once the rest has come.
    assert!(reply.refused[0].later && !reply.refused[0].only_here);
    assert_eq!(missing(&mut mum, &[hash(&content)]).await.hashes.len(), 1);
    put(&mut mum, parts(&content, 0, 100)).await.unwrap();
    // The same for the list of the files.
    let path = blob(&node, &hash(&tree));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "half").unwrap();
    assert!(mum.hand_over(vec![spec.clone()]).await.refused[0].later);
    assert_eq!(missing(&mut mum, &[hash(&tree)]).await.hashes.len(), 1);
    put(&mut mum, parts(&tree, 0, 1000)).await.unwrap();
    mum.accept(&[&spec]).await;
}

/// A run that its node gave back, and whose files are there again.
async fn given_back(node: &mut Node) -> (Mum, Follower, RunSpec) {
    let mut mum = node.start().await;
    let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    let content = b"whole".to_vec();
    let tree = Tree {
        entries: vec![TreeEntry {
            path: "a".to_owned(),
            hash: hash(&content),
            size: 5,
            ..TreeEntry::default()
        }],
    }
    .encode_to_vec();
    let all = [parts(&content, 0, 100), parts(&tree, 0, 1000)].concat();
    put(&mut mum, all).await.unwrap();
    let spec = RunSpec {
        tree: hash(&tree),
        generation: 1,
        ..node.sh(2, "cat a")
    };
    mum.accept(&[&first, &spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Waiting).await;
    std::fs::remove_file(blob(node, &hash(&content))).unwrap();
    std::fs::write(node.run_dir(&first).join("go"), "").unwrap();
    follower.stage(&spec, Stage::UnknownRun).await;
    put(&mut mum, parts(&content, 0, 100)).await.unwrap();
    (mum, follower, spec)
}

#[tokio::test]
async fn a_run_that_was_given_back_comes_in_by_a_later_generation_alone() {
    let mut node = Node::with(&["--cpus", "1"]);
    let (mut mum, mut follower, spec) = given_back(&mut node).await;
    // A hand-over of an earlier connection, which comes in late: another node may
    // have the run by now.
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert!(reply.accepted.is_empty(), "{reply:?}");
    assert!(reply.refused[0].unknown_run, "{reply:?}");
    assert!(!node.run_dir(&spec).exists());
    let again = RunSpec {
        generation: 2,
        ..spec.clone()
    };
    mum.accept(&[&again]).await;
    follower.settled(&[&again]).await;
}

#[tokio::test]
async fn a_neroman_of_an_earlier_build_hands_a_run_that_was_given_back_over_as_it_was() {
    let mut node = Node::with(&["--cpus", "1"]);
    node.capability = None;
    let (mut mum, mut follower, spec) = given_back(&mut node).await;
    mum.accept(&[&spec]).await;
    follower.settled(&[&spec]).await;
}

async fn ended(mum: &mut Mum, spec: &RunSpec) {
    mum.accept(&[spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(spec, Stage::Ended).await;
}

/// Counts the files of the store, and checks that each matches its name.
fn whole_blobs(node: &Node) -> usize {
    let mut count = 0;
    for folder in std::fs::read_dir(node.paths.store()).unwrap().flatten() {
        let name = folder.file_name();
        if name.len() != 2 || !folder.path().is_dir() {
            continue;
        }
        for blob in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let found = hash(&std::fs::read(blob.path()).unwrap());
            let name = blob.file_name().into_string().unwrap();
            assert_eq!(nero_model::ids::hex(&found), name);
            count += 1;
        }
    }
    count
}

#[tokio::test]
async fn killed_while_files_come_and_while_they_go_every_one_is_whole_or_absent() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let contents: Vec<Vec<u8>> = (0..1500)
        .map(|index| format!("file {index}\n").repeat(50).into_bytes())
        .collect();
    let all = |contents: &[Vec<u8>]| -> Vec<BlobPart> {
        let each = contents.iter();
        each.flat_map(|content| parts(content, 0, 300)).collect()
    };
    let mut client = mum.client.clone();
    let sent = all(&contents);
    let putting = tokio::spawn(async move { client.put_blobs(tokio_stream::iter(sent)).await });
    let some = blob(&node, &hash(&contents[200]));
    wait_for("some of the files", || some.exists().then_some(())).await;
    node.kill_mum();
    let _ = putting.await;
    assert!(whole_blobs(&node) > 200);
    mum = node.start().await;
    let hashes: Vec<_> = contents.iter().map(|content| hash(content)).collect();
    let lacking = missing(&mut mum, &hashes).await.hashes;
    let rest: Vec<Vec<u8>> = contents
        .iter()
        .filter(|content| lacking.contains(&hash(content)))
        .cloned()
        .collect();
    put(&mut mum, all(&rest)).await.unwrap();
    assert_eq!(whole_blobs(&node), 1500);
    // No run names them, and the new neromum was asked for none.
    let tree = Tree {
        entries: contents[..3]
            .iter()
            .zip(["a", "b", "c"])
            .map(|(content, path)| TreeEntry {
                path: path.to_owned(),
                hash: hash(content),
                size: content.len() as u64,
                ..TreeEntry::default()
            })
            .collect(),
    };
    let list = tree.encode_to_vec();
    put(&mut mum, parts(&list, 0, 1000)).await.unwrap();
    let spec = RunSpec {
        tree: hash(&list),
        ..node.sh(1, "cat a b c")
    };
    ended(&mut mum, &spec).await;
    node.kill_mum();
    mum = node.start().await;
    let sweep = CleanRequest {
        store: true,
        unnamed_ms: 1,
        ..CleanRequest::default()
    };
    let (mut client, request) = (mum.client.clone(), sweep.clone());
    let sweeping = tokio::spawn(async move { client.clean(request).await });
    let paths: Vec<PathBuf> = hashes.iter().map(|hash| blob(&node, hash)).collect();
    wait_for("some to be gone", || {
        let gone = paths.iter().filter(|path| !path.exists()).count();
        (gone > 50 || sweeping.is_finished()).then_some(())
    })
    .await;
    node.kill_mum();
    let _ = sweeping.await;
    let left = whole_blobs(&node);
    assert!((4..1501).contains(&left), "{left}");
    mum = node.start().await;
    mum.client.clean(sweep).await.unwrap();
    assert_eq!(whole_blobs(&node), 4);
    assert!(paths[..3].iter().all(|path| path.exists()));
}

#[tokio::test]
async fn a_full_disk_keeps_what_came_and_sending_goes_on_when_there_is_room() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    }
    let mut node = Node::new();
    let store = node.paths.store();
    std::fs::create_dir_all(&store).unwrap();
    let plain = node.command();
    let mut command = std::process::Command::new("unshare");
    let script = "mount -t tmpfs -o size=2m,mode=700 none \"$0\" && exec \"$@\"";
    command.args(["-m", "sh", "-c", script]).arg(&store);
    command.arg(plain.get_program()).args(plain.get_args());
    let mut mum = node.start_as(command).await;
    let small = b"small".to_vec();
    put(&mut mum, parts(&small, 0, 100)).await.unwrap();
    let content = noise(5_000_000, 5);
    let refused = put(&mut mum, parts(&content, 0, 64 * 1024)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    assert!(
        refused.message().contains("or more are needed"),
        "{refused}"
    );
    let lacking = missing(&mut mum, &[hash(&content), hash(&small)]).await;
    assert_eq!(lacking.hashes, [hash(&content)]);
    let partial = lacking.partial[0] as usize;
    assert!(partial > 1_000_000, "{partial}");
    let enlarged = std::process::Command::new("nsenter")
        .args(["-t", &node.mum_pid().to_string(), "-m", "mount"])
        .args(["-o", "remount,size=20m"])
        .arg(&store)
        .status();
    assert!(enlarged.unwrap().success());
    let rest = parts(&content, partial, 64 * 1024);
    assert_eq!(put(&mut mum, rest).await.unwrap().bytes, 5_000_000);
    let lacking = missing(&mut mum, &[hash(&content)]).await;
    assert_eq!(lacking, BlobList::default());
}
