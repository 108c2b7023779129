//! Sends frozen files: only those that the node lacks, each by its content, all
//! files of a tree in one stream. Files are read ahead of the network, in order,
//! off the reactor. A file that was sent in part continues where the cut was.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nero_blobs::{CONTENT_BYTES_MAX, PackEntry, Packs};
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::transfer::{ProgressCallback, RunningTransfer};
use nero_home::failure::{Failure, connection_lost};

/// Bytes of one part of a blob.
const PART_BYTES: usize = 256 * 1024;
/// Parts read ahead of the network: 8 MiB at most, or as many small files.
const AHEAD: usize = 32;
/// Hashes of one request.
const HASHES_MAX: usize = 50_000;
/// How long an answer of the node is believed: a node sweeps no file that was
/// asked for within an hour.
const STAYS: Duration = Duration::from_secs(10 * 60);
/// How long the node may take to look into its store.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a whole tree may be on its way; the next try goes on from there.
const SEND_PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// Why files did not reach the node.
#[derive(Debug)]
pub(super) enum StageError {
    /// The node or the connection failed: the connection is over.
    Node(Failure),
    /// The node cannot take them now, mostly for want of room; other work goes
    /// on.
    Later(Failure),
    /// A frozen file here is gone or damaged: only runs that need it fail.
    Own(Failure),
}

impl StageError {
    /// The kind of a node's error: no room, or a failing disk, does not end the
    /// connection.
    fn of_node(status: &tonic::Status, failure: Failure) -> Self {
        use tonic::Code::{Internal, ResourceExhausted};
        match status.code() {
            Internal | ResourceExhausted if !connection_lost(status) => Self::Later(failure),
            _ => Self::Node(failure),
        }
    }
}

/// The blobs of a tree that the node lacks, the tree itself last.
#[derive(Debug, Default)]
pub(super) struct MissingBlobs {
    blobs: Vec<Blob>,
}

/// One file to be sent.
#[derive(Debug)]
struct Blob {
    hash: Vec<u8>,
    size: u64,
    /// The node has the bytes before this from an earlier try.
    from: u64,
}

impl MissingBlobs {
    /// Whether the node has everything.
    pub(super) fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// Bytes to be sent.
    pub(super) fn bytes(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.size - blob.from).sum()
    }
}

/// Brings trees to one node.
pub(super) struct Stager {
    store: PathBuf,
    node: String,
    client: MumClient<Channel>,
    on_progress: ProgressCallback,
    /// Trees that were complete on the node, and the time of that answer.
    there: HashMap<Vec<u8>, Instant>,
}

impl Stager {
    pub(super) fn new(
        store: PathBuf,
        node: String,
        client: MumClient<Channel>,
        on_progress: ProgressCallback,
    ) -> Self {
        Self {
            store,
            node,
            client,
            on_progress,
            there: HashMap::new(),
        }
    }

    /// A second stager of the same connection, which has asked nothing yet.
    pub(super) fn another(&self) -> Self {
        let (store, node) = (self.store.clone(), self.node.clone());
        Self::new(store, node, self.client.clone(), self.on_progress.clone())
    }

    /// Whether the node reported the tree as complete; an empty hash always
    /// counts.
    pub(super) fn has(&self, tree: &[u8]) -> bool {
        tree.is_empty() || self.there.contains_key(tree)
    }

    /// Forgets the answer about a tree: the node lacks part of it after all.
    pub(super) fn forget(&mut self, tree: &[u8]) {
        self.there.remove(tree);
    }

    /// The blobs of a tree that the node lacks.
    pub(super) async fn missing(&mut self, tree: &[u8]) -> Result<MissingBlobs, StageError> {
        self.there.retain(|_, said| said.elapsed() < STAYS);
        if self.there.contains_key(tree) {
            return Ok(MissingBlobs::default());
        }
        let sizes = self.sizes(tree).await?;
        let mut wanted: Vec<Vec<u8>> = sizes.keys().cloned().collect();
        // A tree on the node does not prove that its files are there; it is sent
        // last, so that a broken transfer never leaves a tree without its files.
        wanted.sort_unstable_by(|one, other| (one == tree, one).cmp(&(other == tree, other)));
        let mut blobs = Vec::new();
        for part in wanted.chunks(HASHES_MAX) {
            let mut request = tonic::Request::new(v1::BlobList {
                hashes: part.to_vec(),
                ..v1::BlobList::default()
            });
            request.set_timeout(PATIENCE);
            let reply = self.client.missing_blobs(request).await.map_err(|status| {
                let failure = Failure::node_does("does not report which files it has");
                StageError::of_node(&status, failure.status(&status))
            })?;
            blobs.extend(lacking(reply.into_inner(), &sizes));
        }
        if blobs.is_empty() {
            self.there.insert(tree.to_vec(), Instant::now());
        }
        // Small ones first: the node puts small files that come together into
        // one pack.
        blobs.sort_by_key(|blob| (blob.hash == tree, blob.size > CONTENT_BYTES_MAX as u64));
        Ok(MissingBlobs { blobs })
    }

