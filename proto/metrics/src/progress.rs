//! How much of its work a job has done, by what a line says.
//!
//! The first of these counts:
//!
//! * a value called `progress`, from 0 to 1; above that, in percent,
//! * steps with their total: `Epoch 8/50`, `iter [5/100]`,
//! * a progress bar: `37%|███`, `74/200 [====>`, `━━━━ 37%`, `[ 37%]`; `[8/50]` anywhere;
//!   `8/50` and `37%` at the head of a line.
//!
//! They nest: in `Epoch 2/3, step 10/100` the first epoch is done and a tenth of the
//! second. A bar is within the epoch that an earlier line of its log names. In a line with
//! an epoch without a total a bar tells nothing of the whole, nor do later bars without a word.
//! A bar of another set, or of a transfer, is none of the run.

use std::cell::LazyCell;

use crate::found::LinePairs;
pub use crate::found::{LineProgress, ProgressKind};
use crate::tokens::heading;
use crate::tokens::step::{self, CountedSteps, EPOCH};
use crate::tokens::words::is_other_bar;

/// Longest line that is looked at: a progress bar is as long as a terminal is wide.
const LINE_BYTES_MAX: usize = 4096;
/// The rank of a count without a word.
const NO_WORD: u8 = 5;
/// Ranks of steps.
const RANKS: usize = NO_WORD as usize + 1;

/// Steps that a line counts, and that later bars are within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OuterSteps {
    /// The rank of its word: a lower one counts smaller steps.
    pub rank: u8,
    /// Steps that are done.
    pub done: f64,
    pub total: f64,
    /// How much of the next step is done, at most.
    pub within: f64,
}

impl OuterSteps {
    /// An epoch of a number that no line tells.
    fn open() -> Self {
        Self {
            rank: EPOCH,
            done: 0.0,
            total: 0.0,
            within: 0.0,
        }
    }

    fn is_open(&self) -> bool {
        self.total == 0.0
    }

    fn share(&self) -> f64 {
        ((self.done + self.within) / self.total).min(1.0)
    }
}

/// The progress by a trimmed line, whose pairs were found already.
pub fn find(
    line: &[u8],
    found: &LinePairs,
    outer: &mut Option<OuterSteps>,
) -> Option<LineProgress> {
    if let Some(done) = named_done(found) {
        return Some(done);
    }
    if line.len() > LINE_BYTES_MAX || !may_tell(line) {
        return None;
    }
    // Without a total a percentage tells alone, and most are values.
    let no_pairs = found.is_empty();
    if memchr::memchr(b'/', line).is_none() && percent(line, 0, no_pairs).is_none() {
        return None;
    }
    let steps = Steps::of(line, found);
    let bar = bar(line, steps.to, no_pairs);
    if bar.is_none() && steps.are_none() {
        return None;
    }
    if is_of_something_else(line, found) {
        return None;
    }
    if steps.is_open {
        // Later bars are within an epoch of how many?
        if bar.is_some() && outer.is_none_or(|outer| outer.rank <= EPOCH) {
            *outer = Some(OuterSteps::open());
        }
        return None;
    }
    if steps.are_none() && outer.is_some_and(|outer| outer.is_open()) {
        return None;
    }
    let is_value = |(name, _): (&str, f64)| step::rank(name.as_bytes()).is_none();
    let has_values = found.pairs().any(is_value);
    // The smallest steps come first.
    let mut within = bar;
    for count in steps.smallest_first() {
        let (done, share) = match within {
            Some(share) => ((count.step - 1.0).max(0.0), share),
            // A line that only names an epoch begins it.
            None if count.rank == EPOCH && !has_values => ((count.step - 1.0).max(0.0), 0.0),
            None => (count.step, 0.0),
        };
        let new = OuterSteps {
            rank: count.rank,
            done,
            total: count.total,
            within: share,
        };
        within = Some(new.share());
        enter(new, outer);
    }
    let share = within?;
    if outer.is_some_and(|outer| outer.is_open()) {
        return None;
    }
    let is_within = |outer: &OuterSteps| steps.are_none() || steps.rank() < outer.rank;
    let (share, is_step) = match outer {
        Some(outer) if is_within(outer) => {
            outer.within = share.max(outer.within);
            (outer.share(), true)
        }
        Some(outer) if steps.rank() == outer.rank => (outer.share(), true),
        Some(_) | None => (share, !steps.are_none()),
    };
    let source = if is_step && outer.is_some_and(|outer| outer.rank < NO_WORD) {
        ProgressKind::Steps
    } else {
        ProgressKind::Bar
    };
    Some(LineProgress { share, source })
}

