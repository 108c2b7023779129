//! The ways by which a message or an event leaves this machine.

mod child;
mod command;
mod deadlines;
mod outcome;
mod sendmail;
mod smtp;
mod tls;
mod webhook;

use nero_config::{Mail, MailTransport, Webhook};
use nero_life::notices::SendResult;

use deadlines::Deadlines;

/// Who sends a message, and its one recipient. A server that refuses one recipient of several
/// refuses the message to all, so each gets a message of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The sender's address.
    pub from: String,
    /// The recipient's address.
    pub to: String,
}

/// Hands a message to what takes mail.
pub async fn send(mail: &Mail, envelope: &Envelope, message: &[u8]) -> SendResult {
    let deadlines = Deadlines::default();
    match &mail.transport {
        MailTransport::Smtp(server) => smtp::send(server, envelope, message, &deadlines).await,
        MailTransport::Sendmail(program) => {
            sendmail::send(program, envelope, message, &deadlines).await
        }
    }
}

/// Sends an event, as JSON, to a webhook. `id` names the delivery: it is the same when the event
/// is sent again.
pub async fn post(webhook: &Webhook, id: &str, event: &[u8]) -> SendResult {
    webhook::post(webhook, id, event, &Deadlines::default()).await
}

/// Starts a program that gets an event, as JSON, on its standard input.
pub async fn hand_to(command: &[String], event: &[u8]) -> SendResult {
    command::hand_to(command, event, &Deadlines::default()).await
}
