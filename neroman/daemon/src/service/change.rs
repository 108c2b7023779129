//! The way of every change that a person asks for: the answer of an earlier try, the selection, the
//! decision, and its rehearsal or the ledger. A call gives its selection and its decision.

use nero_life::state::State;
use nero_model::ExperimentId;
use nero_selector::PickResult;
use nero_wire::v1;
use prost::Message;

use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::Decision;

/// What each request of a change begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeHead {
    /// Names the request when it is sent again; empty if it never is.
    pub id: Vec<u8>,
    /// Whether the person only wants to see what would change. A rehearsal is never remembered.
    pub is_rehearsal: bool,
}

/// A request that changes something.
pub(super) trait ChangeRequest {
    fn head(&self) -> ChangeHead;
}

macro_rules! change_requests {
    ($($request:ident { $($dry_run:ident)? })*) => {$(
        impl ChangeRequest for v1::$request {
            fn head(&self) -> ChangeHead {
                ChangeHead {
                    id: self.request.clone(),
                    is_rehearsal: false $(|| self.$dry_run)?,
                }
            }
        }
    )*};
}

change_requests! {
    AbortRequest { dry_run }
    AddRequest { dry_run }
    AnnotateRequest { dry_run }
    CleanAskRequest { dry_run }
    EditRequest { dry_run }
    MailRetryRequest {}
    NodeAddRequest { dry_run }
    NodeGoneRequest { dry_run }
    NodeRemoveRequest { dry_run }
    RemoveRequest { dry_run }
    RuleAddRequest {}
    RuleRemoveRequest {}
    StartRequest { dry_run }
}

impl Man {
    /// Carries a request out unless that was done before, and returns the answer of then. A request
    /// that is sent again may fail by now: what it names may have gone meanwhile.
    pub(super) async fn once<T: Message + Default + 'static>(
        &self,
        head: &ChangeHead,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if head.is_rehearsal {
            return work.await;
        }
        if let Some(answer) = self.ledger.answered(&head.id).await? {
            return Ok(answer);
        }
        match work.await {
            Ok(answer) => Ok(answer),
            // An earlier try of it may have ended while this one was under way.
            Err(failure) => self.ledger.answered(&head.id).await?.ok_or(failure),
        }
    }

    /// The picked experiments, where runs make no sense; an empty text is `empty`.
    ///
    /// # Errors
    /// When the text is no selector, picks nothing, or names a run.
    pub(super) async fn picked(
        &self,
        selection: Option<v1::Selection>,
        empty: &str,
    ) -> Result<(Vec<ExperimentId>, PickResult), Failure> {
        let selection = self.selection(selection, empty).await?;
        let state = self.ledger.state();
        blocking(move || selection.experiments(&state)).await?
    }

    /// Decides, and has the ledger write what changes. A rehearsal ends with the answer.
    ///
    /// # Errors
    /// The decision's failure, or that it could not be written.
    pub(super) async fn decided<T: Message + Default + 'static>(
        &self,
        head: &ChangeHead,
        decide: impl FnOnce(&State, i64) -> Result<Decision<T>, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if head.is_rehearsal {
            return Ok(decide(&self.ledger.state(), self.clock.now_ms())?.answer);
        }
        self.ledger.ask(&head.id, decide).await
    }
}
