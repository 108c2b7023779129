//! Work that would stop the tasks of its thread.

use nero_home::failure::Failure;

/// Runs work that takes a while and never waits: reading files, looking at many
/// experiments.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Failure::bug("a step of this command ended early").caused_by(&error))
}
