//! nero-ssh against a real `sshd`.

#![allow(
    clippy::disallowed_methods,
    reason = "the runtime of a test ends its tasks"
)]

mod commands;
mod faults;
mod frozen;
mod masters;
mod rig;
mod streams;
mod terminal;

/// Calls can be made from any task: this does not compile otherwise.
const _: fn(&nero_ssh::Ssh, &nero_ssh::Host) = |ssh, host| {
    fn any_task(_: impl Send) {}
    any_task(ssh.connect("", "", None));
    any_task(ssh.login("", ""));
    any_task(ssh.hang_up("", ""));
    any_task(host.script(""));
    any_task(host.feed("", tokio::io::empty()));
    any_task(host.open("", "", std::time::Duration::ZERO));
    any_task(host.argv(false, &[]));
    any_task(host.gone());
};
