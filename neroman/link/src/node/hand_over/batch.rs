//! Puts runs together that share a message.

use nero_model::RunId;
use nero_wire::v1;
use prost::Message as _;

use super::super::resume::{self, CheckpointState};
use super::{BYTES_MAX, HandOver, RUN_BYTES_MAX, RUNS_MAX, UnsentRun, rule_set};
use nero_home::failure::Failure;
use nero_home::spec;
use nero_life::refusal;
use nero_life::state::State;

impl HandOver {
    /// As many specs as fit into one message, the runs that have to wait, and
    /// the number of runs taken.
    pub(super) async fn next_batch(
        &self,
        state: &State,
        runs: &[RunId],
    ) -> Result<(Vec<v1::RunSpec>, Vec<UnsentRun>, usize), Failure> {
        let mut held = Vec::new();
        let mut batch: Vec<v1::RunSpec> = Vec::new();
        let mut bytes = 0;
        let mut taken = 0;
        let wanted = &runs[..runs.len().min(RUNS_MAX)];
        let specs = self.ledger.specs(wanted.to_vec()).await?;
        for (id, spec) in specs {
            taken += 1;
            let Some(run) = state.run(id) else { continue };
            let mut spec = match spec {
                Ok(spec) => spec,
                Err(unread) => {
                    let why = refusal::with_hint(&unread.to_string(), unread.hint_text());
                    held.push((run.made.token, CheckpointState::Never(why)));
                    continue;
                }
            };
            spec.rules = Some(rule_set(state, run));
            self.settings.name.clone_into(&mut spec.node);
            spec.data = spec::data(&run.made.takes, &self.settings.name);
            spec.scheduler = spec::scheduler(
                &run.made.takes.scheduling,
                &self.settings.asks.borrow(),
                &self.settings.name,
            );
            let resources = spec::resources_on(&run.made, &self.settings.name);
            spec.resources = resources.or(spec.resources);
            spec.movable = run.of_several();
            spec.generation = run.generation();
            if self.settings.remote {
                spec::without_shell(&mut spec);
            }
            let carried = resume::carry(&self.settings, &self.ledger, state, run, &mut spec);
            match carried.await? {
                CheckpointState::Ready => {
                    let own = spec.encoded_len();
                    if own > RUN_BYTES_MAX {
                        let why = format!(
                            "its command, variables and rules are {own} bytes, a node takes {RUN_BYTES_MAX} (put long values into files)"
                        );
                        held.push((run.made.token, CheckpointState::Never(why)));
                        continue;
                    }
                    bytes += own;
                    batch.push(spec);
                }
                carry @ (CheckpointState::Wait(_) | CheckpointState::Never(_)) => {
                    held.push((run.made.token, carry))
                }
            }
            if bytes >= BYTES_MAX {
                break;
            }
        }
        Ok((batch, held, taken.max(1)))
    }

    /// Groups of runs: first those whose files are there, then one group per
    /// tree, so that no run waits for the files of all.
    pub(super) fn by_files(&self, batch: Vec<v1::RunSpec>) -> Vec<Vec<v1::RunSpec>> {
        let there =
            |spec: &v1::RunSpec| self.stager.has(&spec.tree) && self.stager.has(&spec.overlay);
        let (now, later): (Vec<_>, Vec<_>) = batch.into_iter().partition(there);
        let mut groups = vec![now];
        for spec in later {
            let alike = |group: &&mut Vec<v1::RunSpec>| {
                let first = group.first();
                first.is_some_and(|one| one.tree == spec.tree && one.overlay == spec.overlay)
            };
            match groups.iter_mut().skip(1).find(alike) {
                Some(group) => group.push(spec),
                None => groups.push(vec![spec]),
            }
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}
