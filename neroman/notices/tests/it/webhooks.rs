//! Webhooks, answered by a small server.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::thread::{self, JoinHandle};

use nero_config::Webhook;
use nero_notices::SendResult;

use crate::{run, words};

/// Answers one request and returns it.
fn server(answer: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
    let work = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut part = [0; 4096];
        let is_whole = |request: &[u8]| {
            let text = String::from_utf8_lossy(request);
            let (head, body) = text.split_once("\r\n\r\n")?;
            let mut lines = head.lines();
            let length = lines.find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            });
            (body.len() >= length.unwrap_or(0_usize)).then_some(())
        };
        while is_whole(&request).is_none() {
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&part[..length]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        String::from_utf8(request).unwrap()
    });
    (url, work)
}

fn post(url: &str, secret: Option<&[&str]>) -> SendResult {
    let webhook = Webhook {
        url: url.to_owned(),
        ca: None,
        secret_command: secret.map(words),
    };
    run(nero_notices::post(
        &webhook,
        "crashed-7f3a-1",
        b"{\"event\":\"crashed\"}",
    ))
}

#[test]
fn an_event_is_posted_with_the_name_of_its_delivery_and_a_signature() {
    let (url, work) = server("HTTP/1.1 204 No Content\r\n\r\n");
    let outcome = post(&url, Some(&["echo", "key"]));
    assert_eq!(outcome, SendResult::Accepted("204 No Content".to_owned()));
    let request = work.join().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?key=1 HTTP/1.1\r\n"), "{head}");
    assert_eq!(body, "{\"event\":\"crashed\"}");
    // printf '{"event":"crashed"}' | openssl dgst -sha256 -hmac key
    for line in [
        "content-type: application/json",
        "neronet-delivery: crashed-7f3a-1",
        "neronet-signature: sha256=82e95769ba2481c25dad0625d5385131824610a5e4fc99bc44010256714c7796",
    ] {
        assert!(head.lines().any(|found| found == line), "{line} in\n{head}");
    }
}

#[test]
fn without_a_key_nothing_is_signed() {
    let (url, work) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    assert_eq!(post(&url, None), SendResult::Accepted("200 OK".to_owned()));
    assert!(!work.join().unwrap().contains("signature"));
}

#[test]
fn answers_are_told_apart() {
    type Is = fn(&SendResult) -> bool;
    let is_later: Is = |outcome| matches!(outcome, SendResult::Later(_));
    let is_refused: Is = |outcome| matches!(outcome, SendResult::Refused(_));
    let needs_person: Is = |outcome| matches!(outcome, SendResult::LoginRefused(_));
    for (answer, is) in [
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", is_later),
        ("HTTP/1.1 429 Too Many Requests\r\n\r\n", is_later),
        ("not HTTP at all\r\n\r\n", is_later),
        ("", is_later),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", is_refused),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", needs_person),
        (
            "HTTP/1.1 301 Moved Permanently\r\nlocation: http://x/\r\n\r\n",
            needs_person,
        ),
    ] {
        let (url, work) = server(answer);
        let outcome = post(&url, None);
        assert!(is(&outcome), "{answer:?}: {outcome:?}");
        work.join().unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for url in [format!("http://{address}/"), format!("https://{address}/")] {
        assert!(is_later(&post(&url, None)), "{url}");
    }
    assert!(is_later(&post(
        &format!("http://{address}/"),
        Some(&["false"])
    )));
}

#[test]
fn a_server_without_tls_is_told_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let work = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        // Until the other side hangs up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let outcome = post(&url, None);
    let SendResult::Later(words) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(words.contains("is it `http://`?"), "{words}");
    work.join().unwrap();
}
