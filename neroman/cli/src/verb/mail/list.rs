//! `mail list`, `mail retry`: what waits to be told, what was sent, and what was not.

use nero_model::ids;
use nero_model::safe::Safe;
use nero_views::text::{self, iso_time};
use nero_views::{json, object};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{MailDelivery, MailListReply, MailListRequest, MailRetryRequest};
use serde_json::{Value, json};

use crate::connect::Change;
use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::Session;

/// `mail list`.
pub(super) async fn list(session: &mut Session, as_json: bool) -> Result<u8, Stop> {
    let reply = session
        .read(MailListRequest {}, ManClient::mail_list)
        .await?;
    if as_json {
        session.out.json(&document(&reply))?
    } else {
        session.out.text(&as_text(&session.out.screen, &reply))?
    }
    Ok(code::OK)
}

/// `mail retry`.
pub(super) async fn retry(session: &mut Session, as_json: bool) -> Result<u8, Stop> {
    let asked = MailRetryRequest {
        request: ids::random::<16>().to_vec(),
    };
    let reply = session
        .change(Change::Other, asked, ManClient::mail_retry)
        .await?;
    let count = usize::try_from(reply.deliveries).unwrap_or(usize::MAX);
    match as_json {
        true => session
            .out
            .json(&json::document(json!({"tried": reply.deliveries})))?,
        false if count == 0 => session.out.line("nothing waits")?,
        false => session.out.line(&format!(
            "{} tried again now; `neroman mail list` shows what comes of it",
            deliveries(count)
        ))?,
    }
    Ok(code::OK)
}

fn as_text(screen: &Screen, reply: &MailListReply) -> String {
    let mut said = String::new();
    if !reply.deliveries.is_empty() {
        said.push_str(&table::list(screen, COLUMNS, &reply.deliveries));
    }
    if reply.notices > 0 {
        let count = usize::try_from(reply.notices).unwrap_or(usize::MAX);
        let why = match reply.waits.as_str() {
            "" => String::new(),
            waits => format!(": {}", Safe::line(waits)),
        };
        said.push_str(&format!(
            "{} to be told{why}\n",
            text::plural(count, "event")
        ));
    }
    if reply.off {
        said.push_str("nobody is told of anything: config.yaml has neither `mail`, `notify.webhook` nor `notify.command`\n");
    } else if said.is_empty() {
        said.push_str("nothing was sent yet, and nothing waits\n");
    }
    said
}

const COLUMNS: &[Column<'_, MailDelivery>] = &[
    ("made", &|one| Cell::time(one.made_ms)),
    ("way", &|one| Cell::text(&one.way)),
    ("to", &|one| Cell::text(&one.to)),
    ("subject", &|one| Cell::text(&one.subject)),
    ("state", &|one| Cell::text(&one.state)),
    ("since or next", &|one| match one.state.as_str() {
        "blocked" => Cell::default(),
        _ => Cell::time(one.at_ms),
    }),
    ("words", &|one| Cell::text(&one.words)),
];

fn document(reply: &MailListReply) -> Value {
    let deliveries: Vec<Value> = reply.deliveries.iter().map(delivery).collect();
    json::document(object!(reply => deliveries: deliveries, notices, waits?, off))
}

fn delivery(one: &MailDelivery) -> Value {
    object!(one =>
        way, to?, subject,
        made: iso_time(one.made_ms),
        state, words?,
        at: iso_time(one.at_ms),
        tries, message_id?,
    )
}

fn deliveries(count: usize) -> String {
    match count {
        1 => "1 delivery is".to_owned(),
        count => format!("{count} deliveries are"),
    }
}
