//! `shell` and `exec`: a person at a node, over the way that is open already.
//! The daemon says how to get there; ssh runs in this terminal.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nero_wire::v1::{LocateReply, LocateRequest, NodesRequest};

use crate::args::{Exec, ShellOn};
use crate::connect::{CHANGE_DEADLINE, READ_DEADLINE};
use crate::fault::{Fault, Stop, code};
use crate::session::Session;

/// `exec RUN|NODE -- CMD`: exits as the command did. Where a person sits at
/// both ends of it, it gets a terminal there, so that Ctrl-C reaches it.
pub async fn run(session: &mut Session, args: &Exec) -> Result<u8, Stop> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let place = locate(session, &args.what, terminal).await?;
    go(session, &place, Some(&args.command)).await
}

/// `shell NODE|RUN`.
pub async fn shell(session: &mut Session, args: &ShellOn) -> Result<u8, Stop> {
    if !session.out.screen.tty || !session.out.screen.can_ask {
        return Err(Fault::usage("`shell` needs a terminal")
            .hint("neroman exec RUN|NODE -- CMD runs one command")
            .into());
    }
    let place = locate(session, &args.what, true).await?;
    go(session, &place, None).await
}

async fn locate(session: &mut Session, what: &str, terminal: bool) -> Result<LocateReply, Stop> {
    let asked = LocateRequest {
        what: what.to_owned(),
        terminal,
    };
    let client = session.client().await?;
    let place = client
        .call(CHANGE_DEADLINE, asked, async |man, request| {
            man.locate(request).await
        })
        .await?;
    if !place.note.is_empty() {
        session.out.note(&format!("note: {}", place.note));
    }
    Ok(place)
}

async fn go(
    session: &mut Session,
    place: &LocateReply,
    command: Option<&[String]>,
) -> Result<u8, Stop> {
    let mut words = os_words(&place.argv);
    let mut here = if words.is_empty() {
        on_this_machine(place, command)
    } else {
        words.push(remote_words(place, command).into());
        let mut ssh = tokio::process::Command::new(&words[0]);
        ssh.args(&words[1..]);
        ssh
    };
    let away = !place.argv.is_empty();
    let ended = here.status().await.map_err(|error| {
        let what = if away {
            "cannot start ssh"
        } else {
            "cannot start the command"
        };
        Fault::new(code::FAILED, what).because(&error)
    })?;
    // ssh says by 255 that it failed itself, or that the command ended so.
    if away && ended.code() == Some(255) && !is_connected(session, &place.node).await? {
        return Err(
            Fault::new(code::NO_NODE, format!("the way to {} was lost", place.node))
                .hint(
                    "what ran there may run on; `neroman status nodes` says when it is tried next",
                )
                .into(),
        );
    }
    Ok(exit_code(ended))
}

async fn is_connected(session: &mut Session, node: &str) -> Result<bool, Stop> {
    let client = session.client().await?;
    let reply = client
        .call(
            READ_DEADLINE,
            NodesRequest::default(),
            async |man, request| man.nodes(request).await,
        )
        .await?;
    Ok(reply
        .nodes
        .iter()
        .any(|one| one.name == node && one.connected))
}

fn on_this_machine(place: &LocateReply, command: Option<&[String]>) -> tokio::process::Command {
    let mut here = match command {
        Some([program, rest @ ..]) => {
            let mut here = tokio::process::Command::new(program);
            here.args(rest);
            here
        }
        Some([]) | None => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            tokio::process::Command::new(shell)
        }
    };
    if !place.folder.is_empty() {
        here.current_dir(&place.folder);
    }
    for var in &place.env {
        here.env(&var.name, &var.value);
    }
    here
}

/// One line for the shell of the other side, whichever it is: everything of
/// ours stands in single quotes, and `/bin/sh` reads it.
fn remote_words(place: &LocateReply, command: Option<&[String]>) -> String {
    let mut script = String::new();
    if !place.folder.is_empty() {
        script.push_str(&format!("cd {} && ", quoted(&place.folder)));
    }
    // This shell waits for a command, to turn the signal that ended it into
    // a code, and does not end with it at Ctrl-C. A login shell takes its place.
    script.push_str(match command {
        Some(_) => "{ trap : INT QUIT; env",
        None => "exec env",
    });
    for var in &place.env {
        script.push_str(&format!(
            " {}",
            quoted(&format!("{}={}", var.name, var.value))
        ));
    }
    match command {
        Some(words) => {
            for word in words {
                script.push_str(&format!(" {}", quoted(word)));
            }
            script.push_str("; exit $?; }");
        }
        None => script.push_str(" \"${SHELL:-/bin/sh}\" -l"),
    }
    // Hexadecimal digits mean the same to every login shell; `printf` of any
    // `/bin/sh` turns octal escapes back.
    let octal: String = script
        .bytes()
        .map(|byte| format!("\\0{byte:03o}"))
        .collect();
    format!("/bin/sh -c 'eval \"$(printf %b \"$1\")\"' sh '{octal}'")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// What a shell would give: the code, or 128 and the signal.
fn exit_code(ended: ExitStatus) -> u8 {
    let code = ended
        .code()
        .unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(code::FAILED)
}

/// Words of the daemon as the system takes them.
pub fn os_words(words: &[Vec<u8>]) -> Vec<OsString> {
    words.iter().cloned().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_wire::v1::EnvVar;

    /// What a login shell makes of the line.
    fn ran(shell: &str, line: &str) -> String {
        let out = std::process::Command::new(shell)
            .args(["-c", line])
            .output()
            .expect("a shell");
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).expect("text")
    }

    #[test]
    fn words_arrive_as_they_were_typed() {
        let folder = tempfile::Builder::new()
            .prefix("a b'c$d")
            .tempdir()
            .expect("a folder");
        let place = LocateReply {
            folder: folder.path().display().to_string(),
            env: vec![EnvVar {
                name: "NERO_RUN".into(),
                value: "1.1 'x' $(y)".into(),
                ..EnvVar::default()
            }],
            ..LocateReply::default()
        };
        let odd = ["a  b", "'", "$HOME", "`x`", "*", "\\n", "é\n!", ""].map(str::to_owned);
        let mut command: Vec<String> = ["/bin/sh", "-c"].map(str::to_owned).to_vec();
        command.push("pwd; printf '%s\\n' \"$NERO_RUN\" \"$@\"".into());
        command.push("sh".into());
        command.extend(odd.iter().cloned());
        let line = remote_words(&place, Some(&command));
        for shell in ["/bin/sh", "/bin/bash"] {
            let said = ran(shell, &line);
            let want = format!("{}\n1.1 'x' $(y)\n{}\n", place.folder, odd.join("\n"));
            assert_eq!(said, want, "{shell}");
        }
    }

    #[test]
    fn a_signal_that_ends_the_command_is_a_code() {
        let words = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned);
        for (script, want) in [("kill -TERM $$", 143), ("exit 7", 7), ("exit 0", 0)] {
            let line = remote_words(&LocateReply::default(), Some(&words(script)));
            let ended = std::process::Command::new("/bin/bash")
                .args(["-c", &line])
                .stderr(std::process::Stdio::null())
                .status()
                .expect("a shell");
            assert_eq!(ended.code(), Some(want), "{script}");
        }
    }
}
