//! Files on their way into the store. Parts are written in batches off the
//! reactor while the next ones arrive: many small files cost one hop per batch,
//! and a slow disk delays no other call. Small files that arrive together lie in
//! one pack, which gets its name before a longer file begins.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use nero_model::ids::hex;
use nero_node::staging::gather::UnnamedContents;
use nero_node::staging::incoming::{IncomingBlob, PutError};
use nero_node::staging::store::Store;
use nero_wire::v1::{BlobList, BlobPart, PutBlobsReply};
use tonic::Status;

use super::{ServiceState, room};

/// Limit of parts written in one hop off the reactor.
const BATCH_PARTS: usize = 256;
/// Size in bytes from which a batch gets no more parts.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// The hashes that the store lacks, and the bytes of each that are already here.
pub fn missing(store: &Store, hashes: Vec<Vec<u8>>) -> Result<BlobList, Status> {
    for hash in &hashes {
        store.reservations().add(checked(hash)?);
    }
    let look = store.view();
    let mut lacking = BlobList::default();
    for hash in hashes {
        let checked = checked(&hash)?;
        if !look.has(checked) {
            lacking.partial.push(store.partial(checked));
            lacking.hashes.push(hash);
        }
    }
    Ok(lacking)
}

/// Takes blobs one after the other; each is verified before it gets its name.
pub async fn put(
    inner: &ServiceState,
    parts: impl Stream<Item = Result<BlobPart, Status>> + Unpin,
) -> Result<PutBlobsReply, Status> {
    let busy = inner.answer(inner.agent.busy()).await?;
    let mut taker = Taker {
        store: inner.store.clone(),
        folder: inner.placer.paths.deployment().to_path_buf(),
        kept_back: busy.min_free,
        current: None,
        small: UnnamedContents::new(&inner.store),
        reply: PutBlobsReply::default(),
    };
    let mut coming = UnwrittenParts::new(parts);
    while let Some(batch) = coming.batch().await {
        let work = move || {
            let taken = taker.take(batch);
            (taker, taken)
        };
        let (back, taken) = coming.meanwhile(inner.file_work(work)).await?;
        taker = back;
        taken?;
    }
    coming.ended?;
    let work = move || {
        let named = taker.name_small();
        (taker, named)
    };
    let (taker, named) = inner.file_work(work).await?;
    named?;
    match taker.current {
        Some(_) => Err(Status::invalid_argument("the last blob was not ended")),
        None => Ok(taker.reply),
    }
}

/// Parts that arrived and are not written yet: at most one batch, and one part.
struct UnwrittenParts<S> {
    parts: S,
    batch: Vec<BlobPart>,
    bytes: usize,
    is_over: bool,
    /// Result of the stream: its end, or the error that broke it.
    ended: Result<(), Status>,
}

impl<S: Stream<Item = Result<BlobPart, Status>> + Unpin> UnwrittenParts<S> {
    fn new(parts: S) -> Self {
        Self {
            parts,
            batch: Vec::new(),
            bytes: 0,
            is_over: false,
            ended: Ok(()),
        }
    }

    /// The parts that have arrived, or else the next part; `None` at the end.
    async fn batch(&mut self) -> Option<Vec<BlobPart>> {
        if self.batch.is_empty() && !self.is_over {
            self.part().await;
        }
        while self.takes_more() && self.part().now_or_never().is_some() {}
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        Some(batch).filter(|batch| !batch.is_empty())
    }

    /// Receives parts until `work` is done.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.part(), if self.takes_more() => {}
            }
        }
    }

    fn takes_more(&self) -> bool {
        !self.is_over && self.bytes < BATCH_BYTES && self.batch.len() < BATCH_PARTS
    }

    /// Waits for one part. Loses none when it is dropped.
    async fn part(&mut self) {
        match self.parts.next().await {
            Some(Ok(part)) => {
                self.bytes += part.data.len();
                self.batch.push(part);
            }
            Some(Err(status)) => (self.is_over, self.ended) = (true, Err(status)),
            None => self.is_over = true,
        }
    }
}

/// State of one stream of parts. After a cut it keeps the complete files.
struct Taker {
    store: Store,
    folder: PathBuf,
    kept_back: u64,
    current: Option<IncomingBlob>,
    small: UnnamedContents,
    reply: PutBlobsReply,
}

