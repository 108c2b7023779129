//! Sending frozen files: only those that the node lacks, each by its content.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_model::ids::hex;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use prost::Message as _;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::failure::Failure;

/// Bytes of one part of a blob.
const PART_BYTES: usize = 256 * 1024;
/// Hashes of one question.
const HASHES_MAX: usize = 50_000;
/// How long the node may take to look into its store.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a whole tree may be on its way.
const SEND_PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// Brings trees to one node.
pub(super) struct Stager {
    store: PathBuf,
    client: MumClient<Channel>,
    /// Trees that are whole on the node.
    there: HashSet<Vec<u8>>,
}

impl Stager {
    pub(super) fn new(store: PathBuf, client: MumClient<Channel>) -> Self {
        Self {
            store,
            client,
            there: HashSet::new(),
        }
    }

    /// The blobs of a tree that the node lacks, the tree itself last.
    pub(super) async fn missing(&mut self, tree: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        if self.there.contains(tree) {
            return Ok(Vec::new());
        }
        let path = blob(&self.store, tree);
        let bytes = tokio::fs::read(&path)
            .await
            .map_err(|error| unreadable(&path, &error))?;
        let decoded = v1::Tree::decode(bytes.as_slice())
            .map_err(|error| Failure::failed("a frozen tree is damaged").caused_by(&error))?;
        let mut wanted: Vec<Vec<u8>> = decoded
            .entries
            .into_iter()
            .map(|entry| entry.hash)
            .filter(|hash| !hash.is_empty())
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        // A tree that is there says nothing of its files; it is sent last, so
        // that a broken transfer never leaves a tree without them.
        wanted.push(tree.to_vec());
        let mut missing = Vec::new();
        for part in wanted.chunks(HASHES_MAX) {
            let mut request = tonic::Request::new(v1::BlobList {
                hashes: part.to_vec(),
                ..v1::BlobList::default()
            });
            request.set_timeout(PATIENCE);
            let reply = self.client.missing_blobs(request).await.map_err(|status| {
                Failure::node("the node does not say which files it has").status(&status)
            })?;
            missing.extend(reply.into_inner().hashes);
        }
        if missing.is_empty() {
            self.there.insert(tree.to_vec());
        }
        let known: HashSet<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
        missing.retain(|hash| known.contains(hash.as_slice()));
        missing.sort_by_key(|hash| hash == tree);
        Ok(missing)
    }

    /// Sends these blobs of a tree.
    pub(super) async fn send(&mut self, tree: &[u8], blobs: Vec<Vec<u8>>) -> Result<(), Failure> {
        let (tx, rx) = mpsc::channel(4);
        let store = self.store.clone();
        let mut request = tonic::Request::new(ReceiverStream::new(rx));
        request.set_timeout(SEND_PATIENCE);
        let reading = read_all(&store, &blobs, tx);
        let (read, sent) = tokio::join!(reading, self.client.put_blobs(request));
        read?;
        sent.map_err(|status| Failure::node("files could not be sent").status(&status))?;
        self.there.insert(tree.to_vec());
        Ok(())
    }
}

/// Where a blob lies.
pub(super) fn blob(store: &Path, hash: &[u8]) -> PathBuf {
    let name = hex(hash);
    store.join(name.get(..2).unwrap_or("")).join(name)
}

async fn read_all(
    store: &Path,
    blobs: &[Vec<u8>],
    tx: mpsc::Sender<v1::BlobPart>,
) -> Result<(), Failure> {
    for hash in blobs {
        let path = blob(store, hash);
        let sent = read_one(&path, hash, &tx).await;
        match sent {
            Ok(true) => {}
            // The other side ended the stream and says why.
            Ok(false) => return Ok(()),
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(())
}

async fn read_one(path: &Path, hash: &[u8], tx: &mpsc::Sender<v1::BlobPart>) -> io::Result<bool> {
    let mut file = tokio::fs::File::open(path).await?;
    let mut left = file.metadata().await?.len();
    let mut first = true;
    loop {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(PART_BYTES);
        let mut data = vec![0; size];
        file.read_exact(&mut data).await?;
        left -= size as u64;
        let part = v1::BlobPart {
            hash: if first { hash.to_vec() } else { Vec::new() },
            data,
            last: left == 0,
            offset: 0,
        };
        first = false;
        if tx.send(part).await.is_err() {
            return Ok(false);
        }
        if left == 0 {
            return Ok(true);
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot read the frozen file {}", path.display())).caused_by(error)
}
