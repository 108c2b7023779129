//! The stored form of a run: its stage is kept as the fields that earlier builds
//! have, too.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::run::{Run, UNREAD};
use crate::facts::dispatch::{Dispatch, RecordsSent};
use crate::facts::journal::Journal;
use crate::facts::leaving::Recall;
use crate::facts::reason::WaitReason;
use crate::facts::run_record::RunRecord;
use crate::facts::stage::{HandOverStage, Stage, TAKE_OVER, Verdict};

/// The stored row of a run, without its journal and its rules.
#[derive(Debug, Serialize, Deserialize)]
pub struct DispatchRow {
    #[serde(flatten)]
    fields: Fields,
    #[serde(flatten)]
    dispatch: Dispatch,
}

/// A stage as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Fields {
    handing: HandOverStage,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Whether its node may have it although it has not accepted it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    offered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    word: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_ms: Option<i64>,
    closed: bool,
    /// Whether its node sent every record except a watcher's.
    ended_told: bool,
    /// Whether its node sent every record.
    settled: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    missing: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    made_nothing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
    #[serde(rename = "withdraw", skip_serializing_if = "Option::is_none")]
    recall: Option<Recall>,
}

impl DispatchRow {
    /// The form in which a run is stored.
    pub fn of(run: &Run) -> Self {
        Self {
            fields: Fields::of(&run.dispatch.stage, &run.dispatch.sent),
            dispatch: run.dispatch.clone(),
        }
    }

    /// The run that was stored.
    pub fn run(self, made: RunRecord, journal: Arc<Journal>, rules: Arc<[u64]>) -> Run {
        let Self {
            fields,
            mut dispatch,
        } = self;
        let recalled = fields.recall.is_some();
        dispatch.sent = fields.sent();
        dispatch.stage = fields.stage(&made, &journal);
        if recalled && dispatch.recall().is_none() {
            // The record of its start was stored after the reason of its recall.
            dispatch.why = WaitReason::Unknown;
        }
        Run::judged(Arc::new(made), dispatch, journal, rules)
    }
}

impl Fields {
    fn of(stage: &Stage, sent: &RecordsSent) -> Self {
        let fields = Self {
            ended_told: *sent != RecordsSent::Some,
            settled: sent.is_all(),
            missing: sent.missing().to_owned(),
            made_nothing: *sent != RecordsSent::Some && !sent.made_files(),
            handing: stage.handing(),
            node: stage.node().map(str::to_owned),
            offered: stage.may_be_there(),
            closed: stage.is_closed(),
            ..Self::default()
        };
        match stage {
            Stage::Unplaced
            | Stage::Chosen { .. }
            | Stage::Offered { .. }
            | Stage::Accepted { .. } => fields,
            Stage::Behind { run, .. } => Self {
                after: Some(*run),
                ..fields
            },
            Stage::Recalled { recall, .. } => Self {
                recall: Some(recall.clone()),
                ..fields
            },
            Stage::Begun { unknown_ms, .. } => Self {
                unknown_ms: *unknown_ms,
                ..fields
            },
            Stage::Over { verdict, .. } => Self {
                word: Some(match verdict {
                    // Earlier builds know a reserved number by these words.
                    Verdict::Reserved { at_ms } => Verdict::NodeGone {
                        who: TAKE_OVER.to_owned(),
                        at_ms: *at_ms,
                    },
                    Verdict::TakenAway { .. }
                    | Verdict::Refused { .. }
                    | Verdict::NodeGone { .. } => verdict.clone(),
                }),
                ..fields
            },
        }
    }

    /// The records that its node sent.
    fn sent(&self) -> RecordsSent {
        let made_nothing = self.made_nothing;
        match (self.settled, self.ended_told) {
            (true, _) => RecordsSent::All {
                made_nothing,
                missing: self.missing.clone(),
            },
            (false, true) => RecordsSent::AllButWatchers { made_nothing },
            (false, false) => RecordsSent::Some,
        }
    }

