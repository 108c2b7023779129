//! neromum with real launchers, shims and watchers.

mod rig;
mod runs;
