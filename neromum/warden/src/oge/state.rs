//! Letters of Grid Engine for states; several stand together.

use crate::job::{Reason, State};

/// The state of `qw`, `hqw`, `t`, `r`, `Rr`, `dr`, `s`, `Eqw` and so on.
pub fn state(letters: &str) -> State {
    let has = |any: &[char]| letters.contains(any);
    let known = |c: char| "qwhrtRsSTdEP".contains(c);
    let reason = |word: &str, never_passes| Reason {
        word: word.to_owned(),
        never_passes,
    };
    if letters.is_empty() || !letters.chars().all(known) {
        let plain = |c: &char| c.is_ascii_graphic();
        return State::Unknown(letters.chars().filter(plain).take(80).collect());
    }
    if has(&['d']) {
        State::Ending
    } else if has(&['E']) {
        // `qmod -cj` of a person lets it wait again.
        State::Held(reason("error state", true))
    } else if has(&['s', 'S', 'T']) {
        State::Suspended
    } else if has(&['t']) {
        State::Starting
    } else if has(&['r']) {
        State::Running
    } else if has(&['h']) {
        State::Held(reason("hold", false))
    } else {
        State::Waiting(Reason::default())
    }
}