    /// The sizes of all files of a tree, and of its list.
    async fn sizes(&self, tree: &[u8]) -> Result<HashMap<Vec<u8>, u64>, StageError> {
        let path = nero_blobs::path(&self.store, tree);
        let bytes = tokio::fs::read(&path)
            .await
            .map_err(|error| StageError::Own(unreadable(&path, &error)))?;
        if blake3::hash(&bytes).as_bytes() != tree {
            return Err(StageError::Own(damaged(&path)));
        }
        let decoded = v1::Tree::decode(bytes.as_slice()).map_err(|error| {
            StageError::Own(Failure::bug("a frozen tree cannot be read").caused_by(&error))
        })?;
        let mut sizes: HashMap<Vec<u8>, u64> = decoded
            .entries
            .into_iter()
            .filter(|entry| !entry.hash.is_empty())
            .map(|entry| (entry.hash, entry.size))
            .collect();
        sizes.insert(tree.to_vec(), bytes.len() as u64);
        Ok(sizes)
    }

    /// Sends the blobs that the node lacks of a tree.
    pub(super) async fn send(
        &mut self,
        tree: &[u8],
        lacking: MissingBlobs,
    ) -> Result<(), StageError> {
        let (tx, rx) = mpsc::channel(AHEAD);
        let (bytes, files) = (lacking.bytes(), lacking.blobs.len() as u64);
        let moving = RunningTransfer::new(
            self.on_progress.clone(),
            &self.node,
            "sending files",
            bytes,
            files,
        );
        let (store, lacking) = (self.store.clone(), Arc::new(lacking));
        let all = Arc::clone(&lacking);
        let reading =
            tokio::task::spawn_blocking(move || read_all(&store, &all.blobs, &tx, moving));
        let mut request = tonic::Request::new(ReceiverStream::new(rx));
        request.set_timeout(SEND_PATIENCE);
        let sent = self.client.put_blobs(request).await;
        let read = reading.await.map_err(|error| {
            StageError::Own(Failure::bug("reading frozen files ended early").caused_by(&error))
        })?;
        // A file that cannot be read ends the stream: the node's error is then
        // not the reason.
        read.map_err(StageError::Own)?;
        if let Err(status) = sent {
            let failure = Failure::node("files could not be sent").status(&status);
            return Err(match status.code() {
                // The content does not match its hash: perhaps our file is
                // damaged.
                tonic::Code::InvalidArgument | tonic::Code::Aborted => {
                    let store = self.store.clone();
                    let looked =
                        tokio::task::spawn_blocking(move || first_damaged(&store, &lacking.blobs));
                    let own = looked.await.ok().flatten();
                    own.map_or(StageError::Node(failure), StageError::Own)
                }
                _ => StageError::of_node(&status, failure),
            });
        }
        self.there.insert(tree.to_vec(), Instant::now());
        Ok(())
    }
}

/// The node's answer, limited to the blobs that were asked for.
fn lacking(reply: v1::BlobList, sizes: &HashMap<Vec<u8>, u64>) -> Vec<Blob> {
    let partial = reply.partial.into_iter().chain(std::iter::repeat(0));
    reply
        .hashes
        .into_iter()
        .zip(partial)
        .filter_map(|(hash, there)| {
            let size = *sizes.get(&hash)?;
            let from = if there < size { there } else { 0 };
            Some(Blob { hash, size, from })
        })
        .collect()
}