impl Taker {
    fn take(&mut self, batch: Vec<BlobPart>) -> Result<(), Status> {
        let bytes = batch.iter().map(|part| part.data.len() as u64).sum();
        room::check(&self.folder, bytes, self.kept_back)?;
        batch.into_iter().try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: BlobPart) -> Result<(), Status> {
        if !part.hash.is_empty() {
            if self.current.is_some() {
                return Err(Status::invalid_argument("the blob before was not ended"));
            }
            let hash = *checked(&part.hash)?;
            let whole = part.last && part.offset == 0;
            if whole && part.data.len() <= nero_blobs::CONTENT_BYTES_MAX {
                let (bytes, needed) = (part.data.len() as u64, self.small.bytes());
                let taken = self.small.take(hash, part.data);
                taken.map_err(|error| self.status(&error, needed + bytes))?;
                self.reply.bytes += bytes;
                self.reply.stored += 1;
                return Ok(());
            }
            // The files that a tree lists get their names before the tree does,
            // and no small file waits while a long one arrives for hours.
            self.name_small()?;
            let begun = self.store.begin(hash, part.offset, whole);
            self.current = Some(begun.map_err(|error| self.status(&error, 0))?);
        }
        let Some(mut incoming) = self.current.take() else {
            return Err(Status::invalid_argument("a blob begins with its hash"));
        };
        let needed = incoming.bytes() + part.data.len() as u64;
        let written = incoming.write(&part.data);
        written.map_err(|error| self.status(&error, needed))?;
        if part.last {
            let finished = self.store.finish(incoming);
            self.reply.bytes += finished.map_err(|error| self.status(&error, needed))?;
            self.reply.stored += 1;
        } else {
            self.current = Some(incoming);
        }
        Ok(())
    }

    fn name_small(&mut self) -> Result<(), Status> {
        let bytes = self.small.bytes();
        let is_room = |bytes| room::check(&self.folder, bytes, self.kept_back).is_ok();
        let named = self.small.name(is_room);
        named.map_err(|error| self.status(&error, bytes))
    }

    /// `needed`: bytes of the file so far, including those that did not fit.
    fn status(&self, error: &PutError, needed: u64) -> Status {
        match error {
            PutError::Io { path, source } if room::is_full(source) => {
                room::full(&self.folder, path, source, needed)
            }
            PutError::Io { source, .. } => Status::internal(format!("{error}: {source}")),
            PutError::NotThatFar { .. } => Status::failed_precondition(format!(
                "{error}; ask what is missing (MissingBlobs) and go on from there"
            )),
            PutError::Wrong {
                wrong,
                went_on: true,
            } => Status::aborted(format!(
                "what came as {} in two transfers has another content and was dropped; send it again",
                hex(&wrong.hash)
            )),
            PutError::Wrong { .. } => Status::invalid_argument(error.to_string()),
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        // Complete files are kept when the stream is cut, so they are not sent
        // again. A disk error here fails the call. A caller that has left does
        // not wait for the disk.
        let mut small = std::mem::replace(&mut self.small, UnnamedContents::new(&self.store));
        let (folder, kept_back) = (self.folder.clone(), self.kept_back);
        let is_room = move |bytes| room::check(&folder, bytes, kept_back).is_ok();
        let name = move || small.name(is_room);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(name)),
            Err(_) => drop(name()),
        }
    }
}

fn checked(hash: &[u8]) -> Result<&[u8; 32], Status> {
    hash.try_into()
        .map_err(|_| Status::invalid_argument("a hash has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{mpsc, oneshot};
    use tokio_stream::wrappers::ReceiverStream;

    fn part(bytes: usize) -> Result<BlobPart, Status> {
        Ok(BlobPart {
            data: vec![0; bytes],
            ..BlobPart::default()
        })
    }

    #[tokio::test]
    async fn parts_come_while_a_batch_is_written_and_no_more_than_one_batch() {
        let (tx, rx) = mpsc::channel(1);
        let mut coming = UnwrittenParts::new(ReceiverStream::new(rx));
        tx.send(part(1)).await.unwrap();
        assert_eq!(coming.batch().await.unwrap().len(), 1);
        // The disk's work ends only when both parts were taken.
        let (done, written) = oneshot::channel::<()>();
        let sender = tokio::spawn(async move {
            for _ in 0..3 {
                tx.send(part(BATCH_BYTES / 2)).await.unwrap();
            }
            // The channel holds two parts, so the third waits.
            assert!(tx.try_send(part(1)).is_err());
            done.send(()).unwrap();
            tx.send(Err(Status::unavailable("cut"))).await.unwrap();
        });
        coming.meanwhile(written).await.unwrap();
        let sizes = |batch: Vec<BlobPart>| batch.iter().map(|part| part.data.len()).sum::<usize>();
        assert_eq!(coming.batch().await.map(sizes), Some(BATCH_BYTES));
        // Parts from before the cut are written before the cut is reported.
        let mut rest = 0;
        while let Some(batch) = coming.batch().await {
            rest += sizes(batch);
        }
        assert_eq!(rest, BATCH_BYTES / 2);
        assert_eq!(coming.ended.unwrap_err().message(), "cut");
        sender.await.unwrap();
    }
}
