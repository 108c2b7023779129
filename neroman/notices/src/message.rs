//! From a letter to the bytes of a message (RFC 5322, MIME).
//!
//! Nothing here is random and nothing reads the clock: the id comes from the key, the date from
//! the event, the boundaries of parts from the id.

use std::time::{Duration, UNIX_EPOCH};

use lettre::Address;
use lettre::address::AddressError;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, Message, MultiPart, MultiPartKind, SinglePart};

/// The name by which the HTML shows the picture: `<img src="cid:plot">`.
const PICTURE_ID: &str = "plot";
/// The name beside the address of the sender.
const SENDER: &str = "Neronet";
/// Longer subjects are cut.
const SUBJECT_CHARS_MAX: usize = 160;

/// What one recipient gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Names the delivery: the same key and recipient give the same Message-ID.
    pub key: String,
    /// The sender's address.
    pub from: String,
    /// The recipient's address.
    pub to: String,
    /// The recipient's name, if it is known.
    pub to_name: Option<String>,
    /// One line; control characters are taken out.
    pub subject: String,
    /// When that happened what the letter tells, in milliseconds since 1970.
    pub date_ms: i64,
    /// The thread in which it is shown.
    pub thread: Option<MailThread>,
    /// Its text, which reads alone.
    pub text: String,
    /// The same as HTML.
    pub html: String,
    /// A PNG that the HTML shows as `cid:plot`.
    pub picture: Option<Vec<u8>>,
}

/// Letters about the same things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailThread {
    /// The same for all letters of the thread and for no other: of a deployment and a
    /// collection.
    pub id: String,
    /// The name of the collection.
    pub name: String,
}

/// A message, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposedMessage {
    /// Its Message-ID, in angle brackets.
    pub message_id: String,
    /// The message.
    pub bytes: Vec<u8>,
}

/// Why a letter is no message.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// An address that mail does not know.
    #[error("{address:?} is no address of mail")]
    Address {
        /// The address.
        address: String,
        /// The fault of it.
        #[source]
        source: AddressError,
    },
    /// The headers do not make a message.
    #[error("cannot compose the message")]
    Headers(#[source] lettre::error::Error),
}

impl Letter {
    /// The message of this letter: the same letter gives the same bytes.
    ///
    /// # Errors
    /// When an address is none.
    pub fn compose(&self) -> Result<ComposedMessage, ComposeError> {
        let from = address(&self.from)?;
        let to = address(&self.to)?;
        let domain = if from.domain().is_ascii() {
            from.domain().to_owned()
        } else {
            "neronet.invalid".to_owned()
        };
        let digest = digest("message", &[&self.key, &self.to]);
        let message_id = format!("<{digest}.neronet@{domain}>");
        let date = UNIX_EPOCH + Duration::from_millis(self.date_ms.try_into().unwrap_or(0));
        let mut builder = Message::builder()
            .from(Mailbox::new(Some(SENDER.to_owned()), from))
            .to(Mailbox::new(self.to_name.as_deref().map(one_line), to))
            .subject(subject(&self.subject))
            .date(date)
            .message_id(Some(message_id.clone()))
            .raw_header(raw("Auto-Submitted", "auto-generated".to_owned()));
        if let Some(thread) = &self.thread {
            // The id of a message that is never sent. All letters of the thread are its
            // answers, so none of them has to come first.
            let thread_id = digest_of_thread(thread, &self.to);
            let root = format!("<{thread_id}.neronet@{domain}>");
            let list = format!(
                "<{}.{}.neronet.{domain}>",
                label(&thread.name),
                &thread_id[..8]
            );
            builder = builder
                .in_reply_to(root.clone())
                .references(root)
                .raw_header(raw("List-Id", list));
        }
        let text = SinglePart::builder().header(ContentType::TEXT_PLAIN);
        let html = SinglePart::builder().header(ContentType::TEXT_HTML);
        let (text, html) = (text.body(self.text.clone()), html.body(self.html.clone()));
        let alternative = parts(MultiPartKind::Alternative, "a", &digest).singlepart(text);
        let body = match &self.picture {
            Some(png) => {
                let picture = Attachment::new_inline(PICTURE_ID.to_owned());
                let picture = picture.body(png.clone(), png_type());
                let related = parts(MultiPartKind::Related, "r", &digest);
                alternative.multipart(related.singlepart(html).singlepart(picture))
            }
            None => alternative.singlepart(html),
        };
        let message = builder.multipart(body).map_err(ComposeError::Headers)?;
        Ok(ComposedMessage {
            message_id,
            bytes: message.formatted(),
        })
    }
}

