//! Makes the sample databases of this version anew, for the tests of later ones.

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
        (home.state_db(), "state-v1.db"),
        (home.series_db(), "series-v1.db"),
    ] {
        fs::copy(from, golden.join(name)).expect("the samples are writable");
    }
}
