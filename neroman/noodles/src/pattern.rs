//! Patterns of Python's `re` in the syntax of `fancy-regex`, and `re.fullmatch` with them.

use std::collections::HashMap;
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Steps back that one comparison may take; catastrophic patterns end here.
const BACKTRACK_MAX: usize = 1_000_000;
/// Bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Groups in groups.
const DEPTH_MAX: usize = 50;
/// Characters of a pattern.
const CHARS_MAX: usize = 10_000;

/// A pattern that matches whole texts.
#[derive(Debug)]
pub struct FullPattern {
    python: String,
    regex: fancy_regex::Regex,
}

/// A pattern that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPattern {
    /// Its place, in characters from zero; of mistakes that only the engine finds, none.
    pub at: Option<usize>,
    /// Why.
    pub why: String,
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at character {}", self.why, at + 1),
            None => f.write_str(&self.why),
        }
    }
}

/// A comparison that took too many steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimitError;

impl FullPattern {
    /// Compiles a pattern of Python.
    ///
    /// # Errors
    /// Python does not know it, or we cannot do it.
    pub fn new(python: &str) -> Result<Self, NoPattern> {
        let pattern = translate(python)?;
        let regex = fancy_regex::RegexBuilder::new(&pattern)
            .backtrack_limit(BACKTRACK_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build();
        let regex = regex.map_err(|error| NoPattern {
            at: None,
            why: error.to_string(),
        })?;
        Ok(Self {
            python: python.to_owned(),
            regex,
        })
    }

    /// The pattern as it was written.
    pub fn python(&self) -> &str {
        &self.python
    }

    /// `re.fullmatch`
    ///
    /// # Errors
    /// It took too many steps.
    pub fn matches(&self, text: &str) -> Result<bool, StepLimitError> {
        self.regex.is_match(text).map_err(|_| StepLimitError)
    }
}

fn translate(python: &str) -> Result<String, NoPattern> {
    let mut translator = Translator {
        rest: python.chars().peekable(),
        at: 0,
        out: String::with_capacity(python.len() + 16),
        flags: Flags::default(),
        groups: Vec::new(),
        atom: Atom::None,
        closed: Vec::new(),
        names: HashMap::new(),
        condition_max: (0, 0),
    };
    if python.chars().count() > CHARS_MAX {
        return Err(translator.cannot("a pattern this long"));
    }
    translator.all()?;
    Ok(format!("\\A(?:{})\\z", translator.out))
}

/// What `(?…)` sets.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// `^` and `$` at every line.
    multi_line: bool,
    /// Blanks and comments do not count.
    verbose: bool,
}

struct Translator<'t> {
    rest: Peekable<Chars<'t>>,
    /// Characters read.
    at: usize,
    out: String,
    flags: Flags,
    groups: Vec<OpenGroup>,
    /// What a quantifier would repeat.
    atom: Atom,
    /// Of each numbered group whether it is closed.
    closed: Vec<bool>,
    /// Names and numbers of groups.
    names: HashMap<String, usize>,
    /// The highest number that a condition refers to, and where.
    condition_max: (usize, usize),
}

struct OpenGroup {
    /// Its index among numbered groups.
    number: Option<usize>,
    /// Flags outside of it.
    outside: Flags,
    /// Where it begins in the output.
    start: usize,
    /// Whether it looks ahead or behind.
    looks: bool,
}

/// What stands before a place.
#[derive(Clone, Copy)]
enum Atom {
    /// Nothing that can be repeated.
    None,
    /// Something.
    Some,
    /// A group that looks ahead or behind, which begins there in the output. Python repeats
    /// it, the engine does not.
    Look(usize),
}

