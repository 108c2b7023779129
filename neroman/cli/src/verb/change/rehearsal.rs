//! The experiments that a verb touches: the question before, and the counts after.

use nero_model::safe::Safe;
use nero_views::text;
use nero_wire::v1::Selection;

use crate::fault::{Fault, Stop};
use crate::say::VerbOutput;
use crate::session::exactly;

/// Experiments that are listed before the question.
const LISTED_MAX: usize = 20;

/// Longest reason that stands in the line of counts.
const SHORT_REASON: usize = 32;

/// Asks before a verb touches more than one of the experiments that its rehearsal found, by id and
/// name. Returns whether the verb goes on. `noun`: what each of them is, as in `2 live runs`.
/// `explicit`: whether the selector names an id, a state or an expression.
///
/// # Errors
/// When the user cannot be asked, and the selector is not explicit and `--yes` is not given.
pub async fn is_agreed(
    out: &VerbOutput,
    verb: &str,
    noun: &str,
    list: &[(u64, String)],
    explicit: bool,
) -> Result<bool, Stop> {
    if list.len() <= 1 {
        return Ok(true);
    }
    let what = format!("{verb} {}", text::plural(list.len(), noun));
    if out.screen.can_ask {
        for (id, name) in list.iter().take(LISTED_MAX) {
            out.note(&format!("  {id}  {name}"));
        }
        if list.len() > LISTED_MAX {
            out.note(&format!("  … and {} more", list.len() - LISTED_MAX));
        }
        let goes_on = out.ask(&format!("{what}?")).await?;
        if !goes_on {
            out.note("nothing was done");
        }
        return Ok(goes_on);
    }
    if explicit {
        return Ok(true);
    }
    Err(Fault::usage(format!("this would {what}"))
        .cause("the selector names no id, state or expression, and there is no terminal to ask")
        .hint("add --yes to go on")
        .into())
}

/// Asks as [`is_agreed`]; a selection about which a question was asked becomes what it listed.
pub async fn narrow(
    out: &VerbOutput,
    verb: &str,
    noun: &str,
    (list, explicit): (Vec<(u64, String)>, bool),
    selection: &mut Option<Selection>,
) -> Result<bool, Stop> {
    let goes_on = is_agreed(out, verb, noun, &list, explicit).await?;
    if out.screen.can_ask && list.len() > 1 {
        let ids: Vec<u64> = list.into_iter().map(|(id, _)| id).collect();
        *selection = Some(exactly(text::ids(&ids)));
    }
    Ok(goes_on)
}

/// A single id touches one experiment at most: no question is needed.
pub fn is_one_id(words: &[String]) -> bool {
    matches!(words, [only] if only.parse::<u64>().is_ok())
}

/// Reasons for skipping, each with an id, its label and its text: those with more text
/// than a label as lines of their own, and the counts by label. A reason without a label
/// is its own if it is short.
pub fn skips<'a>(skipped: impl Iterator<Item = (u64, &'a str, &'a str)>) -> (String, String) {
    let labelled = skipped.map(|(id, label, why)| {
        let is_short = why.chars().count() <= SHORT_REASON;
        let label = match label {
            "" if is_short => why,
            "" => "for other reasons",
            label => label,
        };
        ((label, why), id)
    });
    let (mut lines, mut labels) = (String::new(), Vec::new());
    for ((label, why), ids) in text::grouped(labelled) {
        if label != why {
            let (ids, why) = (text::ids(&ids), Safe::line(why));
            lines.push_str(&format!("skipped {ids}: {why}\n"));
        }
        labels.extend(ids.iter().map(|_| label));
    }
    let counts = text::counted(&text::count(labels));
    (lines, Safe::line(&counts).to_string())
}

/// The end of the line of counts: who was skipped, and that nothing was picked where no note
/// tells why.
pub fn ending(skipped: &str, is_unexplained: bool) -> String {
    let mut text = String::new();
    if !skipped.is_empty() {
        text.push_str(&format!(" · skipped {skipped}"));
    }
    if is_unexplained {
        text.push_str(" · the selector picks nothing");
    }
    text + "\n"
}
