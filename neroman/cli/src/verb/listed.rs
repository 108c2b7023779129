//! `status --json` of any number of experiments: printed as they arrive, so that
//! neither side holds more than a few hundred of them.

use nero_views::json;
use nero_wire::hello;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ExperimentView, ListReply, ListRequest, Selection};
use serde_json::json;
use tonic::Streaming;

use crate::connect::{Next, READ_DEADLINE};
use crate::fault::{Fault, Stop};
use crate::session::{Session, selection};

/// The picked experiments, as they are now, and of them what is asked for.
pub async fn list(
    session: &mut Session,
    picked: Selection,
    asked: ListRequest,
) -> Result<ListReply, Fault> {
    let selection = Some(picked);
    let asked = ListRequest { selection, ..asked };
    session.read(asked, ManClient::list).await
}

/// The picked experiments, as they are now.
pub async fn views(session: &mut Session, picked: Selection) -> Result<Vec<ExperimentView>, Fault> {
    let reply = list(session, picked, ListRequest::default()).await?;
    Ok(reply.experiments)
}

/// The picked experiments, as a stream whose first part has arrived.
pub struct Parts {
    first: ListReply,
    rest: Streaming<ListReply>,
}

impl Parts {
    /// Asks; `None` when the daemon's build sends lists as a whole only.
    ///
    /// # Errors
    /// As any call.
    pub async fn open(session: &mut Session, picked: &[String]) -> Result<Option<Self>, Fault> {
        let asked = ListRequest {
            selection: Some(selection(picked)),
            settle: false,
            ..ListRequest::default()
        };
        let client = session.client().await?;
        if !client.can(hello::LIST_PARTS) {
            return Ok(None);
        }
        loop {
            let mut rest = client
                .call(READ_DEADLINE, asked.clone(), ManClient::list_parts)
                .await?;
            match client.next(&mut rest).await? {
                Next::Message(first) => return Ok(Some(Self { first, rest })),
                Next::End => return Err(cut("the daemon listed nothing")),
                Next::Lost => {}
            }
        }
    }

    /// Prints the document of `status --json`. After an error it has no end.
    ///
    /// # Errors
    /// When the daemon ends meanwhile, or the output cannot be written.
    pub async fn print(self, session: &mut Session) -> Result<(), Stop> {
        let Self { first, mut rest } = self;
        let notes = json::print(&json!(first.notes));
        let books = json::print(&json::workbooks(&first.workbooks));
        let batches = json::print(&json::batches(&first.batches));
        let begin = format!("{{\"schema\":{},\"experiments\":[", json::SCHEMA);
        session.out.text(&begin)?;
        let (mut part, mut text) = (first, String::new());
        loop {
            for view in &part.experiments {
                text.push_str(&json::print(&json::experiment(view)));
                text.push(',');
            }
            // Leave out the comma after the very last one.
            let comma = text.len().checked_sub(1);
            if let Some(comma) = comma {
                session.out.text(&text[..comma])?;
                text.drain(..comma);
            }
            match session.client().await?.next(&mut rest).await? {
                Next::Message(next) => part = next,
                Next::End => break,
                Next::Lost => return Err(cut("the daemon ended while it listed").into()),
            }
        }
        session.out.line(&format!(
            "],\"notes\":{notes},\"workbooks\":{books},\"batches\":{batches}}}"
        ))
    }
}

fn cut(what: &str) -> Fault {
    Fault::no_daemon(what).hint("type it again; what was printed is not whole")
}