impl Translator<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.at += usize::from(c.is_some());
        c
    }

    fn eat(&mut self, c: char) -> bool {
        let fits = self.rest.peek() == Some(&c);
        if fits {
            self.next();
        }
        fits
    }

    fn cannot(&self, what: &str) -> NoPattern {
        NoPattern {
            at: Some(self.at.saturating_sub(1)),
            why: format!("cannot do {what}"),
        }
    }

    fn wrong(&self, why: &str) -> NoPattern {
        NoPattern {
            at: Some(self.at.saturating_sub(1)),
            why: why.to_owned(),
        }
    }

    fn literal(&mut self, c: char) {
        push_literal(&mut self.out, c);
        self.atom = Atom::Some;
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.atom = Atom::Some;
    }

    /// `^` and its like, which Python does not repeat.
    fn anchor(&mut self, text: &str) {
        self.out.push_str(text);
        self.atom = Atom::None;
    }

    fn all(&mut self) -> Result<(), NoPattern> {
        while let Some(c) = self.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    let group = self.groups.pop();
                    let group = group.ok_or_else(|| self.wrong("a `)` without its `(`"))?;
                    self.flags = group.outside;
                    if let Some(number) = group.number {
                        self.closed[number] = true;
                    }
                    self.out.push(')');
                    self.atom = if group.looks {
                        Atom::Look(group.start)
                    } else {
                        Atom::Some
                    };
                }
                '|' => {
                    self.out.push('|');
                    self.atom = Atom::None;
                }
                '*' | '+' | '?' => self.quantifier(&c.to_string())?,
                '{' => match self.bounds() {
                    Some(bounds) => self.quantifier(&bounds)?,
                    None => self.literal('{'),
                },
                '^' if self.flags.multi_line => self.anchor("(?m:^)"),
                '^' => self.anchor("\\A"),
                '$' if self.flags.multi_line => self.anchor("(?m:$)"),
                '$' => self.anchor("(?=\\n?\\z)"),
                '.' => self.put("."),
                c if self.flags.verbose && c.is_ascii_whitespace() => {}
                '#' if self.flags.verbose => while self.next().is_some_and(|c| c != '\n') {},
                c => self.literal(c),
            }
        }
        if !self.groups.is_empty() {
            return Err(self.wrong("a `(` without its `)`"));
        }
        let (number, at) = self.condition_max;
        if number > self.closed.len() {
            Err(NoPattern {
                at: Some(at),
                why: "there is no group of this number".to_owned(),
            })
        } else {
            Ok(())
        }
    }

    fn quantifier(&mut self, quantifier: &str) -> Result<(), NoPattern> {
        let atom = std::mem::replace(&mut self.atom, Atom::None);
        let suffix = match self.rest.peek() {
            Some(c @ ('?' | '+')) => c.to_string(),
            _ => String::new(),
        };
        match atom {
            Atom::None => return Err(self.wrong("nothing to repeat")),
            Atom::Some => {
                self.out.push_str(quantifier);
                self.out.push_str(&suffix);
            }
            Atom::Look(start) => {
                if quantifier.starts_with(['*', '?']) || quantifier.starts_with("{0") {
                    self.out.insert_str(start, "(?:");
                    self.out.push_str("|)");
                }
            }
        }
        if !suffix.is_empty() {
            self.next();
        }
        Ok(())
    }

    /// The inside of `{1,2}`, `{,2}`, `{1}`; a brace of another kind is itself.
    fn bounds(&mut self) -> Option<String> {
        let ahead: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let closed = self.rest.clone().nth(ahead.chars().count()) == Some('}');
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let fits = match ahead.split_once(',') {
            Some((least, most)) => digits(least) && digits(most),
            None => !ahead.is_empty() && digits(&ahead),
        };
        if !closed || !fits {
            return None;
        }
        for _ in 0..=ahead.chars().count() {
            self.next();
        }
        let least = if ahead.starts_with(',') { "0" } else { "" };
        Some(format!("{{{least}{ahead}}}"))
    }

    fn group(&mut self) -> Result<(), NoPattern> {
        let (outside, start) = (self.flags, self.out.len());
        let mut opened = "(".to_owned();
        let mut numbered = true;
        if self.eat('?') {
            let Some(kind) = self.next() else {
                return Err(self.wrong("a `(?` without an end"));
            };
            numbered = false;
            match kind {
                ':' | '=' | '!' | '>' => opened = format!("(?{kind}"),
                '#' => {
                    while let Some(c) = self.next() {
                        if c == ')' {
                            return Ok(());
                        }
                    }
                    return Err(self.wrong("a comment without an end"));
                }
                '<' => match self.next() {
                    Some(c @ ('=' | '!')) => opened = format!("(?<{c}"),
                    _ => return Err(self.wrong("an unknown kind of group")),
                },
                'P' => match self.next() {
                    Some('<') => {
                        let name = self.name('>')?;
                        opened = format!("(?P<{name}>");
                        numbered = true;
                        let number = self.closed.len();
                        let odd = name.starts_with(|c: char| c.is_ascii_digit());
                        if odd || self.names.insert(name, number).is_some() {
                            return Err(self.wrong("a group's name that cannot be"));
                        }
                    }
                    Some('=') => {
                        let name = self.name(')')?;
                        let number = self.names.get(&name).copied();
                        self.refers(number)?;
                        self.put(&format!("(?:(?P={name}))"));
                        return Ok(());
                    }
                    _ => return Err(self.wrong("an unknown kind of group")),
                },
                '(' => {
                    let name = self.name(')')?;
                    if let Ok(number) = name.parse::<usize>() {
                        let at = self.at.saturating_sub(1);
                        self.condition_max = self.condition_max.max((number, at));
                        opened = format!("(?({number})");
                        if number == 0 {
                            return Err(self.wrong("there is no group of this number"));
                        }
                    } else if self.names.contains_key(&name) {
                        opened = format!("(?(<{name}>)");
                    } else {
                        return Err(self.wrong("there is no group of this name"));
                    }
                }
                _ => match self.set_flags(kind)? {
                    Some(text) => opened = text,
                    None => return Ok(()),
                },
            }
        }
        if self.groups.len() >= DEPTH_MAX {
            return Err(self.cannot("groups this deep"));
        }
        let number = numbered.then_some(self.closed.len());
        self.closed.extend(number.map(|_| false));
        self.groups.push(OpenGroup {
            number,
            outside,
            start,
            looks: ["(?=", "(?!", "(?<=", "(?<!"].contains(&opened.as_str()),
        });
        self.out.push_str(&opened);
        self.atom = Atom::None;
        Ok(())
    }

    /// Flags for a group, which begins with the text, or for the whole pattern: none.
    fn set_flags(&mut self, first: char) -> Result<Option<String>, NoPattern> {
        let global = self.at == 3;
        let mut next = Some(first);
        let mut on = true;
        let (mut set, mut unset) = (String::new(), String::new());
        loop {
            let Some(c) = next else {
                return Err(self.wrong("flags without an end"));
            };
            match c {
                'i' | 's' if on => set.push(c),
                'i' | 's' => unset.push(c),
                'm' => self.flags.multi_line = on,
                'x' => self.flags.verbose = on,
                'u' if on => {}
                '-' if on => on = false,
                'a' | 'L' => return Err(self.cannot("the flags `a` and `L`")),
                ':' => {
                    let minus = if unset.is_empty() { "" } else { "-" };
                    return Ok(Some(format!("(?{set}{minus}{unset}:")));
                }
                ')' if on && global => {
                    // The rest of the pattern is a group of its own.
                    if !set.is_empty() {
                        self.out.push_str(&format!("(?{set})"));
                    }
                    return Ok(None);
                }
                ')' => return Err(self.wrong("flags stand at the start of a pattern")),
                _ => return Err(self.wrong("an unknown flag")),
            }
            next = self.next();
        }
    }

    /// Refuses a reference to a group that is not closed here.
    fn refers(&self, index: Option<usize>) -> Result<(), NoPattern> {
        match index.and_then(|index| self.closed.get(index)) {
            Some(true) => Ok(()),
            Some(false) => Err(self.wrong("a reference to the group in which it stands")),
            None => Err(self.wrong("there is no such group")),
        }
    }

    fn name(&mut self, end: char) -> Result<String, NoPattern> {
        let mut name = String::new();
        loop {
            match self.next() {
                Some(c) if c == end && !name.is_empty() => return Ok(name),
                Some(c) if c.is_alphanumeric() || c == '_' => name.push(c),
                _ => return Err(self.wrong("a group's name without an end")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), NoPattern> {
        let Some(c) = self.next() else {
            return Err(self.wrong("a `\\` at the end"));
        };
        match c {
            'A' => self.anchor("\\A"),
            'Z' => self.anchor("\\z"),
            'b' => self.anchor("\\b"),
            // Until Python 3.14 it is not in an empty text.
            'B' => self.anchor("(?:(?!\\A\\z)\\B)"),
            'd' | 'D' | 'w' | 'W' => self.put(&format!("\\{c}")),
            's' => self.put("[\\s\\x1c-\\x1f]"),
            'S' => self.put("[^\\s\\x1c-\\x1f]"),
            '1'..='9' => {
                let mut digits = c.to_string();
                while digits.len() < 3 && self.rest.peek().is_some_and(char::is_ascii_digit) {
                    let octal = digits.len() == 2;
                    let ahead = *self.rest.peek().expect("it was looked at");
                    if octal && !is_octal(&digits, ahead) {
                        break;
                    }
                    digits.push(ahead);
                    self.next();
                }
                match digits.len() {
                    3 => {
                        let code = u32::from_str_radix(&digits, 8)
                            .ok()
                            .filter(|code| *code < 256);
                        let c = code.and_then(char::from_u32);
                        self.literal(c.ok_or_else(|| self.wrong("an octal escape beyond \\377"))?);
                    }
                    _ => {
                        let number = digits.parse::<usize>().ok();
                        self.refers(number.and_then(|number| number.checked_sub(1)))?;
                        self.put(&format!("(?:\\{digits})"));
                    }
                }
            }
            _ => {
                let c = self.character(c)?;
                self.literal(c);
            }
        }
        Ok(())
    }

    /// The character of an escape, inside and outside of brackets.
    fn character(&mut self, c: char) -> Result<char, NoPattern> {
        Ok(match c {
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            'N' => return Err(self.cannot("characters by name")),
            '0' => {
                let mut code = 0;
                for _ in 0..2 {
                    let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    self.next();
                    code = code * 8 + digit;
                }
                char::from_u32(code).expect("two octal digits are a character")
            }
            c if c.is_ascii_alphanumeric() => return Err(self.wrong("a bad escape")),
            c => c,
        })
    }

    fn code(&mut self, digits: usize) -> Result<char, NoPattern> {
        let mut code = 0_u32;
        for _ in 0..digits {
            let digit = self.next().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| self.wrong("an escape with too few digits"))?;
            code = code.wrapping_mul(16).wrapping_add(digit);
        }
        char::from_u32(code).ok_or_else(|| self.wrong("an escape that is no character"))
    }

    fn class(&mut self) -> Result<(), NoPattern> {
        let mut text = "[".to_owned();
        if self.eat('^') {
            text.push('^');
        }
        let mut first = true;
        loop {
            let Some(c) = self.next() else {
                return Err(self.wrong("a `[` without its `]`"));
            };
            if c == ']' && !first {
                break;
            }
            first = false;
            let Some(low) = self.member(c, &mut text)? else {
                continue;
            };
            let mut ahead = self.rest.clone();
            let range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
            if !range {
                push_literal(&mut text, low);
                continue;
            }
            self.next();
            let c = self.next().expect("it was looked at");
            let high = self.member(c, &mut String::new())?;
            let high = high.filter(|high| low <= *high);
            let high = high.ok_or_else(|| self.wrong("a range without sense"))?;
            push_literal(&mut text, low);
            text.push('-');
            push_literal(&mut text, high);
        }
        text.push(']');
        self.put(&text);
        Ok(())
    }

    /// A character in brackets; classes are written to `text`.
    fn member(&mut self, c: char, text: &mut String) -> Result<Option<char>, NoPattern> {
        if c != '\\' {
            return Ok(Some(c));
        }
        let Some(c) = self.next() else {
            return Err(self.wrong("a `[` without its `]`"));
        };
        match c {
            'd' | 'D' | 'w' | 'W' => {
                text.push('\\');
                text.push(c);
                Ok(None)
            }
            's' => {
                text.push_str("\\s\\x1c-\\x1f");
                Ok(None)
            }
            'S' => {
                text.push_str("[^\\s\\x1c-\\x1f]");
                Ok(None)
            }
            'b' => Ok(Some('\x08')),
            '1'..='7' => {
                let mut digits = c.to_string();
                while digits.len() < 3 && self.rest.peek().is_some_and(|c| c.is_digit(8)) {
                    digits.extend(self.next());
                }
                let code = u32::from_str_radix(&digits, 8)
                    .ok()
                    .filter(|code| *code < 256);
                let c = code.and_then(char::from_u32);
                c.map(Some).ok_or_else(|| self.wrong("a bad escape"))
            }
            c => self.character(c).map(Some),
        }
    }
}

/// Whether `\12` goes on as an octal escape of three digits.
fn is_octal(two: &str, third: char) -> bool {
    matches!(two.as_bytes(), [b'0'..=b'7', b'0'..=b'7']) && third.is_digit(8)
}

fn push_literal(out: &mut String, c: char) {
    if c.is_alphanumeric() || c == '_' || !c.is_ascii() {
        out.push(c);
    } else if c.is_ascii_punctuation() {
        out.push('\\');
        out.push(c);
    } else {
        out.push_str(&format!("\\x{:02X}", u32::from(c)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn matches(pattern: &str, text: &str) -> bool {
        let pattern = FullPattern::new(pattern).expect("the pattern is one of Python's");
        pattern.matches(text).expect("it is easy")
    }

    #[test]
    fn a_pattern_matches_the_whole_text_as_in_python() {
        for (pattern, text, fits) in [
            (r"[\S\s]+", "a\nb\n", true),
            (r"[\S\s]+", "", false),
            (".*", "a\n", false),
            ("", "", true),
            ("a|ab", "ab", true),
            ("^Cloning into .*$", "Cloning into 'x'...", true),
            ("abc$", "abc\n", false),
            (r"abc$\n", "abc\n", true),
            (r"(?P<n>a+)-(?P=n)", "aa-aa", true),
            (r"(?P<n>a+)-(?P=n)", "aa-a", false),
            (r"(a)(b)\2\1", "abba", true),
            (r"(?=.*error)(?!.*fatal).*", "an error", true),
            (r"(?=.*error)(?!.*fatal).*", "a fatal error", false),
            (r"(?<=x)?a", "a", true),
            ("(?i)WARN(?:ing)?.*", "Warning: x", true),
            ("(?s).*", "a\nb", true),
            ("(?m)^a$\n^b$", "a\nb", true),
            ("(?x) a b # c\n c", "abc", true),
            ("a{,2}b{}", "aab{}", true),
            ("x{1,2", "x{1,2", true),
            (r"[]^-]+", "]^-", true),
            (r"[[&&a]+", "[&&a", true),
            (r"[a-c\d]+", "abc1", true),
            (r"\x41\101\0", "AA\0", true),
            (r"\s", "\x1c", true),
            ("(?:a+)?+b", "aab", true),
            ("(a)?(?(1)b|c)", "ab", true),
            ("(?P<n>a)?(?(n)b|c)", "b", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_done_is_refused_with_its_place() {
        for (pattern, at) in [
            ("*a", Some(0)),
            ("a**", Some(2)),
            ("(a", Some(1)),
            ("a)", Some(1)),
            (r"\q", Some(1)),
            ("[b-a]", Some(3)),
            ("a(?i)b", Some(4)),
            ("(?a)x", Some(2)),
            ("[a", Some(1)),
        ] {
            let refused = FullPattern::new(pattern).expect_err(pattern);
            assert_eq!(refused.at, at, "{pattern:?}: {refused}");
        }
        let deep = format!("{}a{}", "(".repeat(4000), ")".repeat(4000));
        let refused = FullPattern::new(&deep).expect_err("it is too deep");
        assert_eq!(refused.why, "cannot do groups this deep");
    }

    #[test]
    fn a_pattern_without_end_is_given_up() {
        let pattern = FullPattern::new(r"(a*)*\1b").expect("it compiles");
        assert_eq!(pattern.matches(&"a".repeat(60)), Err(StepLimitError));
    }
}
