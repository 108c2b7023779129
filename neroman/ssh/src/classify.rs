//! Finds out from the output of `ssh` why there is no connection.
//!
//! `ssh` runs with `LogLevel=DEBUG1`: its notes (`debug1: …`) name the keys that
//! it offered and the host key that it saw; the other lines name the failure.
//! The far side can add lines of its own (a banner), so nothing here decides
//! about safety: a forged line leads to a wrong explanation at worst.

use crate::error::{SecretKind, Trouble};
use crate::settings::Settings;

#[cfg(test)]
mod tests;

/// Keys named in a message.
const KEYS_SHOWN: usize = 6;

/// Reason why `ssh` ended, read from its standard error.
pub fn classify(stderr: &[u8], status: &str, settings: &Settings) -> Trouble {
    let text = String::from_utf8_lossy(stderr);
    let notes = Notes::read(&text);
    let lines = text.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.is_empty() && !is_note(line));
    let lines: Vec<&str> = lines.collect();
    if let Some(by) = settings.by_way_of()
        && notes.host_key.is_none()
        && lines.iter().any(|line| proxy_ended(line))
    {
        let before = lines.iter().copied().filter(|line| !proxy_ended(line));
        let before: Vec<&str> = before.collect();
        let trouble = judge(&before, &Notes::default(), status);
        // The way through the jump host is open; the host behind it refuses.
        if before.contains(&"stdio forwarding failed") {
            return trouble;
        }
        return Trouble::Jump {
            by: by.to_owned(),
            trouble: Box::new(trouble),
        };
    }
    judge(&lines, &notes, status)
}

/// The proxy command ended before the host sent anything.
fn proxy_ended(line: &str) -> bool {
    line.ends_with("UNKNOWN port 65535") || line.starts_with("kex_exchange_identification:")
}

fn is_note(line: &str) -> bool {
    let mut marks = ["debug1: ", "debug2: ", "debug3: "].iter();
    marks.any(|mark| line.starts_with(mark))
}

/// Facts from the notes of `ssh`.
#[derive(Debug, Default)]
struct Notes {
    /// Kind and fingerprint.
    host_key: Option<(String, String)>,
    /// Keys that were offered, with file or comment and fingerprint.
    keys: Vec<String>,
    accepted: bool,
    partial: bool,
}

impl Notes {
    fn read(text: &str) -> Self {
        let mut notes = Self::default();
        for line in text.lines() {
            let Some(note) = line.strip_prefix("debug1: ").map(str::trim_end) else {
                notes.partial |= line.contains("with partial success");
                continue;
            };
            if let Some(key) = note.strip_prefix("Server host key: ") {
                if let Some((kind, print)) = key.split_once(' ') {
                    notes.host_key = Some((kind.to_owned(), print.to_owned()));
                }
            } else if let Some(key) = note.strip_prefix("Offering public key: ") {
                let key = key.to_owned();
                if !notes.keys.contains(&key) && notes.keys.len() < KEYS_SHOWN {
                    notes.keys.push(key);
                }
            } else if note.starts_with("Server accepts key: ") {
                notes.accepted = true;
            }
        }
        notes
    }
}

fn judge(lines: &[&str], notes: &Notes, status: &str) -> Trouble {
    let said = || lines.join("\n").into_bytes();
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    let (kind, fingerprint) = notes.host_key.clone().unzip();
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return changed(lines, kind, fingerprint);
    }
    if has("REVOKED HOST KEY DETECTED") || has("is revoked and you have requested") {
        return Trouble::HostKeyRevoked { said: said() };
    }
    if has("Host key verification failed.") || has("host key is known for") {
        return Trouble::HostKeyUnknown { kind, fingerprint };
    }
    if has("Too many authentication failures") {
        return Trouble::TooManyKeys {
            keys: notes.keys.clone(),
        };
    }
    if lines.iter().any(|line| is_unread_key(line)) {
        return Trouble::Ended {
            status: status.to_owned(),
            said: said(),
        };
    }
    if let Some(methods) = lines.iter().rev().find_map(|line| offered(line)) {
        return denied(methods, lines, notes);
    }
    if has("Could not resolve hostname") || has("no address associated with name") {
        return Trouble::NoSuchHost { said: said() };
    }
    if has("timed out") || has("Timeout, server") {
        return Trouble::NoAnswer { said: said() };
    }
    let unreachable = [
        "Connection refused",
        "No route to host",
        "Network is unreachable",
        "Network is down",
        "Host is down",
        "stdio forwarding failed",
    ];
    if unreachable.into_iter().any(has) {
        return Trouble::Unreachable { said: said() };
    }
    if has("kex_exchange_identification:") || has("ssh_exchange_identification:") {
        return Trouble::HungUp { said: said() };
    }
    if has("Bad configuration option")
        || has("bad configuration options")
        || has("Bad owner or permissions on")
    {
        return Trouble::Settings { said: said() };
    }
    Trouble::Ended {
        status: status.to_owned(),
        said: said(),
    }
}

/// The disk of a key did not answer, and may the next time: no person has to act.
fn is_unread_key(line: &str) -> bool {
    let failures = [
        "Input/output error",
        "Stale file handle",
        "Remote I/O error",
        "Transport endpoint is not connected",
    ];
    line.starts_with("Load key ") && failures.iter().any(|failure| line.ends_with(failure))
}

/// `publickey,password` of `me@host: Permission denied (publickey,password).`
fn offered(line: &str) -> Option<&str> {
    line.split_once(": Permission denied (")?
        .1
        .strip_suffix(").")
}

fn denied(methods: &str, lines: &[&str], notes: &Notes) -> Trouble {
    let (methods, keys) = (methods.to_owned(), notes.keys.clone());
    let is_typed = |method| matches!(method, "password" | "keyboard-interactive");
    let typed = methods.split(',').any(is_typed);
    let refused = |line: &&str| line.starts_with("sign_and_send_pubkey: signing failed");
    let agent = lines.iter().any(refused);
    let need = if notes.partial {
        SecretKind::SecondFactor
    } else if agent {
        SecretKind::Agent
    } else if notes.accepted {
        SecretKind::Unlock
    } else if typed {
        SecretKind::Password
    } else {
        return Trouble::Refused { methods, keys };
    };
    Trouble::NeedsPerson {
        need,
        methods,
        keys,
    }
}

/// The report of a changed host key, as `ssh` prints it over many lines.
fn changed(lines: &[&str], kind: Option<String>, fingerprint: Option<String>) -> Trouble {
    let after = |part: &str| {
        let at = lines.iter().position(|line| line.contains(part))?;
        lines.get(at + 1).map(|line| line.trim().to_owned())
    };
    let fingerprint = fingerprint.or_else(|| {
        after("key sent by the remote host is").map(|print| print.trim_end_matches('.').to_owned())
    });
    let place = lines.iter().find_map(|line| {
        let (head, place) = line.split_once(" key in ")?;
        head.starts_with("Offending ").then(|| place.to_owned())
    });
    Trouble::HostKeyChanged {
        kind,
        fingerprint,
        place,
        forget: after("remove with:").filter(|line| line.starts_with("ssh-keygen ")),
    }
}
