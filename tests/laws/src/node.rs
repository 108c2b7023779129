//! Nodes before an agent runs there: of what a login shell prints the command's output is what
//! stands between its marks, and what people are told of the rest is safe text.

use std::error::Error;
use std::fs;
use std::sync::LazyLock;

use nero_agents::{clock_ms, clock_offset_ms, glibc_of, read_facts};
use nero_ssh::{OutputSection, Overrun, Settings, SshError, classify};

use crate::{Choices, assert_safe};

const MARK: &str = "M4RK";
/// Longest output before a mark, less than what a reader takes.
const NOISE_BYTES: usize = 60_000;
/// Names and words of our script's answer.
const NAMES: &[&str] = &[
    "arch", "libc", "host", "root", "fs", "why", "build", "other", "free_kb", "clock",
    "fault=unset\nwhy", "fault=link\nwhy", "fault=owner\nwhy", "fault=make\nwhy",
];
const NUMBERS: &[&[u8]] = &[b"99999999999999999.000", b"-7.5", b"18446744073709551615"];
/// A program of this machine.
static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| fs::read("/bin/true").unwrap_or_default());

pub fn law(bytes: &[u8]) {
    let (text, choices) = crate::parts(bytes);
    let mut choices = Choices(choices);
    // The seeds are strings of Rust; what they quote, and the sums in them, acts on a terminal.
    let text = String::from_utf8_lossy(text).replace("\\r\\n", "\n");
    let text = text.replace('"', "\u{1b}").replace("SHA256", "\u{1b}");
    let mut part = |_| {
        let mut rest = &text.as_bytes()[choices.below(text.len() + 1)..];
        choices.piece(600, &mut rest)
    };
    let text = &[0, 1].map(&mut part).concat();
    sections(text, &mut choices);
    let settings = [&b"user me\n"[..], b"proxyjump me@gate\n"][choices.below(2)];
    let trouble = classify(text, "exit status: 255", &Settings::parse(settings));
    let error = SshError::new("node", "me@host", trouble);
    assert_safe(&error.hint().unwrap_or_default());
    let mut cause: Option<&dyn Error> = Some(&error);
    while let Some(error) = cause {
        assert_safe(&error.to_string());
        cause = error.source();
    }
    let mut choices = Choices(text);
    facts(text, &mut choices);
    program(&mut choices);
}

/// A command's output in that of its login shell.
fn sections(text: &[u8], choices: &mut Choices<'_>) {
    if text.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
        return;
    }
    let (noise, said) = text.split_at(choices.below(text.len() + 1));
    let begin = format!("\n{MARK}\n");
    let end = format!("\n{MARK}-\n\n{MARK} 17\nbye\n");
    let stream = [noise, begin.as_bytes(), said, end.as_bytes()].concat();
    let (mut section, mut rest) = (OutputSection::new(MARK), &stream[..]);
    let mut taken = Ok(());
    while !rest.is_empty() && taken.is_ok() {
        taken = section.take(choices.piece(200, &mut rest));
    }
    match taken {
        Ok(()) => {
            assert_eq!(section.status(), Some(17));
            let said = [said, format!("\n{MARK}-\n").as_bytes()].concat();
            assert!(section.into_said() == said, "a command has other output");
        }
        Err(Overrun::Noise) => assert!(noise.len() > NOISE_BYTES, "a short banner is refused"),
        Err(Overrun::Said) => assert!(said.len() > 10 * NOISE_BYTES, "short output is refused"),
    }
}

/// The answer of our script, with lines of the text as its values.
fn facts(text: &[u8], choices: &mut Choices<'_>) {
    let mut printed = b"os=Linux\nend=yes\n".to_vec();
    for line in text.split(|byte| *byte == b'\n').take(8) {
        let name = NAMES[choices.below(NAMES.len())].as_bytes();
        let value = [line, line, NUMBERS[choices.below(NUMBERS.len())]][choices.below(3)];
        printed.extend([name, b"=", value, b"\n"].concat());
    }
    printed.extend(b"root=/r\n");
    let fault = match read_facts(&printed, text, 5_200_000) {
        Ok(facts) => {
            assert_safe(&facts.libc.to_string());
            assert!(facts.builds.iter().chain(&facts.other_builds).all(|name| !name.contains('/')));
            facts.full
        }
        Err(fault) => Some(fault),
    };
    for words in fault.iter().flat_map(|fault| [fault.to_string(), fault.hint()]) {
        assert_safe(&words);
        assert!(words.len() < 10_000, "a node fills {} bytes of a message", words.len());
    }
    if let Some(ms) = clock_ms(&printed) {
        clock_offset_ms(ms, 1_795_502_856_000, 9);
    }
}

/// A program whose heads and tables are damaged.
fn program(choices: &mut Choices<'_>) {
    let mut bytes = PROGRAM.clone();
    for _ in 0..choices.below(4) {
        let at = choices.below(4096);
        let at = if choices.byte() & 1 == 0 { at } else { bytes.len().saturating_sub(at + 1) };
        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = choices.byte());
    }
    let file = tempfile::NamedTempFile::new_in(crate::MEMORY_FOLDER).expect("memory has room");
    fs::write(file.path(), &bytes).expect("the program is written");
    let needed = glibc_of(file.path());
    assert!(needed.is_ok() || bytes != *PROGRAM, "a sound program is refused");
}
