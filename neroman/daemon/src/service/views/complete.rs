//! `Complete`: words with which a half-typed selector or expression may go on.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use nero_expr::{NameKind, State as Word, is_name_char};
use nero_life::experiment::Experiment;
use nero_life::state::State;
use nero_wire::v1;
use v1::complete_request::Kind;

use crate::service::{Man, blocking};
use nero_home::failure::Failure;

/// More words than this are no help to a person.
const WORDS_MAX: usize = 200;

/// More words than this are not sorted, so duplicates among them are counted.
const SORTED_MAX: usize = 10_000;

impl Man {
    /// The words that begin so.
    pub(crate) async fn complete(
        &self,
        request: v1::CompleteRequest,
    ) -> Result<v1::CompleteReply, Failure> {
        let state = self.ledger.state();
        blocking(move || {
            let mut words = Words::default();
            for kind in request.kinds() {
                words.add(kind, &request.begun, &state);
            }
            v1::CompleteReply {
                words: words.at_most(WORDS_MAX),
            }
        })
        .await
    }
}

/// Words, and what each of them is.
#[derive(Default)]
struct Words<'a>(Vec<(Cow<'a, str>, About<'a>)>);

#[derive(Clone, Copy)]
enum About<'a> {
    /// The word is its number.
    Number(&'a Experiment),
    /// The word is its name, or names a run of it.
    Name(&'a Experiment),
    Run(&'a Experiment),
    Collection,
    Param,
    Metric,
}

impl<'a> Words<'a> {
    fn add(&mut self, kind: Kind, begun: &str, state: &'a State) {
        match kind {
            Kind::Unspecified => {}
            Kind::Experiments => self.experiments(begun, state, false),
            Kind::Removed => self.experiments(begun, state, true),
            Kind::Params => self.names(NameKind::Param, About::Param, begun, state),
            Kind::Metrics => self.names(NameKind::Metric, About::Metric, begun, state),
        }
    }

    fn experiments(&mut self, begun: &str, state: &'a State, removed: bool) {
        let is_number = begun.starts_with(|c: char| c.is_ascii_digit());
        if let Some((id, _)) = begun.split_once('.').filter(|_| is_number) {
            self.runs(id, begun, state);
        }
        let mut collections = BTreeSet::new();
        let all = state.experiments.iter().map(AsRef::as_ref);
        for one in all.filter(|one| one.hidden_ms.is_some() == removed) {
            if is_number {
                let number = one.id.0.to_string();
                self.say(number.into(), About::Number(one), begun);
                continue;
            }
            let (collection, name) = (one.definition.collection(), &one.definition.name);
            let after = begun.strip_prefix(collection);
            match after.and_then(|rest| rest.strip_prefix('/')) {
                // What follows the collection is asked for.
                Some(rest) if name.starts_with(rest) && is_plain(name) && is_plain(collection) => {
                    let both = format!("{collection}/{name}");
                    self.0.push((both.into(), About::Name(one)));
                }
                _ if !collection.is_empty() && collection.starts_with(begun) => {
                    collections.insert(collection);
                }
                _ => {}
            }
            if name.starts_with(begun) && is_plain(name) {
                self.say(name.as_str().into(), About::Name(one), begun);
            }
        }
        for name in collections.into_iter().filter(|name| is_plain(name)) {
            self.0.push((format!("{name}/").into(), About::Collection));
        }
    }

    fn runs(&mut self, id: &str, begun: &str, state: &'a State) {
        let number = id.parse().ok().map(nero_model::ExperimentId);
        let Some(one) = number.and_then(|id| state.experiment(id)) else {
            return;
        };
        for run in &one.runs {
            let word = run.made.id.to_string();
            self.say(word.into(), About::Run(one), begun);
        }
    }

    fn names(&mut self, kind: NameKind, about: About<'a>, begun: &str, state: &'a State) {
        let from = (kind, begun.to_owned());
        for (other, name) in state.known_names.range(from..) {
            if *other != kind || !name.starts_with(begun) {
                return;
            }
            if name.chars().all(is_name_char) {
                self.say(name.as_str().into(), about, begun);
            }
        }
    }

    fn say(&mut self, word: Cow<'a, str>, about: About<'a>, begun: &str) {
        if word.starts_with(begun) {
            self.0.push((word, about));
        }
    }

    /// All words; where there are more than `most`, the beginnings that they share. The first
    /// `most` words would mislead a shell: it types the beginning that all words it was given
    /// have in common.
    fn at_most(mut self, most: usize) -> Vec<v1::complete_reply::Word> {
        if self.0.len() <= SORTED_MAX {
            self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
            self.0.dedup_by(|(one, _), (other, _)| one == other);
        }
        if self.0.len() <= most {
            let words = self.0.iter();
            return words
                .map(|(word, about)| said(word, about.text()))
                .collect();
        }
        let words = self.0.iter().map(|(word, _)| word.as_ref());
        let shared = words.reduce(common).map_or(0, str::len);
        let mut groups: BTreeMap<Option<char>, (&str, About<'_>, usize)> = BTreeMap::new();
        for (word, about) in &self.0 {
            let next = word.get(shared..).and_then(|rest| rest.chars().next());
            let group = groups.entry(next).or_insert((word, *about, 0));
            (group.0, group.2) = (common(group.0, word), group.2 + 1);
        }
        let groups = groups
            .into_values()
            .map(|(word, about, count)| match count {
                1 => said(word, about.text()),
                _ => said(word, format!("begins {count} words")),
            });
        groups.collect()
    }
}

impl About<'_> {
    fn text(self) -> String {
        match self {
            About::Number(one) => format!("{}, {}", one.definition.name, one.state().as_str()),
            About::Name(one) => format!("{}, {}", one.id.0, one.state().as_str()),
            About::Run(one) => one.definition.name.clone(),
            About::Collection => "a collection".to_owned(),
            About::Param => "a parameter".to_owned(),
            About::Metric => "a metric".to_owned(),
        }
    }
}

fn said(word: &str, about: String) -> v1::complete_reply::Word {
    v1::complete_reply::Word {
        word: word.to_owned(),
        about,
    }
}

/// The beginning that two words share.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.char_indices().zip(other.chars());
    let end = same.clone().find(|((_, a), b)| a != b);
    let end = end.map(|((at, _), _)| at);
    let end = end.unwrap_or(one.len().min(other.len()));
    one.get(..end).unwrap_or(one)
}

/// Whether a name means itself, without backticks.
fn is_plain(name: &str) -> bool {
    name.chars().all(is_name_char)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && Word::from_word(name).is_none()
        && !["all", "last"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&'static str], most: usize) -> Vec<(String, String)> {
        let words = words.iter().map(|word| ((*word).into(), About::Metric));
        let shown = Words(words.collect()).at_most(most).into_iter();
        shown.map(|word| (word.word, word.about)).collect()
    }

    #[test]
    fn where_very_many_words_fit_the_beginnings_that_they_share_are_shown() {
        let words = ["t_i-1", "t_i-10", "t_i-11", "t_i-2", "t_i-é1", "t_i-è2"];
        assert_eq!(shown(&words, 6).len(), 6);
        let several = |word: &str, count| (word.to_owned(), format!("begins {count} words"));
        let one = |word: &str| (word.to_owned(), "a metric".to_owned());
        assert_eq!(
            shown(&words, 5),
            [
                several("t_i-1", 3),
                one("t_i-2"),
                one("t_i-è2"),
                one("t_i-é1")
            ]
        );
        assert_eq!(
            shown(&["a", "ab", "ac"], 2),
            [one("a"), one("ab"), one("ac")]
        );
        assert_eq!(shown(&["b", "a1", "a2"], 1), [several("a", 2), one("b")]);
    }
}
