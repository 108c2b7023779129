//! Whether anybody is told of a thing, as `config.yaml` has it now.

use std::sync::{Arc, Mutex, PoisonError};

use nero_config::Config;
use nero_notices::{is_notified, is_wanted};

use nero_home::ledger::WantsNotice;
use nero_link::config_file::{ConfigFile, ConfigStamp};

/// Whether anybody is told of such a thing, for the ledger. The file is read again when it changed.
/// While it cannot be used, what it said before counts, and without that everything is noticed:
/// nothing gets lost for a mistake in the file.
pub(crate) fn watching(file: Arc<ConfigFile>) -> WantsNotice {
    let held: Mutex<(Option<ConfigStamp>, Option<Config>)> = Mutex::default();
    Arc::new(move |kind| {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = file.stamp();
        if held.0 != Some(stamp) {
            // Taken again before the file is read: the last one may be older.
            file.look_again();
            let stamp = file.stamp();
            let read = Config::read(file.path());
            *held = (Some(stamp), read.ok().or(held.1.take()));
        }
        held.1
            .as_ref()
            .is_none_or(|config| is_notified(config) && is_wanted(config, kind))
    })
}
