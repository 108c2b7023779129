//! A window of experiments that a view watches for as long as it is open.

use std::time::Duration;

use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ListRequest, WatchEvent, WatchRequest, Window};

use crate::connect::{Next, READ_DEADLINE};
use crate::fault::{Fault, code};
use crate::session::{Session, selection};

/// The pause before a daemon that left is started again.
pub const REST: Duration = Duration::from_secs(1);

/// What a watched window brings.
#[derive(Debug)]
pub enum RowsMessage {
    /// Rows that changed.
    Rows(Box<WatchEvent>),
    /// The daemon does not answer; it is tried again.
    Away(Fault),
    /// What was asked for cannot be answered; nothing follows.
    Refused(Fault),
}

/// Asks the daemon whether a selector is right.
///
/// # Errors
/// Its mistake, or why no daemon answers.
pub async fn check(session: &mut Session, picked: &str) -> Result<(), Fault> {
    let asked = ListRequest {
        selection: Some(selection(&[picked.to_owned()])),
        window: Some(Window::default()),
        ..ListRequest::default()
    };
    let listed = session.read(asked, ManClient::list);
    listed.await.map(drop)
}

/// Watches a window; the daemon is started again when it has left. Returns after a refusal, else
/// never: the caller drops it.
pub async fn watch(
    mut session: Session,
    asked: WatchRequest,
    mut tell: impl AsyncFnMut(RowsMessage),
) {
    loop {
        match stream(&mut session, &asked, &mut tell).await {
            Ok(()) => {}
            Err(fault) if fault.exit_code == code::USAGE => {
                tell(RowsMessage::Refused(fault)).await;
                return;
            }
            Err(fault) => {
                tell(RowsMessage::Away(fault)).await;
                session.hang_up();
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn stream(
    session: &mut Session,
    asked: &WatchRequest,
    tell: &mut impl AsyncFnMut(RowsMessage),
) -> Result<(), Fault> {
    let client = session.client().await?;
    let mut stream = client
        .call(READ_DEADLINE, asked.clone(), ManClient::watch)
        .await?;
    while let Next::Message(event) = client.next(&mut stream).await? {
        tell(RowsMessage::Rows(Box::new(event))).await;
    }
    Ok(())
}
