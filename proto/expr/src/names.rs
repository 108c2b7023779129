//! Which written name may mean which exact one, and what was perhaps meant.

/// Whether two names are the same without regard to case, blanks, `_ - / .`.
/// Takes no memory.
pub fn same_loosely(left: &str, right: &str) -> bool {
    significant(left).eq(significant(right))
}

fn significant(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '_' | '-' | '/' | '.'))
        .flat_map(char::to_lowercase)
}

/// Longer names are not looked at for suggestions.
const SUGGEST_CHARS_MAX: usize = 64;

/// The candidate nearest to `written`, when one is near enough to be what was
/// meant: at most a third of the letters differ.
pub fn suggest<T: AsRef<str>>(written: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    if written.len() > SUGGEST_CHARS_MAX {
        return None;
    }
    let key: String = significant(written).collect();
    let allowed = (key.chars().count() / 3).max(1);
    let mut best: Option<(usize, T)> = None;
    for candidate in candidates {
        let name = candidate.as_ref();
        if name.len() > SUGGEST_CHARS_MAX || name == written {
            continue;
        }
        let other: String = significant(name).collect();
        let distance = strsim::osa_distance(&key, &other);
        let near = distance <= allowed && distance < key.chars().count();
        if near && best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_blanks_and_joiners_do_not_matter() {
        for name in [
            "error_rate",
            "Error rate",
            "ERROR-RATE",
            "error/rate",
            "error.rate",
        ] {
            assert!(same_loosely("errorrate", name), "{name}");
        }
        assert!(!same_loosely("errorrate", "error_rates"));
    }

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["error_rate", "loss", "lr"];
        assert_eq!(suggest("eror_rate", known), Some("error_rate"));
        assert_eq!(suggest("lsos", known), Some("loss"));
        assert_eq!(suggest("temperature", known), None);
        assert_eq!(suggest("xy", known), None);
    }
}
