//! Patterns for paths: `*` and `?` within a name, `[a-z]`, `**` over folders. A
//! pattern that names a folder includes everything below it. Matched step by
//! step during the walk of a tree, so that folders without a possible match are
//! not entered.

/// Limit of parts of one pattern; a state is a bit.
const PARTS_MAX: usize = 60;

/// A pattern, split at its slashes.
#[derive(Clone, Debug)]
pub struct Glob {
    parts: Vec<PatternPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    AnyDepth,
    Name(Vec<u8>),
}

/// The parts of a pattern up to which the path so far can match, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchState(u64);

impl Glob {
    /// Reads a pattern; `None` when it leads out of the folder, is empty or has
    /// too many parts.
    pub fn new(pattern: &str) -> Option<Self> {
        let mut parts = Vec::new();
        if pattern.starts_with('/') {
            return None;
        }
        for part in pattern.split('/') {
            match part {
                "" | "." => {}
                ".." => return None,
                "**" if parts.last() == Some(&PatternPart::AnyDepth) => {}
                "**" => parts.push(PatternPart::AnyDepth),
                name => parts.push(PatternPart::Name(name.as_bytes().to_vec())),
            }
        }
        (!parts.is_empty() && parts.len() <= PARTS_MAX).then_some(Self { parts })
    }

    /// The state at the top of the tree.
    pub fn start(&self) -> MatchState {
        self.close(MatchState(1))
    }

    /// The state one name further down.
    pub fn step(&self, state: MatchState, name: &[u8]) -> MatchState {
        if self.is_match(state) {
            // Below a folder that the pattern names.
            return state;
        }
        let mut next = 0;
        for (index, part) in self.parts.iter().enumerate() {
            if state.0 & (1 << index) == 0 {
                continue;
            }
            match part {
                PatternPart::AnyDepth => next |= 1 << index,
                PatternPart::Name(pattern) if name_matches(pattern, name) => {
                    next |= 1 << (index + 1)
                }
                PatternPart::Name(_) => {}
            }
        }
        self.close(MatchState(next))
    }

    /// `**` also stands for no folder at all.
    fn close(&self, state: MatchState) -> MatchState {
        let mut bits = state.0;
        for (index, part) in self.parts.iter().enumerate() {
            let last = index + 1 == self.parts.len();
            if *part == PatternPart::AnyDepth && bits & (1 << index) != 0 && !last {
                bits |= 1 << (index + 1);
            }
        }
        MatchState(bits)
    }

    /// Whether the path so far matches.
    pub fn is_match(&self, state: MatchState) -> bool {
        state.0 & (1 << self.parts.len()) != 0
    }

    /// Whether a file that led to this state matches; a final `**` includes
    /// files, too.
    pub fn is_file_match(&self, before: MatchState, after: MatchState) -> bool {
        let last = self.parts.len() - 1;
        let in_depth = self.parts[last] == PatternPart::AnyDepth && before.0 & (1 << last) != 0;
        in_depth || self.is_match(after)
    }

    /// Whether an entry below could still match.
    pub fn is_alive(&self, state: MatchState) -> bool {
        state.0 != 0
    }
}

/// Matches one name against `*`, `?`, `[…]`; linear but for the last star.
fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, n));
            p += 1;
            continue;
        }
        if let Some(length) = one_matches(&pattern[p..], &name[n..]) {
            p += length.pattern;
            n += length.name;
            continue;
        }
        match star {
            Some((after, taken)) => {
                p = after;
                n = taken + 1;
                star = Some((after, n));
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

struct GlobPosition {
    pattern: usize,
    name: usize,
}

/// Matches one character.
fn one_matches(pattern: &[u8], name: &[u8]) -> Option<GlobPosition> {
    match pattern.first()? {
        b'?' => Some(GlobPosition {
            pattern: 1,
            name: character(name),
        }),
        b'[' => class(pattern, name),
        byte => (Some(byte) == name.first()).then_some(GlobPosition {
            pattern: 1,
            name: 1,
        }),
    }
}

/// Bytes of the UTF-8 character at the beginning.
fn character(text: &[u8]) -> usize {
    let more = text
        .iter()
        .skip(1)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    (1 + more).min(text.len())
}

/// `[abc]`, `[a-z]`, `[!a]`; a bracket that is not closed means itself.
fn class(pattern: &[u8], name: &[u8]) -> Option<GlobPosition> {
    let byte = *name.first()?;
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let from = if negated { 2 } else { 1 };
    // A `]` right at the beginning is a member.
    let close = pattern.iter().skip(from + 1).position(|byte| *byte == b']');
    let Some(close) = close.map(|at| at + from + 1) else {
        return (byte == b'[').then_some(GlobPosition {
            pattern: 1,
            name: 1,
        });
    };
    let members = &pattern[from..close];
    let mut inside = false;
    let mut at = 0;
    while at < members.len() {
        match members.get(at..at + 3) {
            Some([low, b'-', high]) => {
                inside |= (low..=high).contains(&&byte);
                at += 3;
            }
            _ => {
                inside |= members[at] == byte;
                at += 1;
            }
        }
    }
    (inside != negated).then_some(GlobPosition {
        pattern: close + 1,
        name: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let glob = Glob::new(pattern).unwrap();
        let parts: Vec<&str> = path.split('/').collect();
        let (file, folders) = parts.split_last().unwrap();
        let state = folders.iter().fold(glob.start(), |state, name| {
            glob.step(state, name.as_bytes())
        });
        let after = glob.step(state, file.as_bytes());
        glob.is_file_match(state, after)
    }

    #[test]
    fn patterns_match_as_people_expect() {
        for (pattern, path, expected) in [
            ("*.pt", "model.pt", true),
            ("*.pt", "a/model.pt", false),
            ("**/*.pt", "model.pt", true),
            ("**/*.pt", "a/b/model.pt", true),
            ("ckpt/**", "ckpt/a/b", true),
            ("ckpt/**", "ckpt/a", true),
            ("ckpt/**", "other/a", false),
            ("ckpt", "ckpt/a/b", true),
            ("ckpt/", "ckpt/a", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a/**/z", "a/b/c/y", false),
            ("model?.bin", "model7.bin", true),
            ("model?.bin", "modelü.bin", true),
            ("model[0-9].bin", "model7.bin", true),
            ("model[!0-9].bin", "model7.bin", false),
            ("[[]x", "[x", true),
            ("[x", "[x", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("**", "x", true),
            ("**", "x/y/z", true),
            ("./a.txt", "a.txt", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        for wrong in ["/etc/passwd", "../x", "a/../b", "", ".", &"a/".repeat(61)] {
            assert!(Glob::new(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn folders_that_cannot_hold_a_match_are_not_entered() {
        let glob = Glob::new("out/*.txt").unwrap();
        assert!(glob.is_alive(glob.step(glob.start(), b"out")));
        assert!(!glob.is_alive(glob.step(glob.start(), b"data")));
        let deep = glob.step(glob.step(glob.start(), b"out"), b"x");
        assert!(!glob.is_alive(deep));
    }

    proptest! {
        #[test]
        fn any_pattern_ends_on_any_name(pattern in "[a-c*?\\[\\]!-]{0,24}", name in "[a-c\\[\\]-]{0,40}") {
            name_matches(pattern.as_bytes(), name.as_bytes());
        }

        #[test]
        fn plain_names_match_themselves_alone(name in "[a-z.]{1,9}", other in "[a-z.]{1,9}") {
            prop_assert!(name_matches(name.as_bytes(), name.as_bytes()));
            prop_assert_eq!(name_matches(name.as_bytes(), other.as_bytes()), name == other);
        }
    }
}