/// Parts with a boundary of our own: those of the library are random.
fn parts(kind: MultiPartKind, name: &str, digest: &str) -> MultiPart {
    let builder = MultiPart::builder().kind(kind);
    builder.boundary(format!("={name}={digest}")).build()
}

fn address(text: &str) -> Result<Address, ComposeError> {
    text.parse().map_err(|source| ComposeError::Address {
        address: text.to_owned(),
        source,
    })
}

fn png_type() -> ContentType {
    ContentType::parse("image/png").expect("a type of MIME")
}

fn raw(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value)
}

/// 32 digits that no other kind and parts give.
fn digest(kind: &str, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [kind].iter().chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn digest_of_thread(thread: &MailThread, to: &str) -> String {
    digest("thread", &[&thread.id, to])
}

/// One line without characters that could begin another header or act on a screen.
fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        c => c,
    };
    let text: String = text.chars().map(plain).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn subject(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(SUBJECT_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// A name as a label of a list id.
fn label(name: &str) -> String {
    const CHARS_MAX: usize = 40;
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let label: String = name.chars().map(plain).take(CHARS_MAX).collect();
    match label.trim_matches('-') {
        "" => "runs".to_owned(),
        label => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Letter {
        Letter {
            key: "crashed/7f3a/1".to_owned(),
            from: "neronet@example.org".to_owned(),
            to: "ada@example.org".to_owned(),
            to_name: None,
            subject: "digits: 144 crashed".to_owned(),
            date_ms: 1_790_000_000_000,
            thread: Some(MailThread {
                id: "deployment/digits".to_owned(),
                name: "digits".to_owned(),
            }),
            text: "144 crashed\n".to_owned(),
            html: "<p>144 crashed</p>\n".to_owned(),
            picture: Some(b"\x89PNG\r\n\x1a\n".to_vec()),
        }
    }

    fn text(letter: &Letter) -> String {
        String::from_utf8(letter.compose().unwrap().bytes).unwrap()
    }

    #[test]
    fn a_domain_in_another_script_is_one() {
        for (to, is_address) in [
            ("ada@b\u{fc}cher.example", true),
            ("ada@\u{4f8b}\u{3048}.example", true),
            ("ada@b\u{fc} cher.example", false),
        ] {
            let to = to.to_owned();
            let letter = Letter { to, ..letter() };
            assert_eq!(letter.compose().is_ok(), is_address, "{}", letter.to);
        }
    }

    /// The value of a header with its folds undone.
    fn header(text: &str, name: &str) -> Option<String> {
        let head = text.split("\r\n\r\n").next().unwrap().replace("\r\n ", " ");
        let values: Vec<String> = head
            .split("\r\n")
            .filter_map(|line| line.strip_prefix(&format!("{name}: ")))
            .map(str::to_owned)
            .collect();
        assert!(values.len() < 2, "{name} stands twice in\n{head}");
        values.into_iter().next()
    }

    #[test]
    fn the_same_letter_gives_the_same_bytes_and_every_other_another_id() {
        let composed = letter().compose().unwrap();
        assert_eq!(letter().compose().unwrap(), composed);
        let others = [
            Letter {
                key: "crashed/7f3a/2".to_owned(),
                ..letter()
            },
            Letter {
                to: "eve@example.org".to_owned(),
                ..letter()
            },
        ];
        for other in others {
            assert_ne!(other.compose().unwrap().message_id, composed.message_id);
        }
        let text = text(&letter());
        assert_eq!(header(&text, "Message-ID"), Some(composed.message_id));
        assert_eq!(
            header(&text, "Date").as_deref(),
            Some("Mon, 21 Sep 2026 14:13:20 +0000"),
            "of the event"
        );
    }

    #[test]
    fn letters_of_a_collection_are_one_thread_for_each_recipient() {
        let first = text(&letter());
        let second = text(&Letter {
            key: "other".to_owned(),
            ..letter()
        });
        let elsewhere = text(&Letter {
            thread: Some(MailThread {
                id: "deployment/x".to_owned(),
                name: "digits".to_owned(),
            }),
            ..letter()
        });
        for name in ["References", "In-Reply-To", "List-Id"] {
            assert!(header(&first, name).is_some(), "{name} in {first}");
            assert_eq!(header(&first, name), header(&second, name));
            assert_ne!(header(&first, name), header(&elsewhere, name));
        }
        assert_ne!(header(&first, "Message-ID"), header(&first, "References"));
        assert!(header(&first, "List-Id").unwrap().starts_with("<digits."));
        assert_eq!(
            header(&first, "Auto-Submitted").as_deref(),
            Some("auto-generated")
        );
    }

    #[test]
    fn nothing_in_a_name_or_subject_begins_a_header() {
        let hostile = "a\r\nBcc: eve@example.org\r\n\r\nbody\u{2028}\u{7}\0";
        let mut letter = Letter {
            subject: hostile.to_owned(),
            ..letter()
        };
        letter.to_name = Some(hostile.to_owned());
        letter.thread = Some(MailThread {
            id: hostile.to_owned(),
            name: hostile.to_owned(),
        });
        let text = text(&letter);
        let head = text.split("\r\n\r\n").next().unwrap();
        assert!(!head.contains("\r\nBcc"), "{head}");
        assert!(
            header(&text, "MIME-Version").is_some(),
            "the body begins where it should: {head}"
        );
        assert_eq!(
            header(&text, "Subject").as_deref(),
            Some("a Bcc: eve@example.org body")
        );
        assert!(
            head.bytes()
                .all(|byte| byte.is_ascii_graphic() || b" \r\n".contains(&byte))
        );
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        for bad in [
            "",
            "ada",
            "ada@example.org\r\nRCPT TO:<eve@example.org>",
            "a b@c",
        ] {
            let wrong = Letter {
                to: bad.to_owned(),
                ..letter()
            };
            assert!(
                matches!(wrong.compose(), Err(ComposeError::Address { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn every_address_that_the_configuration_takes_makes_a_message() {
        let long = format!("{}@example.org", "x".repeat(64));
        for address in [
            "a@localhost",
            "o'k+tag@a-b.example.org",
            "!#$%&*-/=?^_{|}~.x@example.org",
            "jörg@müller.example",
            "1@2.example",
            &long,
        ] {
            let text = format!("user: {{email: \"{address}\"}}\nmail: {{sendmail: /x}}\n");
            let config = nero_config::Config::parse("config.yaml".as_ref(), &text);
            let config = config.unwrap_or_else(|error| panic!("{error}"));
            let mut letter = letter();
            letter.from = config.mail.unwrap().from;
            letter.to = config.notify.to[0].clone();
            letter
                .compose()
                .unwrap_or_else(|error| panic!("{address}: {error}"));
        }
    }

    #[test]
    fn text_and_html_are_alternatives_and_the_picture_belongs_to_the_html() {
        let with = text(&letter());
        let kinds = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("Content-Type: "));
            lines
                .map(|kind| kind.split(';').next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(
            kinds(&with),
            [
                "multipart/alternative",
                "text/plain",
                "multipart/related",
                "text/html",
                "image/png"
            ]
        );
        assert!(with.contains("Content-ID: <plot>"), "{with}");
        let without = text(&Letter {
            picture: None,
            ..letter()
        });
        assert_eq!(
            kinds(&without),
            ["multipart/alternative", "text/plain", "text/html"]
        );
    }
}
