//! `Remove`: hides experiments, and shows them again. Runs are not touched;
//! experiments that were hidden for long are deleted when the databases are
//! opened.

use nero_life::remove::{Removal, remove};
use nero_wire::v1;
use nero_wire::v1::remove_reply::One;

use crate::service::change::ChangeRequest as _;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::Decision;

impl Man {
    /// Hides the picked experiments; with `undo` shows them again.
    pub(crate) async fn remove(
        &self,
        request: v1::RemoveRequest,
    ) -> Result<v1::RemoveReply, Failure> {
        let head = request.head();
        let selection = self.selection(request.selection, "").await?;
        let state = self.ledger.state();
        let undo = request.undo;
        let (ids, picked) = blocking(move || {
            if undo {
                selection.removed(&state)
            } else {
                selection.experiments(&state)
            }
        })
        .await??;
        self.decided(&head, move |state, now_ms| {
            let (removals, changes) = remove(state, &ids, undo, now_ms);
            Ok(Decision {
                answer: v1::RemoveReply {
                    experiments: removals.into_iter().map(reply_part).collect(),
                    notes: picked.notes,
                    explicit: picked.explicit,
                },
                changes,
            })
        })
        .await
    }
}

fn reply_part(removal: Removal) -> One {
    let (skipped_as, skipped) = removal.refusal.unwrap_or_default();
    One {
        experiment: removal.experiment.0,
        name: removal.name,
        skipped,
        skipped_as: skipped_as.to_owned(),
    }
}