/// Reads all blobs into the stream. Blocks. Ends early, without an error, when
/// the receiver ended the stream: the receiver reports why.
fn read_all(
    store: &Path,
    blobs: &[Blob],
    tx: &mpsc::Sender<v1::BlobPart>,
    mut moving: RunningTransfer,
) -> Result<(), Failure> {
    let packs = Packs::open(store).map_err(|error| unreadable(store, &error))?;
    for one in blobs {
        let hash = one.hash.as_slice().try_into();
        let place = hash.ok().and_then(|hash| packs.find(hash));
        let path = match &place {
            Some(place) => place.pack().to_path_buf(),
            None => nero_blobs::path(store, &one.hash),
        };
        let sent = match &place {
            Some(place) => read_packed(place, one, tx, &mut moving),
            None => read_one(&path, one, tx, &mut moving),
        };
        match sent {
            Ok(UploadEnd::Sent) => moving.add(0, 1),
            Ok(UploadEnd::Left) => return Ok(()),
            Ok(UploadEnd::Damaged) => {
                return Err(match &place {
                    Some(place) => damaged_in_pack(store, place),
                    None => damaged(&path),
                });
            }
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(())
}

/// Removes a damaged content from its pack, so that the next freeze keeps it
/// anew; the rest of the pack stays.
fn damaged_in_pack(store: &Path, place: &PackEntry<'_>) -> Failure {
    match nero_blobs::heal(store, place.pack()) {
        Ok(()) => Failure::failed("a frozen file was damaged")
            .hint("`neroman restart` freezes the folder again"),
        Err(error) => damaged(place.pack()).caused_by(&error),
    }
}

fn read_packed(
    place: &PackEntry<'_>,
    blob: &Blob,
    tx: &mpsc::Sender<v1::BlobPart>,
    moving: &mut RunningTransfer,
) -> io::Result<UploadEnd> {
    let data = match place.read() {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(UploadEnd::Damaged),
        data => data?,
    };
    let bytes = data.len() as u64;
    let part = v1::BlobPart {
        hash: blob.hash.clone(),
        data,
        last: true,
        offset: 0,
    };
    if tx.blocking_send(part).is_err() {
        return Ok(UploadEnd::Left);
    }
    moving.add(bytes, 0);
    Ok(UploadEnd::Sent)
}

enum UploadEnd {
    Sent,
    /// The receiver has gone.
    Left,
    /// The file does not match its name: longer, shorter, or of another content.
    Damaged,
}

fn read_one(
    path: &Path,
    blob: &Blob,
    tx: &mpsc::Sender<v1::BlobPart>,
    moving: &mut RunningTransfer,
) -> io::Result<UploadEnd> {
    let file = File::open(path)?;
    let mut at = blob.from;
    let mut first = true;
    loop {
        let data = nero_model::part::read(&file, at, PART_BYTES)?;
        let count = data.len();
        let offset = at;
        at += count as u64;
        let last = at == blob.size;
        // The node hashes everything; hashing a file that was read in one go
        // costs little.
        let whole = last && offset == 0;
        let wrong = || blake3::hash(&data).as_bytes().as_slice() != blob.hash;
        if at > blob.size || (!last && count == 0) || (whole && wrong()) {
            return Ok(UploadEnd::Damaged);
        }
        let part = v1::BlobPart {
            hash: if first { blob.hash.clone() } else { Vec::new() },
            data,
            last,
            offset: if first { offset } else { 0 },
        };
        first = false;
        if tx.blocking_send(part).is_err() {
            return Ok(UploadEnd::Left);
        }
        moving.add(count as u64, 0);
        if last {
            return Ok(UploadEnd::Sent);
        }
    }
}

/// The first of our own files whose content does not match its name. Called only
/// after the node rejected one: the node hashes everything anyway.
fn first_damaged(store: &Path, blobs: &[Blob]) -> Option<Failure> {
    blobs.iter().find_map(|one| {
        let path = nero_blobs::path(store, &one.hash);
        let mut hasher = blake3::Hasher::new();
        match File::open(&path).and_then(|file| hasher.update_reader(file).map(drop)) {
            // The blob lies in a pack, whose contents were checked while
            // reading.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(unreadable(&path, &error)),
            Ok(()) if hasher.finalize().as_bytes().as_slice() == one.hash => None,
            Ok(()) => Some(damaged(&path)),
        }
    })
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot read the frozen file {}", path.display()))
        .caused_by(error)
        .hint("`neroman restart` freezes the folder again")
}

fn damaged(path: &Path) -> Failure {
    Failure::failed(format!("the frozen file {} is damaged", path.display()))
        .hint("move it away; `neroman restart` freezes the folder again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_damaged_part_of_a_pack_is_frozen_anew_and_the_rest_is_sent() {
        let store = tempfile::tempdir().unwrap();
        let contents = ["first", "second", "third"].map(str::as_bytes);
        let mut writer = nero_blobs::Writer::begin(store.path()).unwrap();
        let blobs = contents.map(|content| {
            let hash = *blake3::hash(content).as_bytes();
            writer.add(hash, content).unwrap();
            Blob {
                hash: hash.to_vec(),
                size: content.len() as u64,
                from: 0,
            }
        });
        let pack = writer.finish(false).unwrap();
        let mut bytes = fs::read(&pack).unwrap();
        bytes[6] ^= 1;
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&pack, bytes).unwrap();
        let (tx, mut rx) = mpsc::channel(8);
        let moving = || RunningTransfer::new(Arc::new(|_| {}), "n", "sending files", 16, 3);
        let failure = read_all(store.path(), &blobs, &tx, moving()).unwrap_err();
        assert!(failure.to_string().contains("damaged"), "{failure}");
        assert_eq!(rx.try_recv().unwrap().data, contents[0]);
        assert!(rx.try_recv().is_err());
        let packs = Packs::open(store.path()).unwrap();
        let is_there = |blob: &Blob| {
            packs
                .find(blob.hash.as_slice().try_into().unwrap())
                .is_some()
        };
        assert_eq!(blobs.each_ref().map(is_there), [true, false, true]);
        read_all(store.path(), &blobs[2..], &tx, moving()).unwrap();
        assert_eq!(rx.try_recv().unwrap().data, contents[2]);
    }
}
