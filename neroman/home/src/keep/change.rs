//! One change, written into a transaction.

use std::collections::HashMap;

use nero_model::RunId;
use nero_store::{Event, RunKey, StoreError, Tx};

use super::rows::{cell_row, experiment_row, json, run_row, source_row};
use super::{LEDGERS, NODES_AWAY, RESTORED, TENURE};
use nero_life::change::Change;
use nero_life::notices::PostChange;

/// Highest numbers that the database has given away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HighestNumbers {
    pub(super) experiment: u64,
    pub(super) source: u64,
    pub(super) rule: u64,
}

pub(super) fn write_change(
    tx: &mut Tx<'_>,
    change: &Change,
    given: &mut HighestNumbers,
    fresh: &mut HashMap<RunId, RunKey>,
) -> Result<(), StoreError> {
    match change {
        Change::Origin(origin) => {
            while given.source < origin.id {
                given.source = tx.new_source()?.0;
            }
            tx.put_source(&source_row(origin))
        }
        Change::Experiment(described) => {
            if given.experiment < described.id.0 {
                tx.give_experiments(described.id)?;
                given.experiment = described.id.0;
            }
            tx.put_experiment(&experiment_row(described))
        }
        Change::Rule(rule) => {
            while given.rule < rule.id {
                given.rule = tx.new_rule()?.0;
            }
            tx.put_rule(&nero_store::Rule {
                id: nero_store::RuleId(rule.id),
                action: rule.action.clone(),
                argument: rule.argument.clone(),
                text: rule.text.clone(),
                repeat_ms: rule.repeat_ms,
                author: rule.author.clone(),
                origin: rule.origin.clone(),
            })
        }
        Change::Run(new) => {
            let key = tx.insert_run(&run_row(new), &new.spec)?;
            fresh.insert(new.made.id, key);
            Ok(())
        }
        Change::Event {
            experiment,
            run,
            at_ms,
            text,
        } => tx.insert_event(&Event {
            experiment: *experiment,
            run: *run,
            at_ms: *at_ms,
            text: text.clone(),
        }),
        Change::Cells(records) => {
            let mut rows = records.iter().map(cell_row);
            rows.try_for_each(|row| tx.put_cell(&row))
        }
        Change::Adopted { deployment, tenure } => {
            tx.adopt(*deployment)?;
            tx.set_meta(TENURE, &json(tenure))
        }
        Change::Last(last) => tx.set_last(last),
        Change::Post(change) => write_post(tx, change),
        Change::Restored(restored) => tx.set_meta(RESTORED, &json(&**restored)),
        Change::Ledgers(ledgers) => tx.set_meta(LEDGERS, &json(&**ledgers)),
        // Written once per run, as it is at the end of the batch.
        Change::Dispatch { .. } | Change::Journal { .. } => Ok(()),
    }
}

fn write_post(tx: &mut Tx<'_>, change: &PostChange) -> Result<(), StoreError> {
    for notice in &change.notices {
        tx.put_notice(notice.id, &json(&**notice))?;
    }
    for id in &change.settled {
        tx.delete_notice(*id)?;
    }
    for (id, bytes) in &change.letters {
        tx.put_letter(*id, bytes)?;
    }
    for delivery in &change.deliveries {
        tx.put_delivery(delivery.id, &json(&**delivery))?;
        if delivery.state.is_over() {
            tx.delete_letter(delivery.id)?;
        }
    }
    for id in &change.forgotten {
        tx.delete_delivery(*id)?;
    }
    match &change.nodes_away {
        Some(nodes) => tx.set_meta(NODES_AWAY, &json(nodes)),
        None => Ok(()),
    }
}
