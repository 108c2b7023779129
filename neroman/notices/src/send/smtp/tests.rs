//! Servers that stand still, each at another step.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;

/// Long enough for all that works, on a busy machine.
const STEP: Duration = Duration::from_secs(10);

const SHORT: Deadlines = Deadlines {
    connect: STEP,
    step: STEP,
    accept: STEP,
    secret: STEP,
    program: STEP,
};

/// A server that gives these answers, one for each line of the client, then none, until the
/// client hangs up. The first is its greeting; what follows 354 answers the whole message.
fn server(answers: &'static [&'static str]) -> (Smtp, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let work = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for (index, answer) in answers.iter().enumerate() {
            let is_message = index > 0 && answers[index - 1].starts_with("354");
            let ends = |line: &str| !is_message || line == ".";
            if index > 0 && !lines.by_ref().map_while(Result::ok).any(|line| ends(&line)) {
                return;
            }
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        // An error is the end, too: the client is gone.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let smtp = Smtp {
        host: "127.0.0.1".to_owned(),
        port,
        security: MailSecurity::None,
        ca: None,
        login: None,
    };
    (smtp, work)
}

async fn send_to(smtp: &Smtp) -> SendResult {
    let envelope = Envelope {
        from: "neronet@example.org".to_owned(),
        to: "ada@example.org".to_owned(),
    };
    send(smtp, &envelope, b"Subject: x\r\n\r\nx\r\n", &SHORT).await
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

const HELLO: &str = "250-localhost\r\n250-8BITMIME\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS\r\n";

/// Sends to a server that stands still after these answers.
async fn stands_still(answers: &'static [&'static str], change: fn(&mut Smtp), words: &str) {
    let (mut smtp, work) = server(answers);
    change(&mut smtp);
    let outcome = send_to(&smtp).await;
    let SendResult::Later(said) = &outcome else {
        panic!("{answers:?}: {outcome:?}");
    };
    assert!(said.contains(words), "{answers:?}: {said}");
    work.join().unwrap();
}

#[test]
fn a_server_that_stands_still_is_left_at_each_step() {
    let same = |_: &mut Smtp| {};
    run(async {
        tokio::join!(
            stands_still(&[], same, "did not greet"),
            stands_still(&["220 x\r\n"], same, "did not greet"),
            stands_still(&["220 x\r\n", HELLO], same, "the sender"),
            stands_still(&["220 x\r\n", HELLO, "250 a\r\n"], same, "the recipient"),
            stands_still(
                &["220 x\r\n", HELLO, "250 a\r\n", "250 b\r\n"],
                same,
                "the beginning of the message"
            ),
            stands_still(
                &["220 x\r\n", HELLO, "250 a\r\n", "250 b\r\n", "354 c\r\n"],
                same,
                "it may have been taken"
            ),
            stands_still(
                &["220 x\r\n", HELLO],
                |smtp| smtp.security = MailSecurity::StartTls,
                "STARTTLS"
            ),
            stands_still(
                &["220 x\r\n", HELLO, "220 go\r\n"],
                |smtp| smtp.security = MailSecurity::StartTls,
                "STARTTLS"
            ),
            stands_still(
                &[],
                |smtp| smtp.security = MailSecurity::Tls,
                "the TLS handshake"
            ),
            stands_still(
                &["220 x\r\n", HELLO],
                |smtp| {
                    smtp.login = Some(MailLogin {
                        name: "ada".to_owned(),
                        password_command: vec!["echo".to_owned(), "secret".to_owned()],
                    });
                },
                "the login"
            ),
            stands_still(
                &["220 x\r\n", HELLO],
                |smtp| {
                    let command = ["sleep", "600"].map(str::to_owned).to_vec();
                    smtp.login = Some(MailLogin {
                        name: "ada".to_owned(),
                        password_command: command,
                    });
                    // It is not even asked.
                    let _ = std::net::TcpStream::connect(("127.0.0.1", smtp.port));
                },
                "`sleep` did not end within 10 s"
            ),
        );
    });
}

#[test]
fn a_server_that_never_ends_its_line_fills_no_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let work = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut written = 0_usize;
        while stream.write_all(&[b'2'; 65_536]).is_ok() {
            written += 65_536;
        }
        written
    });
    let smtp = Smtp {
        host: "127.0.0.1".to_owned(),
        port,
        security: MailSecurity::None,
        ca: None,
        login: None,
    };
    let outcome = run(send_to(&smtp));
    let SendResult::Later(words) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(words.contains("sends too much"), "{words}");
    // What the system keeps for a connection goes beyond what was read.
    assert!(work.join().unwrap() < 64 << 20);
}

#[test]
fn answers_count_by_their_step() {
    type Is = fn(&SendResult) -> bool;
    let is_later: Is = |outcome| matches!(outcome, SendResult::Later(_));
    let is_refused: Is = |outcome| matches!(outcome, SendResult::Refused(_));
    let needs_person: Is = |outcome| matches!(outcome, SendResult::LoginRefused(_));
    let table: [(&'static [&'static str], Is); 8] = [
        (&["554 no service here\r\n"], is_later),
        (
            &["220 x\r\n", HELLO, "530 5.7.0 authentication required\r\n"],
            needs_person,
        ),
        (
            &["220 x\r\n", HELLO, "550 not your address\r\n"],
            needs_person,
        ),
        (
            &["220 x\r\n", HELLO, "250 a\r\n", "550 no such user\r\n"],
            is_refused,
        ),
        (&["220 x\r\n", HELLO, "250 a\r\n", "452 full\r\n"], is_later),
        (
            &[
                "220 x\r\n",
                HELLO,
                "250 a\r\n",
                "250 b\r\n",
                "354 c\r\n",
                "554 spam\r\n",
            ],
            is_refused,
        ),
        (
            &[
                "220 x\r\n",
                HELLO,
                "250 a\r\n",
                "250 b\r\n",
                "354 c\r\n",
                "421 later\r\n",
            ],
            is_later,
        ),
        (
            &["220 x\r\n", "250 localhost\r\n", "nonsense\r\n"],
            is_later,
        ),
    ];
    for (answers, is) in table {
        let (smtp, work) = server(answers);
        let outcome = run(send_to(&smtp));
        assert!(is(&outcome), "{answers:?}: {outcome:?}");
        work.join().unwrap();
    }
}