    /// The stage. Of an earlier build's row this drops all that does not fit the stage:
    /// a recall of a run that began, a node's verdict on a job that ran, and that the
    /// node of a run with a verdict does not know it.
    fn stage(self, made: &RunRecord, journal: &Journal) -> Stage {
        let begun = !journal.incarnations.is_empty();
        let accepted = begun || self.handing >= HandOverStage::Submitted;
        let (closed, unknown_ms) = (self.closed, self.unknown_ms);
        if let Some(run) = self.after {
            let node = self.node;
            return Stage::Behind { run, node };
        }
        // The journal of a run that ran counts more than a node's word.
        let has_run = journal.has_run();
        let verdict = self.word.filter(|verdict| match verdict {
            Verdict::TakenAway { .. } | Verdict::Refused { .. } => !has_run,
            Verdict::NodeGone { .. } | Verdict::Reserved { .. } => true,
        });
        let verdict = verdict.map(|verdict| match verdict {
            Verdict::NodeGone { who, at_ms }
                if self.node.is_none() && who == TAKE_OVER && made.node == UNREAD =>
            {
                Verdict::Reserved { at_ms }
            }
            verdict => verdict,
        });
        if let Some(verdict) = verdict {
            return Stage::Over {
                node: self.node,
                verdict,
                accepted,
                offered: accepted || self.offered,
                closed,
            };
        }
        let asked = || Some(made.node.clone()).filter(|_| !made.placing);
        let Some(node) = self.node.or_else(asked) else {
            return Stage::Unplaced;
        };
        let sending = self.handing == HandOverStage::Staging;
        if begun || closed || unknown_ms.is_some() {
            return Stage::Begun {
                node,
                unknown_ms,
                closed,
            };
        }
        if let Some(recall) = self.recall {
            let from = self.handing;
            return Stage::Recalled { node, recall, from };
        }
        match self.handing {
            HandOverStage::Submitted | HandOverStage::Pending => Stage::Accepted {
                node,
                queued: self.handing == HandOverStage::Pending,
            },
            HandOverStage::Queued | HandOverStage::Staging if self.offered => {
                Stage::Offered { node, sending }
            }
            HandOverStage::Queued | HandOverStage::Staging => Stage::Chosen { node, sending },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::journal::Incarnation;
    use crate::tests::lab;

    /// What a row has besides the fields of the stage.
    const REST: &str = r#""why":"w","ended_told":false,"settled":false,"unsupervised":false,"far_host":"","rules_version":1,"rules_delivered":1,"results":"open","later":[{"node":"a","why":"full","since_ms":5}],"turns":2,"avoid":["b"],"abandoned":["c"],"fired":{"7":{"times":2,"at_ms":5,"action":"warn","text":"crashed","values":"exit = 1"}},"acted":{"7":{"times":2,"ran":{"at_ms":6,"how":"exit code 0"}}}"#;

    fn made(asked: &str) -> RunRecord {
        lab::made(lab::run(1, 1), asked)
    }

    fn read(row: &str, begun: bool) -> Run {
        let kept: DispatchRow = serde_json::from_str(row).unwrap();
        let mut journal = Journal::default();
        if begun {
            journal
                .incarnations
                .insert(1, Incarnation::default().into());
        }
        kept.run(made("lab"), Arc::new(journal), Arc::default())
    }

    #[test]
    fn runs_that_an_earlier_build_stored_stand_where_they_stood() {
        let node = || "a".to_owned();
        let refusal = r#"{"node":"a","why":"no","at_ms":7}"#;
        let recall = format!(r#""withdraw":{{"refusal":{refusal},"passes":true,"asked":true}}"#);
        let begun = |unknown_ms, closed| Stage::Begun {
            node: node(),
            unknown_ms,
            closed,
        };
        let over = |accepted| Stage::Over {
            node: Some(node()),
            verdict: Verdict::Refused {
                why: "no".to_owned(),
                at_ms: 7,
            },
            accepted,
            offered: true,
            closed: false,
        };
        let (sending, queued) = (true, true);
        let a = r#""node":"a","closed":false"#;
        let b = r#""node":"a","offered":true,"closed":false"#;
        let word = r#""word":{"refused":{"why":"no","at_ms":7}}"#;
        let rows = [
            (
                r#""handing":"queued","closed":false,"after":3"#.to_owned(),
                false,
                Stage::Behind { run: 3, node: None },
            ),
            (
                r#""handing":"queued","closed":false"#.to_owned(),
                false,
                Stage::Unplaced,
            ),
            (
                format!(r#""handing":"staging",{a}"#),
                false,
                Stage::Chosen {
                    node: node(),
                    sending,
                },
            ),
            (
                format!(r#""handing":"staging",{b}"#),
                false,
                Stage::Offered {
                    node: node(),
                    sending,
                },
            ),
            (
                format!(r#""handing":"pending",{b}"#),
                false,
                Stage::Accepted {
                    node: node(),
                    queued,
                },
            ),
            (
                format!(r#""handing":"submitted",{b},{recall}"#),
                false,
                Stage::Recalled {
                    node: node(),
                    recall: Recall {
                        refusal: serde_json::from_str(refusal).unwrap(),
                        passes: true,
                        to: None,
                        asked: true,
                    },
                    from: HandOverStage::Submitted,
                },
            ),
            // A start in the journal ends a recall.
            (
                format!(r#""handing":"staging",{b},{recall}"#),
                true,
                begun(None, false),
            ),
            (
                format!(r#""handing":"pending",{b},"unknown_ms":9"#),
                true,
                begun(Some(9), false),
            ),
            (
                r#""handing":"pending","node":"a","closed":true"#.to_owned(),
                true,
                begun(None, true),
            ),
            (
                format!(r#""handing":"queued",{b},{word}"#),
                false,
                over(false),
            ),
            (
                format!(r#""handing":"pending",{b},{word}"#),
                false,
                over(true),
            ),
        ];
        for (fields, starts, stage) in rows {
            let run = read(&format!("{{{fields},{REST}}}"), starts);
            assert_eq!(run.dispatch.stage, stage, "{fields}");
            let rest = (
                run.dispatch.came_back,
                run.dispatch.deferred.len(),
                run.why().to_string(),
            );
            let fired = &run.dispatch.fired[&7];
            assert_eq!((fired.times, fired.action.as_str()), (2, "warn"));
            // A start ends the wait of a recalled run, and its reason.
            let why = if fields.contains("withdraw") && starts {
                ""
            } else {
                "w"
            };
            assert_eq!(rest, (2, 1, why.to_owned()));
            assert_eq!(
                (run.excluded(), &*run.dispatch.left_behind),
                (&["b".to_owned()][..], &["c".to_owned()][..])
            );
            let stored = serde_json::to_string(&DispatchRow::of(&run)).unwrap();
            let again = read(&stored, starts);
            assert_eq!(again.dispatch, run.dispatch, "{stored}");
        }
    }

    #[test]
    fn the_records_that_an_earlier_build_had_got_are_those_that_were_sent() {
        let missing = "watch".to_owned();
        let made_nothing = true;
        let rows = [
            (r#""ended_told":false,"settled":false"#, RecordsSent::Some),
            (
                r#""ended_told":true,"settled":false,"made_nothing":true"#,
                RecordsSent::AllButWatchers { made_nothing },
            ),
            (
                r#""ended_told":true,"settled":true,"missing":"watch","made_nothing":true"#,
                RecordsSent::All {
                    made_nothing,
                    missing,
                },
            ),
        ];
        for (told, sent) in rows {
            let row = REST.replace(r#""ended_told":false,"settled":false"#, told);
            let row = format!(r#"{{"handing":"pending","node":"a","closed":false,{row}}}"#);
            let run = read(&row, true);
            assert_eq!(run.dispatch.sent, sent, "{told}");
            let stored = serde_json::to_string(&DispatchRow::of(&run)).unwrap();
            assert_eq!(read(&stored, true).dispatch, run.dispatch);
            for field in told.split(',') {
                assert!(stored.contains(field), "{stored}");
            }
        }
    }

    #[test]
    fn a_number_that_a_take_over_reserved_is_stored_as_earlier_builds_know_it() {
        const ROW: &str = r#"{"handing":"queued","word":{"node_gone":{"who":"node take-over","at_ms":7}},"closed":true}"#;
        let reserved = |asked: &str| {
            let kept: DispatchRow = serde_json::from_str(ROW).unwrap();
            kept.run(made(asked), Arc::default(), Arc::default())
        };
        let run = reserved(UNREAD);
        assert!(run.is_unread() && !reserved("a").is_unread());
        let stored = serde_json::to_value(DispatchRow::of(&run)).unwrap();
        let row: serde_json::Value = serde_json::from_str(ROW).unwrap();
        assert_eq!(stored["word"], row["word"]);
    }

    #[test]
    fn a_run_of_before_nodes_were_chosen_is_on_the_node_that_was_asked_for() {
        let row = format!(r#"{{"handing":"submitted","closed":false,{REST}}}"#);
        let kept: DispatchRow = serde_json::from_str(&row).unwrap();
        let placing = false;
        let made = RunRecord {
            placing,
            ..made("a")
        };
        let run = kept.run(made, Arc::default(), Arc::default());
        assert_eq!((run.node(), run.is_accepted()), (Some("a"), true));
    }
}
