//! What the head hears from its nodes: answers, records, reports.

use super::head::{About, Errand};
use super::wire::{Answer, EndedRun, Ending, Item, Items, Record, Request};
use super::world::{DriverDue, World};
use crate::fold::change::Change;
use crate::fold::run::Run;
use crate::source::abort::Answer as Outcome;
use crate::step::hand_over::Answer as Word;
use crate::step::input::{Input, Placement};
use crate::step::recall::RecallAnswer;
use crate::step::report::{self, Report, ReportedStage, Stray};
use crate::step::reports;
use crate::tests::reach::node::add;
use nero_model::RunId;
use std::sync::Arc;

impl World {
    /// A node's answer.
    pub fn answered(&mut self, node: usize, answer: Answer) {
        let (name, tick) = (self.nodes[node].name.clone(), self.tick());
        let link = &mut self.head.links[node];
        match answer {
            Answer::Described { waiting, is_held } => {
                let at_ms = self.clock.now;
                link.about = Some(About {
                    at_ms,
                    waiting,
                    is_held,
                });
                link.asked_ms = None;
                return self.ring_placer();
            }
            Answer::HandOver(runs) => {
                link.sends = false;
                let is_later = |word: &Word| matches!(word, Word::Later { .. });
                if runs.iter().any(|(.., word)| is_later(word)) {
                    self.due(node, 5000, DriverDue::LookAtAll);
                }
                for (id, generation, answer) in runs {
                    let label = match &answer {
                        Word::Accepted { .. } => "the node accepts it",
                        Word::Later { .. } => "the node cannot take it now",
                        Word::Unknown => "the node does not have it and does not take it",
                        _ => "the node refuses it",
                    };
                    let node = name.clone();
                    let at = Placement { node, generation };
                    let tick = tick.clone();
                    let input = Input::HandOver { at, answer, tick };
                    self.input(label, true, false, vec![(id, input)]);
                }
            }
            Answer::End(runs, ending) => {
                link.awaits = None;
                self.ends_answered(node, runs, ending);
            }
            Answer::Pause(runs, resumes) => {
                link.awaits = None;
                for (id, at, outcome) in runs {
                    if outcome.is_none() && !resumes {
                        continue;
                    }
                    let holds = !resumes && outcome == Some(true);
                    let label = match (resumes, holds) {
                        (false, true) => "the node holds it",
                        (false, false) => "the node answers that it began or ended",
                        (true, _) => "the node lets it go on",
                    };
                    let input = Input::HoldAnswered { at, holds };
                    self.input(label, false, false, vec![(id, input)]);
                }
            }
            Answer::Follows => link.begins = false,
            Answer::None => {}
        }
        self.go_on(node);
    }

    pub fn ends_answered(&mut self, node: usize, runs: Vec<(EndedRun, Outcome)>, ending: Ending) {
        let name = self.nodes[node].name.clone();
        let tick = self.tick();
        let mut over = Vec::new();
        for (run, answer) in runs {
            let node = name.clone();
            let (label, word, input) = match (ending, run.at, run.cancel) {
                (Ending::LeftBehind, ..) => {
                    over.push(run.token);
                    let input = Input::EndedThere { node };
                    ("a node that it was left behind on ends it", false, input)
                }
                (Ending::Recall(_), Some(at), _) => {
                    let said = match answer {
                        Outcome::NeverStarted => RecallAnswer::Never,
                        Outcome::Unknown => RecallAnswer::Nothing,
                        Outcome::GoesOn | Outcome::Asked => RecallAnswer::Begun,
                        Outcome::Ended | Outcome::Unclear => continue,
                    };
                    over.extend((said == RecallAnswer::Never).then_some(run.token));
                    let tick = tick.clone();
                    let input = Input::RecallAnswered { at, said, tick };
                    ("the node answers the recall", true, input)
                }
                (_, Some(at), Some(cancel)) => {
                    let label = match answer {
                        Outcome::Unknown => "the node is told to end it: unknown",
                        Outcome::NeverStarted => "the node is told to end it: never started",
                        _ => "the node is told to end it",
                    };
                    let asked_ms = Some(cancel.asked_ms);
                    let input = Input::CancelAnswered {
                        at,
                        answer,
                        asked_ms,
                    };
                    (label, true, input)
                }
                _ => continue,
            };
            self.input(label, word, false, vec![(run.id, input)]);
        }
        if !over.is_empty() {
            self.send(node, Request::Closed(over));
        }
    }

