//! What many tests begin with: runs that are over, and files in the store.

use nero_wire::v1::{BlobPart, RunSpec};

use crate::rig::{Follower, Known, Mum, wait_until_forgotten};

/// Hands runs over and follows them until they are settled.
pub async fn settled(mum: &mut Mum, specs: &[&RunSpec]) -> Follower {
    mum.accept(specs).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(specs).await;
    follower
}

/// The same with everything taken over by neroman.
pub async fn over(mum: &mut Mum, specs: &[&RunSpec]) {
    let mut follower = settled(mum, specs).await;
    follower.close(specs).await;
    wait_until_forgotten(mum).await;
}

/// The name of a file in the store.
pub fn hash(content: &[u8]) -> Vec<u8> {
    blake3::hash(content).as_bytes().to_vec()
}

/// Puts a file into the store; its name there.
pub async fn put(mum: &mut Mum, content: &[u8]) -> Vec<u8> {
    let part = BlobPart {
        hash: hash(content),
        data: content.to_vec(),
        last: true,
        offset: 0,
    };
    let parts = tokio_stream::iter([part]);
    mum.client.put_blobs(parts).await.unwrap();
    hash(content)
}
