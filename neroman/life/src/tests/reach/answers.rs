//! Steps that a node takes part in: what is sent to it, what arrives there, and what
//! it reports.

use super::node::{NEVER_AGAIN, Rec, Request, There, journal};
use super::steps::Steps;
use super::world::{Asked, NODES, NOW, Step, World, happens, may_happen, tick};
use crate::facts::stage::Stage;
use crate::fold::change::Change;
use crate::source::abort::Answer as Cancelled;
use crate::source::clean;
use crate::step::hand_over::{self, Answer, SendState};
use crate::step::input::{Input, Placement};
use crate::step::needs;
use crate::step::recall::{self, RecallAnswer};
use crate::step::report::{self, Report, ReportedStage, Stray};
use crate::tests::lab;
use std::sync::Arc;

impl Steps<'_> {
    pub(super) fn sending(&mut self, index: usize) {
        let (run, name, node) = (self.from.run(), NODES[index], &self.from.nodes[index]);
        // The nodes are alike: one of them shows what a late hand-over does beside another.
        let late = index > 0 && node.late.is_some();
        if !hand_over::is_due(run, name) || node.request.is_some() || late {
            return;
        }
        let why = || "why".to_owned();
        for (label, sending) in [
            ("its files go to the node", SendState::FilesGo),
            ("its checkpoints are not home yet", SendState::Waits(why())),
            (
                "the node has no room for its files",
                SendState::Deferred(why()),
            ),
            ("its files are not here any more", SendState::Never(why())),
        ] {
            let node = name.to_owned();
            let tick = tick();
            let input = Input::Sending {
                node,
                sending,
                tick,
            };
            self.push(label, happens(run, input));
        }
        let node = name.to_owned();
        if let Some(offered) = may_happen(run, Input::Offer { node }) {
            self.push("it is offered", offered);
        }
        let generation = run.dispatch.generation();
        if hand_over::may_send(run, name, generation) {
            let request = Request {
                generation,
                again: hand_over::is_sent_again(run),
                question: false,
            };
            self.unheard("it is sent", |to| to.nodes[index].request = Some(request));
        }
        if hand_over::is_asked_for(run, name) {
            let request = Request {
                generation,
                again: false,
                question: true,
            };
            let label = "its files are not here, the node is asked for it";
            self.unheard(label, |to| to.nodes[index].request = Some(request));
        }
    }

    /// Adds the arrival of a hand-over, with or without its answer.
    pub(super) fn arrival(&mut self, index: usize) {
        let node = &self.from.nodes[index];
        if let Some(generation) = node.late {
            self.unheard("a late hand-over arrives", |to| {
                to.nodes[index].late = None;
                to.nodes[index].accept(generation);
            });
        }
        let Some(request) = node.request else { return };
        self.unheard("the connection is lost", |to| to.nodes[index].hang_up());
        let (why, hint) = ("why".to_owned(), String::new());
        let accepted = Answer::Accepted { rules_version: 1 };
        let deferred = Answer::Later {
            why: why.clone(),
            lacks: None,
            hint: hint.clone(),
        };
        let refused = |only_here| Answer::Refused {
            why: why.clone(),
            lacks: None,
            hint: hint.clone(),
            only_here,
        };
        let answers = match node.there {
            There::Nothing if request.again => vec![Answer::Unknown],
            There::Nothing | There::Recalled if request.question => {
                vec![Answer::NotThere { why: why.clone() }]
            }
            There::Nothing if node.fence == NEVER_AGAIN => vec![refused(true)],
            There::Nothing if request.generation <= node.fence => vec![Answer::Unknown],
            There::Nothing => vec![accepted, deferred, refused(true), refused(false)],
            There::Recalled => vec![refused(true)],
            There::Waiting if request.again => vec![accepted, deferred],
            There::Waiting
            | There::Refused
            | There::Started
            | There::Ended
            | There::Settled
            | There::TakenAway => vec![accepted],
        };
        for answer in answers {
            let comes_in = matches!(answer, Answer::Accepted { .. });
            // It refuses what is still on its way of such a run, too.
            let fence = match answer {
                Answer::Refused {
                    only_here: true, ..
                } => NEVER_AGAIN,
                Answer::Unknown | Answer::NotThere { .. } => request.generation,
                Answer::Accepted { .. }
                | Answer::Later { .. }
                | Answer::CannotTell { .. }
                | Answer::Refused { .. } => 0,
            };
            let world = |to: &mut World| {
                let node = &mut to.nodes[index];
                node.request = None;
                node.raise_fence(fence);
                if comes_in {
                    node.accept(request.generation);
                }
            };
            let label = match &answer {
                Answer::Accepted { .. } => "the node accepts it",
                Answer::Later { .. } => "the node cannot take it now",
                Answer::NotThere { .. } => "the node does not have it, its files are not here",
                Answer::CannotTell { .. } => "the node cannot tell whether it has it",
                Answer::Unknown => "the node does not have it and does not take it",
                Answer::Refused {
                    only_here: true, ..
                } => "the node refuses it: only here",
                Answer::Refused {
                    only_here: false, ..
                } => "the node refuses it: everywhere",
            };
            let node = NODES[index].to_owned();
            let generation = request.generation;
            let input = Input::HandOver {
                at: Placement { node, generation },
                answer,
                tick: tick(),
            };
            let changes = happens(self.from.run(), input);
            self.with(label, true, changes, world);
        }
    }

    pub(super) fn reports(&mut self, index: usize) {
        let (run, node) = (self.from.run(), &self.from.nodes[index]);
        let here = self.from.here() == Some(index);
        let asker = node.request.is_some();
        // Records are sent before the report that they were.
        let sent = !here || self.from.known == node.records.len() || !run.takes_records();
        if let Some(generation) = node.gave_back {
            // The answer to a hand-over is recorded before, any other report after it.
            if !asker {
                self.report_given_back(index, generation);
            }
            return;
        }
        let standing = match node.there {
            There::Nothing if asker || !here => return,
            There::Nothing if !run.reached_its_node() => return,
            There::Nothing => ReportedStage::Unknown,
            There::Waiting => ReportedStage::Waiting,
            There::Refused => ReportedStage::Refused,
            There::Started if node.records.len() == 1 => ReportedStage::Starting,
            There::Started => ReportedStage::Running,
            There::Ended | There::Settled if !sent => return,
            There::Ended => ReportedStage::Ended,
            There::Settled => ReportedStage::Settled,
            There::TakenAway | There::Recalled => ReportedStage::TakenAway,
        };
        self.report(index, standing);
        if node.there != There::Nothing && here {
            self.report(index, ReportedStage::Held);
        }
        let holds = matches!(standing, ReportedStage::Waiting | ReportedStage::Running);
        if holds && here && self.asked == Asked::OneNode {
            self.report_of(index, standing, true);
        }
    }

    /// Adds the report of a run that the node gave back, which may have come in again.
    pub(super) fn report_given_back(&mut self, index: usize, generation: u32) {
        let (run, node) = (self.from.run(), NODES[index].to_owned());
        let here = self.from.here() == Some(index);
        let why = "why".to_owned();
        let report = Report {
            why,
            generation,
            ..Report::unknown()
        };
        let changes = may_happen(run, Input::Reported { node, report });
        let whose = if here { "its node" } else { "another node" };
        let what = match changes {
            Some(_) => "it is given back",
            None => "it was given back before",
        };
        let label = format!("{whose} reports: {what}");
        let changes = changes.unwrap_or_default();
        self.with(&label, here, changes, |to| to.nodes[index].gave_back = None);
    }

    pub(super) fn report(&mut self, index: usize, standing: ReportedStage) {
        self.report_of(index, standing, false);
    }

    /// Adds a report of a run whose spec is usable, or not any more.
    pub(super) fn report_of(&mut self, index: usize, standing: ReportedStage, send_spec: bool) {
        let (run, name) = (self.from.run(), NODES[index]);
        let mut changes = Vec::new();
        let here = self.from.here() == Some(index);
        if report::stray(run, name, standing) == Some(Stray::Live) {
            let node = name.to_owned();
            changes.extend(happens(run, Input::Stray { node }));
        }
        let mut to = self.from.clone();
        to.take(changes);
        let run = to.run().clone();
        if here && !run.is_closed() {
            let why = match standing {
                ReportedStage::Ended | ReportedStage::Settled | ReportedStage::Unknown => {
                    String::new()
                }
                _ => "why".to_owned(),
            };
            let report = Report {
                standing,
                why,
                send_spec,
                ..Report::unknown()
            };
            let node = name.to_owned();
            to.take(happens(&run, Input::Reported { node, report }));
        }
        let whose = if here { "its node" } else { "another node" };
        let what = match standing {
            ReportedStage::Held => "it cannot be read now",
            ReportedStage::Waiting => "it waits",
            ReportedStage::Starting => "it starts",
            ReportedStage::Running => "it runs",
            ReportedStage::Ended => "it ended",
            ReportedStage::Settled => "it is settled",
            ReportedStage::TakenAway => "it is taken away",
            ReportedStage::Refused => "it can never start",
            ReportedStage::Unknown => "it is unknown",
        };
        let spec = if send_spec { ", without its spec" } else { "" };
        self.steps.push(Step {
            label: format!("{whose} reports: {what}{spec}"),
            heard: true,
            word: here,
            to,
        });
    }

    pub(super) fn cancel(&mut self, index: usize) {
        let (run, name, node) = (self.from.run(), NODES[index], &self.from.nodes[index]);
        if node.request.is_some() {
            return;
        }
        let over = node.records.last().is_some_and(|last| last.is_last());
        let (answer, there) = match node.there {
            There::Nothing => (Cancelled::Unknown, There::Nothing),
            There::Waiting | There::Refused | There::TakenAway => {
                (Cancelled::NeverStarted, There::TakenAway)
            }
            There::Recalled => (Cancelled::NeverStarted, There::Recalled),
            There::Started if over => (Cancelled::Ended, There::Started),
            There::Started => (Cancelled::Asked, There::Started),
            There::Ended | There::Settled => (Cancelled::Ended, node.there),
        };
        let told = move |to: &mut World| {
            let node = &mut to.nodes[index];
            node.there = there;
            node.cancelled |= answer == Cancelled::Asked;
            if answer == Cancelled::Unknown {
                node.raise_fence(NEVER_AGAIN);
            }
        };
        if self.from.here() == Some(index) && needs::of(run).cancel {
            let what = match answer {
                Cancelled::Unknown => "unknown",
                Cancelled::NeverStarted => "never started",
                Cancelled::Asked => "asked",
                Cancelled::Ended => "ended",
                Cancelled::Unclear | Cancelled::GoesOn => unreachable!(),
            };
            let asked_ms = Some(NOW);
            let at = run.placement().unwrap();
            let input = Input::CancelAnswered {
                at,
                answer,
                asked_ms,
            };
            let changes = happens(run, input);
            self.with(
                &format!("the node is told to end it: {what}"),
                true,
                changes,
                told,
            );
            self.unheard("the node ends it, its answer is lost", told);
        }
        if run.is_left_on(name) {
            let node = name.to_owned();
            let changes = happens(run, Input::EndedThere { node });
            let label = "a node that it was left behind on ends it";
            self.with(label, false, changes, told);
        }
    }

    pub(super) fn recall(&mut self, index: usize) {
        let (run, name, node) = (self.from.run(), NODES[index], &self.from.nodes[index]);
        if node.request.is_some() || !recall::is_leaving(run, name) || !needs::of(run).recall {
            return;
        }
        let asked = matches!(&run.dispatch.stage, Stage::Recalled { recall, .. } if recall.asked);
        if !asked {
            let at = run.placement().unwrap();
            let asked = happens(run, Input::RecallAsked { at: at.clone() });
            self.push("the node is about to be asked", asked);
            let unsupported = happens(run, Input::RecallUnsupported { at });
            self.push("the node knows no recall", unsupported);
            return;
        }
        let generation = run.dispatch.generation();
        // What waits and no process of the node ever was to start leaves no trace.
        let answers = match node.there {
            There::Nothing => vec![(Some(RecallAnswer::Nothing), There::Nothing, generation)],
            There::Waiting => vec![
                (Some(RecallAnswer::Never), There::Recalled, node.fence),
                (Some(RecallAnswer::Nothing), There::Nothing, generation),
            ],
            There::Refused | There::TakenAway | There::Recalled => {
                vec![(Some(RecallAnswer::Never), There::Recalled, node.fence)]
            }
            There::Started => vec![(Some(RecallAnswer::Begun), There::Started, node.fence)],
            There::Ended | There::Settled => vec![(None, node.there, node.fence)],
        };
        for (said, there, fence) in answers {
            self.recall_answered(index, said, there, fence);
        }
    }

    pub(super) fn recall_answered(
        &mut self,
        index: usize,
        said: Option<RecallAnswer>,
        there: There,
        fence: u32,
    ) {
        let told = move |to: &mut World| {
            to.nodes[index].there = there;
            to.nodes[index].raise_fence(fence);
        };
        self.unheard("the node is asked, its answer is lost", told);
        let Some(said) = said else { return };
        let what = match said {
            RecallAnswer::Nothing => "nothing of it is there",
            RecallAnswer::Never => "it never starts there",
            RecallAnswer::Begun => "it goes on",
        };
        let run = self.from.run();
        let input = Input::RecallAnswered {
            at: run.placement().unwrap(),
            said,
            tick: tick(),
        };
        let changes = happens(run, input);
        let label = format!("the node answers the recall: {what}");
        self.with(&label, true, changes, told);
    }

    pub(super) fn records(&mut self, index: usize) {
        let (run, node) = (self.from.run(), &self.from.nodes[index]);
        if self.from.here() != Some(index) || !run.takes_records() {
            return;
        }
        let folded = |records: &[Rec]| Change::Journal {
            run: run.made.id,
            journal: Arc::new(journal(records)),
        };
        let known = self.from.known;
        if let Some(record) = node.records.get(known) {
            let what = match record {
                Rec::Claimed => "it was claimed",
                Rec::Started => "its job started",
                Rec::StopAsked => "its job is stopped",
                Rec::Exited => "its job exited",
                Rec::TreeGone => "nothing of it is alive",
                Rec::GateClosed => "the start is made again",
                Rec::NotExecuted => "its program cannot be executed",
                Rec::NotStartedCancelled => "its start was cancelled",
                Rec::Rebooted => "its machine was restarted",
                Rec::FolderGone => "its folder is gone",
            };
            let changes = [folded(&node.records[..=known])];
            // The steps after a start do not depend on the word that was asked for.
            let explored = *record == Rec::Started && self.asked == Asked::Group;
            self.with(&format!("record: {what}"), true, changes, |to| {
                to.known = known + 1;
                to.explored |= explored;
            });
        }
    }

    pub(super) fn results(&mut self) {
        let run = self.from.run();
        if needs::of(run).results {
            let home = happens(run, lab::results_done("r"));
            self.push("its results are home", home);
            let why = "why".to_owned();
            let given_up = happens(run, Input::ResultsGivenUp { why });
            self.push("its results are given up", given_up);
            if clean::stays(run, true).is_none() {
                self.push("a person cleans it", happens(run, Input::ResultsForgone));
            }
        }
        if clean::lies_there(run) && run.is_closed() {
            self.push("its folder is cleaned", happens(run, Input::Cleaned));
        }
        if let Some(close) = may_happen(run, Input::MayForget) {
            self.push("the node may forget it", close);
        }
        if needs::of(run).rules {
            let taken = happens(
                run,
                Input::RulesDelivered {
                    version: 1,
                    kept: 1,
                },
            );
            self.push("the node takes its rules", taken);
        }
    }
}
