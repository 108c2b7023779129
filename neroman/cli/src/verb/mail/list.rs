//! `mail list`, `mail retry`: what waits to be told, what was sent, and what was not.

use nero_model::ids;
use nero_model::safe::Safe;
use nero_views::object;
use nero_views::text::{self, iso_time};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{MailDelivery, MailListReply, MailListRequest, MailRetryRequest};
use serde_json::Value;

use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::Session;

/// What becomes of deliveries that are tried again.
const TRIED: &str = "tried again now; `neroman mail list` shows what comes of it";

/// `mail list`.
pub(super) async fn list(session: &mut Session) -> Result<u8, Stop> {
    let reply = session
        .read(MailListRequest {}, ManClient::mail_list)
        .await?;
    let (out, fields) = (&session.out, || as_json(&reply));
    out.reply(&[], fields, || as_text(&out.screen, &reply))?;
    Ok(code::OK)
}

/// `mail retry`.
pub(super) async fn retry(session: &mut Session) -> Result<u8, Stop> {
    let asked = MailRetryRequest {
        request: ids::random::<16>().to_vec(),
    };
    let reply = session.change(asked, ManClient::mail_retry).await?;
    let text = || match reply.deliveries {
        0 => "nothing waits\n".to_owned(),
        1 => format!("1 delivery is {TRIED}\n"),
        count => format!("{count} deliveries are {TRIED}\n"),
    };
    let fields = || object!(reply => tried: reply.deliveries);
    session.out.reply(&[], fields, text)?;
    Ok(code::OK)
}

fn as_text(screen: &Screen, reply: &MailListReply) -> String {
    let mut said = String::new();
    if !reply.deliveries.is_empty() {
        said.push_str(&table::list(screen, COLUMNS, &reply.deliveries));
    }
    if reply.notices > 0 {
        let events = text::plural(reply.notices, "event");
        let why = match reply.waits.as_str() {
            "" => String::new(),
            waits => format!(": {}", Safe::line(waits)),
        };
        said.push_str(&format!("{events} to be told{why}\n"));
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

fn as_json(reply: &MailListReply) -> Value {
    object!(reply =>
        deliveries: [one =>
            way, to?, subject, made: iso_time(one.made_ms), state, words?, at: iso_time(one.at_ms),
            tries, message_id?,
        ],
        notices, waits?, off,
    )
}
