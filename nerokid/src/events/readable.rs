//! Waiting until a descriptor is readable. The only unsafe code of the crate.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime for as long as it is held.
///
/// # Errors
/// When the kernel cannot wait for the descriptor.
pub fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open until it is dropped, always gives the same
    // number, and has no other owner that may close it; `AsyncFd` takes it out
    // of the runtime before it drops it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(|error| error.into_parts().1)
}