    /// Folds news, unless they report as unknown a run that the node may have accepted just now.
    pub fn hear_news(&mut self, node: usize) {
        loop {
            let link = &mut self.head.links[node];
            let unknown = |item: &Item| matches!(item, Item::State(.., report) if report.standing == ReportedStage::Unknown);
            let is_busy =
                link.sends || matches!(link.awaits, Some(Errand::Cancel | Errand::Recall));
            match link.news.front() {
                Some(items) if is_busy && items.iter().any(unknown) => return,
                Some(_) => {}
                None => return,
            }
            let items = link.news.pop_front().unwrap_or_default();
            self.hear(node, items);
        }
    }

    pub fn hear(&mut self, node: usize, items: Items) {
        let name = self.nodes[node].name.clone();
        let (mut over, mut live, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = Vec::new();
        for item in items {
            match item {
                Item::Part(id, from, records) => parts.push((id, from, records)),
                Item::State(id, token, report) => {
                    let Some(run) = self.head.state.run(id) else {
                        continue;
                    };
                    if run.made.token != token {
                        continue;
                    }
                    match report::stray(run, &name, report.standing) {
                        Some(Stray::Over) => over.push(token),
                        Some(Stray::Live) => live.push(id),
                        None => {}
                    }
                    if run.node() == Some(&*name) {
                        states.push((id, report));
                    }
                }
            }
        }
        let folded = parts.into_iter();
        let folded = folded.filter_map(|(id, from, records)| self.fold(node, id, from, &records));
        let folded: Vec<Change> = folded.collect();
        self.commit("record", true, false, folded);
        for alike in states.chunk_by(|(_, one), (_, other)| label(one) == label(other)) {
            self.reported(&name, alike);
        }
        let link = &mut self.head.links[node];
        live.retain(|id| link.ended.insert(*id));
        if !live.is_empty() {
            let stray = |id: RunId| (id, Input::Stray { node: name.clone() });
            let inputs = live.into_iter().map(stray).collect();
            self.input("another node reports: it goes on", false, false, inputs);
            self.head.links[node].is_all = true;
            self.ring(node, []);
        }
        if !over.is_empty() {
            self.send(node, Request::Closed(over));
        }
    }

    /// Takes reports that have one label.
    fn reported(&mut self, name: &str, reports: &[(RunId, Report)]) {
        let (state, now) = (&self.head.state, self.clock.now);
        let changed = |reports: &[(RunId, Report)]| {
            reports::said(state, name, reports.iter().cloned(), now, |_| {})
        };
        let generation = |id: RunId| state.run(id).map_or(0, Run::generation);
        let late = |(id, one): &&(_, Report)| (1..generation(*id)).contains(&one.generation);
        for (id, report) in reports.iter().filter(late).cloned() {
            self.late_reports += 1;
            if !changed(&[(id, report)]).is_empty() {
                let promise = "a report about an earlier hand-over changes nothing";
                self.clock.breaks(promise, Some(id));
            }
        }
        let changes = changed(reports);
        if let Some((_, report)) = reports.first() {
            self.commit(label(report), true, false, changes);
        }
    }

    /// The change of records behind those that are known.
    fn fold(&mut self, node: usize, id: RunId, from: usize, records: &[Record]) -> Option<Change> {
        let name = &*self.nodes[node].name;
        let run = self
            .head
            .state
            .run(id)
            .filter(|run| run.node() == Some(name));
        let run = run.filter(|run| run.takes_records())?;
        let known = self.head.known.get(&id).copied().unwrap_or(0);
        if from > known {
            self.follow(node);
            return None;
        }
        let new = records.get(known - from..).filter(|new| !new.is_empty())?;
        let mut folded = (*run.journal).clone();
        for (offset, one) in (known..).zip(new) {
            add(&mut folded, one.start, offset, one.what, one.code);
        }
        self.head.known.insert(id, known + new.len());
        let journal = Arc::new(folded);
        Some(Change::Journal { run: id, journal })
    }

    /// Asks a node what it has.
    pub fn describe(&mut self, node: usize) {
        self.head.links[node].asked_ms = Some(self.clock.now);
        self.send(node, Request::Describe);
    }
}

fn label(report: &Report) -> &'static str {
    match report.standing {
        ReportedStage::Unknown if report.why.is_empty() => "its node reports: it is unknown",
        ReportedStage::Unknown => "its node reports: it is given back",
        _ => "its node reports",
    }
}
