//! Messages for a real mail server, for programs and for webhooks.

mod programs;
mod server;
mod webhooks;

use std::future::Future;

/// Runs a future as the daemon does, on one thread.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}
