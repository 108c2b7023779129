//! Makes the sample databases that are not there yet, for the tests of later versions.
//! What an earlier build made stays as it is and must go on being read.

#[path = "../tests/it/rig.rs"]
mod rig;

use std::fs;
use std::path::Path;

fn main() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = tempfile::tempdir().expect("a folder");
    let home = rig::home(folder.path());
    drop(rig::filled(&home, 2));
    for (from, name) in [
        (home.state_db(), "state-v8-2.db"),
        (home.series_db(), "state-v8-2.series.db"),
    ] {
        let sample = golden.join(name);
        if !sample.exists() {
            fs::copy(from, sample).expect("the folder is writable");
        }
    }
}
