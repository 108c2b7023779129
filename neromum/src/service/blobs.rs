//! Files on their way into the store.

use nero_wire::v1::{BlobList, BlobPart, PutBlobsReply};
use tonic::{Status, Streaming};

use super::io_status;
use crate::staging::store::{Incoming, Store};

/// Those among the hashes that the store lacks.
pub fn missing(store: &Store, hashes: Vec<Vec<u8>>) -> Result<BlobList, Status> {
    let mut lacking = Vec::new();
    for hash in hashes {
        if !store.has(checked(&hash)?) {
            lacking.push(hash);
        }
    }
    Ok(BlobList {
        hashes: lacking,
        ..BlobList::default()
    })
}

/// Takes blobs one after the other; each is checked before it gets its name.
pub async fn put(store: &Store, mut parts: Streaming<BlobPart>) -> Result<PutBlobsReply, Status> {
    let mut reply = PutBlobsReply::default();
    let mut current: Option<Incoming> = None;
    let failed = |error: std::io::Error| io_status("cannot store a file", &error);
    while let Some(part) = parts.message().await? {
        if !part.hash.is_empty() {
            if current.is_some() {
                return Err(Status::invalid_argument("the blob before was not ended"));
            }
            current = Some(store.begin(*checked(&part.hash)?).map_err(failed)?);
        }
        let incoming = current
            .as_mut()
            .ok_or_else(|| Status::invalid_argument("a blob begins with its hash"))?;
        incoming.write(&part.data).map_err(failed)?;
        if part.last
            && let Some(whole) = current.take()
        {
            reply.bytes += store.finish(whole).map_err(failed)?;
            reply.stored += 1;
        }
    }
    match current {
        Some(_) => Err(Status::invalid_argument("the last blob was not ended")),
        None => Ok(reply),
    }
}

fn checked(hash: &[u8]) -> Result<&[u8; 32], Status> {
    hash.try_into()
        .map_err(|_| Status::invalid_argument("a hash has 32 bytes"))
}
