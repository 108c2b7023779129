//! `mail list` and `mail retry` (see `list`), and `mail test`: composes a message and sends it as the daemon does. No daemon is asked.

mod list;

use std::time::{SystemTime, UNIX_EPOCH};

use nero_config::{Config, Mail, MailTransport, NotifyEvent};
use nero_model::ids;
use nero_notices::{Envelope, Letter, SendResult, letter};
use nero_views::json;
use serde_json::{Value, json};

use crate::args::MailVerb;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;
use crate::session::{Session, home, read_config};

pub async fn run(session: &mut Session, args: &MailVerb) -> Result<u8, Stop> {
    match args {
        MailVerb::List(_) => list::list(session).await,
        MailVerb::Retry(_) => list::retry(session).await,
        MailVerb::Test { to, .. } => test(&session.out, to.as_deref()).await,
    }
}

async fn test(out: &VerbOutput, to: Option<&str>) -> Result<u8, Stop> {
    let config = read_config(&home()?)?;
    let Some(mail) = &config.mail else {
        let hint = "`neroman config set user.email ADDRESS`, then `neroman config set mail.smtp \
                    SERVER`; `neroman help mail` has the rest";
        return Err(Fault::usage("config.yaml has no `mail`").hint(hint).into());
    };
    let recipients: Vec<&str> = match to {
        Some(to) => vec![to],
        None => config.notify.to.iter().map(String::as_str).collect(),
    };
    let mut sent = Vec::new();
    for recipient in recipients {
        let outcome = send(&config, mail, recipient).await?;
        if !out.as_json
            && let SendResult::Accepted(words) = &outcome
        {
            out.line(&format!("{recipient}: {} took it: {words}", taker(mail)))?;
        }
        sent.push((recipient, outcome));
    }
    if out.as_json {
        let sent = sent.iter().map(|(to, outcome)| document(to, outcome));
        let sent: Vec<Value> = sent.collect();
        out.json(&json::document(json!({"sent": sent})))?;
    }
    let failed = sent.iter().find(|(_, outcome)| !is_accepted(outcome));
    match failed {
        None => Ok(code::OK),
        Some(_) if out.as_json => Ok(code::FAILED),
        Some((to, outcome)) => Err(failure(mail, to, outcome).into()),
    }
}

fn is_accepted(outcome: &SendResult) -> bool {
    matches!(outcome, SendResult::Accepted(_))
}

/// Sends one message to one recipient.
async fn send(config: &Config, mail: &Mail, to: &str) -> Result<SendResult, Fault> {
    let wanted = NotifyEvent::ALL.into_iter();
    let wanted = wanted.filter(|event| config.notify.wants(*event));
    let told_of: Vec<&str> = wanted.map(NotifyEvent::as_str).collect();
    let text = letter::test_letter(&told_of);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis());
    let letter = Letter {
        key: format!("test/{}", ids::hex(&ids::random::<16>())),
        from: mail.from.clone(),
        to: to.to_owned(),
        to_name: config.name_of(to).map(str::to_owned),
        subject: text.subject,
        date_ms: i64::try_from(now_ms).unwrap_or(i64::MAX),
        thread: None,
        text: text.text,
        html: text.html,
        picture: None,
    };
    let composed = letter.compose().map_err(|error| {
        Fault::usage("cannot write the message")
            .because(&error)
            .hint("for example --to ada@example.org")
    })?;
    let envelope = Envelope {
        from: mail.from.clone(),
        to: to.to_owned(),
    };
    Ok(nero_notices::send(mail, &envelope, &composed.bytes).await)
}

fn taker(mail: &Mail) -> String {
    match &mail.transport {
        MailTransport::Smtp(server) => server.address(),
        MailTransport::Sendmail(program) => program.display().to_string(),
    }
}

fn failure(mail: &Mail, to: &str, outcome: &SendResult) -> Fault {
    let fault = Fault::failed(format!("{} did not take the message to {to}", taker(mail)));
    let fault = fault.cause(outcome.words());
    match outcome {
        SendResult::Later(_) => fault.hint("mail that fails so is tried again, for three days"),
        SendResult::LoginRefused(_) => {
            fault.hint("mail waits until `mail` in config.yaml is changed")
        }
        SendResult::Accepted(_) | SendResult::Refused(_) => fault,
    }
}

fn document(to: &str, outcome: &SendResult) -> Value {
    let word = match outcome {
        SendResult::Accepted(_) => "accepted",
        SendResult::Later(_) => "later",
        SendResult::Refused(_) => "refused",
        SendResult::LoginRefused(_) => "login refused",
    };
    json!({"to": to, "outcome": word, "words": outcome.words()})
}
