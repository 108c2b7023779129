//! Mail servers: a message is taken, refused or tried again as the first answer tells that is no
//! success, and what people are told of it is one short line of safe text.

use nero_config::{Mail, MailSecurity, MailTransport, Smtp};
use nero_notices::{Envelope, SendResult, send};
use tokio::io::{AsyncWriteExt as _, copy, sink};
use tokio::net::TcpListener;

use crate::{Choices, assert_safe};

/// Codes of the answers to a message that is taken, from the greeting on.
const TAKEN: [&str; 6] = ["220", "250", "250", "250", "354", "250"];
const OTHERS: [&str; 6] = ["421", "450", "530", "535", "550", "554"];

pub fn law(bytes: &[u8]) {
    let (text, choices) = crate::parts(bytes);
    let mut choices = Choices(choices);
    let mut lines = text.chunks(20).map(String::from_utf8_lossy);
    let (mut answers, mut failure) = (String::new(), None);
    for code in TAKEN {
        let is_other = choices.below(12) == 1;
        let code = if is_other { OTHERS[choices.below(OTHERS.len())] } else { code };
        for mark in [&["-", " "][..], &[" "]][choices.below(2)] {
            let line = lines.next().unwrap_or_default().replace(['\r', '\n'], " ");
            let line = line.repeat(1 + choices.below(2) * 7);
            answers.push_str(&format!("{code}{mark}mx {line}\r\n"));
        }
        failure = failure.or(is_other.then_some(code));
    }
    let outcome = answered(answers.as_bytes());
    match (&outcome, failure) {
        (SendResult::Accepted(_), None) | (SendResult::Later(_), Some(_)) => {}
        (SendResult::Refused(_) | SendResult::LoginRefused(_), Some(code)) => {
            assert!(code.starts_with('5'), "{code} is called final");
        }
        _ => panic!("{answers:?} counts as {outcome:?}"),
    }
    assert_safe(outcome.words());
    assert!(outcome.words().chars().count() <= 401, "a server fills {outcome:?}");
}

/// Sends a message to a server that gives these answers whatever it is asked.
fn answered(answers: &[u8]) -> SendResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let mail = Mail {
            from: "neronet@example.org".to_owned(),
            transport: MailTransport::Smtp(Smtp {
                host: "127.0.0.1".to_owned(),
                port: listener.local_addr().expect("it has a port").port(),
                security: MailSecurity::None,
                ca: None,
                login: None,
            }),
            relay: None,
            fields: Default::default(),
        };
        let envelope = Envelope { from: mail.from.clone(), to: "ada@example.org".to_owned() };
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("the sender comes");
            let (mut from, mut to) = stream.split();
            let answer = async {
                // The sender may have heard enough.
                let _ = to.write_all(answers).await;
                let _ = to.shutdown().await;
            };
            let mut heard = sink();
            tokio::join!(answer, copy(&mut from, &mut heard))
        };
        tokio::join!(send(&mail, &envelope, b"Subject: x\r\n\r\nx\r\n"), serve).0
    })
}