/// Whether the title of a bar or counter is that of another set, or of a transfer: so it is
/// where its rate is in bytes.
fn is_of_something_else(line: &[u8], found: &LinePairs) -> bool {
    let is_rate = |slash: usize| line[..slash].ends_with(b"B") && line[slash..].starts_with(b"/s");
    if memchr::memchr_iter(b'/', line).any(is_rate) {
        return true;
    }
    let sign = memchr::memchr2(b'%', b'[', line).unwrap_or(line.len());
    let is_value = |name: &str| step::rank_of_last_word(name.as_bytes()).is_none();
    let pairs = found.pairs().zip(found.places());
    let values = pairs.filter(|((name, _), _)| is_value(name));
    let first = values.map(|(_, place)| place.from as usize).min();
    let title = &line[..first.unwrap_or(sign).min(sign)];
    let is_end = |byte: &u8| matches!(byte, b' ' | b':' | b'(' | b')' | b',');
    let mut words = title.split(is_end);
    words.any(|word| word.iter().all(u8::is_ascii_alphabetic) && is_other_bar(word))
}

/// The progress by a value called `progress` alone.
pub fn named_done(found: &LinePairs) -> Option<LineProgress> {
    let source = ProgressKind::Metric;
    named(found).map(|share| LineProgress { share, source })
}

/// Whether a number stands before a `/` or `%`.
fn may_tell(line: &[u8]) -> bool {
    let mut signs = memchr::memchr2_iter(b'/', b'%', line);
    signs.any(|sign| match &line[..sign] {
        [.., digit, b' '] | [.., digit] => digit.is_ascii_digit(),
        [] => false,
    })
}

/// Takes a count as the outer one, unless its steps are smaller than those known.
fn enter(mut new: OuterSteps, outer: &mut Option<OuterSteps>) {
    if let Some(known) = outer {
        if new.rank < known.rank {
            return;
        }
        // A second bar within the same step, for another set, begins at 0.
        let same = (known.rank, known.done, known.total) == (new.rank, new.done, new.total);
        if same {
            new.within = new.within.max(known.within);
        }
    }
    *outer = Some(new);
}

