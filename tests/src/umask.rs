//! The umask of a scenario: open for one half of them, closed for the other, so that each proves
//! its promise with one of the two that people have.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Once;

use rustix::fs::Mode;
use rustix::process::umask;

/// Exchanges the halves where its value is `swapped`.
const VARIABLE: &str = "NERO_TEST_UMASK";

/// Sets the umask of this process, from which all programs of the test have it: 022 or 077 by the
/// test's name. Where all tests share a process the umask stays that of the runner.
pub fn draw() {
    static DRAWN: Once = Once::new();
    let words: Vec<String> = std::env::args().collect();
    // The runner with a process for each test starts it as `PROGRAM --exact NAME …`.
    let name = if words.iter().any(|word| word == "--exact") {
        words.iter().skip(1).find(|word| !word.starts_with('-'))
    } else {
        None
    };
    let Some(name) = name else { return };
    let is_swapped = std::env::var(VARIABLE).is_ok_and(|value| value == "swapped");
    DRAWN.call_once(|| {
        umask(Mode::from_raw_mode(of(name, is_swapped)));
    });
}

/// The umask of a test.
fn of(name: &str, is_swapped: bool) -> u32 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    if hasher.finish().is_multiple_of(2) == is_swapped {
        0o077
    } else {
        0o022
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_halves_are_exchanged() {
        let names: Vec<String> = (0..100).map(|n| format!("files::test_{n}")).collect();
        let open = names.iter().filter(|name| of(name, false) == 0o022).count();
        assert!((30..70).contains(&open), "{open}");
        for name in &names {
            assert_ne!(of(name, false), of(name, true));
        }
    }
}