/// The value called `progress`.
fn named(found: &LinePairs) -> Option<f64> {
    let value = found.value_of("progress")?;
    match value {
        0.0..=1.0 => Some(value),
        1.0..=100.0 => Some(value / 100.0),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Count {
    rank: u8,
    step: f64,
    total: f64,
}

/// The steps with their totals that a line names.
#[derive(Default)]
struct Steps {
    /// By their ranks; of a rank the first ones count.
    counts: [Option<Count>; RANKS],
    /// The first names no total.
    is_open: bool,
    /// The end of the last one.
    to: usize,
}

impl Steps {
    fn of(line: &[u8], found: &LinePairs) -> Self {
        let mut steps = Self::default();
        let mut at = 0;
        // What follows a bar belongs to the bar.
        let sign = memchr::memchr(b'%', line);
        let end = sign.unwrap_or(line.len());
        while let Some(start) = step::next_word(&line[..end], at) {
            let read = found.phrase_at(start).filter(|_| sign.is_none());
            let Some(phrase) = read.or_else(|| step::phrase(&line[start..end])) else {
                at = start + step::word_length(&line[start..end]);
                continue;
            };
            at = start + phrase.length;
            let rank = step::rank(&line[start..start + phrase.name]).unwrap_or(NO_WORD);
            match phrase.total.filter(|total| is_total(phrase.step, *total)) {
                Some(total) => {
                    steps.to = at;
                    let step = phrase.step;
                    steps.add(Count { rank, step, total });
                }
                None => steps.is_open |= steps.are_none(),
            }
        }
        if steps.are_none()
            && let Some(head) = head(line)
            && memchr::memchr(b'%', &line[head.to..]).is_some()
        {
            // `1/3  2.35G  …  640: 100%|███| 8/8`: the epoch's number without its name.
            steps.to = head.to;
            steps.add(Count {
                rank: NO_WORD,
                step: head.step,
                total: head.total,
            });
        }
        steps
    }

    fn add(&mut self, count: Count) {
        self.counts[usize::from(count.rank)].get_or_insert(count);
    }

    fn are_none(&self) -> bool {
        self.smallest_first().next().is_none()
    }

    fn smallest_first(&self) -> impl DoubleEndedIterator<Item = &Count> {
        self.counts.iter().flatten()
    }

    /// The rank of the largest ones.
    fn rank(&self) -> u8 {
        self.smallest_first()
            .next_back()
            .map_or(0, |count| count.rank)
    }
}

fn is_total(step: f64, total: f64) -> bool {
    (0.0..=total).contains(&step) && total > 0.0
}

/// How much of a bar is done, or of a count without a word, behind `from`.
fn bar(line: &[u8], from: usize, no_pairs: bool) -> Option<f64> {
    let behind = &line[from..];
    if let Some(share) = percent(line, from, no_pairs) {
        return Some(share);
    }
    let drawn = is_drawn(behind).then(|| {
        let starts = 0..behind.len();
        let mut words = starts.filter(|at| *at == 0 || behind[at - 1] == b' ');
        words.find_map(|at| whole_count(behind, at))
    });
    let counted = drawn
        .flatten()
        .or_else(|| step::counted(behind))
        .or_else(|| (from == 0).then(|| head(line)).flatten())?;
    is_total(counted.step, counted.total).then(|| counted.step / counted.total)
}

/// `8/50` at the head of a line, behind its time stamp; no date.
fn head(line: &[u8]) -> Option<CountedSteps> {
    let counted = whole_count(line, heading::length(line))?;
    let next = line[counted.to..].trim_ascii_start();
    let digits = next.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_date = digits > 0 && next.get(digits) == Some(&b':');
    (!is_date && is_total(counted.step, counted.total)).then_some(counted)
}

/// `8/50` that is a word.
fn whole_count(line: &[u8], at: usize) -> Option<CountedSteps> {
    let counted = step::counted_at(line, at)?;
    let text = &line[counted.from..counted.to];
    let ends = matches!(
        line.get(counted.to),
        None | Some(b' ' | b'\t' | b':' | b',' | b'|')
    );
    (ends && !text.contains(&b' ') && text[0].is_ascii_digit()).then_some(counted)
}

/// The percentage of a bar, or one that stands alone: `INFO accuracy: 37%` is a value.
fn percent(line: &[u8], from: usize, no_pairs: bool) -> Option<f64> {
    // Beside values it is one of a bar, whose signs begin with one of these.
    if !no_pairs && memchr::memchr3(0xe2, b'[', b'|', line).is_none() {
        return None;
    }
    let head = LazyCell::new(|| from.max(heading::length(line)).min(line.len()));
    let is_in_drawing = LazyCell::new(|| is_drawn(&line[from..]));
    memchr::memchr_iter(b'%', line)
        .filter(|sign| *sign > from)
        .find_map(|sign| {
            let is_digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
            let number = line[..sign].strip_suffix(b" ").unwrap_or(&line[..sign]);
            let digits = number.iter().rev().take_while(is_digit).count();
            let start = number.len() - digits;
            let behind = &line[sign + 1..];
            let before = line[..start].trim_ascii_end();
            let in_brackets = before.last() == Some(&b'[') && behind.first() == Some(&b']');
            let says_it = || behind.is_empty() || says_done(behind);
            // Most percentages are values: their numbers were read before.
            let is_told = behind.first() == Some(&b'|')
                || in_brackets
                || *is_in_drawing
                || no_pairs && says_it() && before.len() <= *head;
            if !is_told {
                return None;
            }
            let text = std::str::from_utf8(&number[start..]).ok()?;
            let percent: f64 = text.parse().ok().filter(|one| *one <= 100.0)?;
            let share = percent / 100.0;
            Some(counted_exactly(behind, share).unwrap_or(share))
        })
}

/// The count behind a bar with a percentage, which has more digits: `37%|███ | 74/200 [`.
fn counted_exactly(behind: &[u8], share: f64) -> Option<f64> {
    let close = 1 + memchr::memchr(b'|', behind.strip_prefix(b"|")?)?;
    let at = close + 1;
    let blanks = behind[at..].iter().take_while(|b| **b == b' ').count();
    let counted = step::counted_at(behind, at + blanks)?;
    let exact = counted.step / counted.total;
    (is_total(counted.step, counted.total) && (exact - share).abs() < 0.015).then_some(exact)
}

/// Whether a text has the signs with which bars are drawn.
fn is_drawn(text: &[u8]) -> bool {
    // Most texts have none of the three bytes with which a sign begins.
    memchr::memchr3_iter(0xe2, b'[', b'|', text).any(|at| {
        ["━", "█", "[=", "[#", "[>", "|=", "|#"]
            .iter()
            .any(|sign| text[at..].starts_with(sign.as_bytes()))
    })
}

/// Whether a text behind a percentage says that it is one of work: `37% done`.
fn says_done(behind: &[u8]) -> bool {
    const WORDS: [&[u8]; 5] = [
        b"done",
        b"complete",
        b"completed",
        b"finished",
        b"processed",
    ];
    let text = behind.trim_ascii_start();
    let length = step::word_length(text);
    WORDS
        .iter()
        .any(|word| text[..length].eq_ignore_ascii_case(word))
}
