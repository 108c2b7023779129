//! `shell` and `exec`: a terminal on a node, over the connection that is open
//! already. The daemon returns the way; ssh runs in this terminal.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{LocateReply, LocateRequest};

use crate::args::{Exec, ShellOn};
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::session::Session;

/// Exit code of shells when the program does not exist.
const NO_PROGRAM: u8 = 127;
/// Exit code of shells when the program exists and cannot be run.
const NOT_RUNNABLE: u8 = 126;
/// The kernel accepts no longer word of a command line, here or there: 32 pages
/// less the zero at its end.
const WORD_BYTES_MAX: usize = 32 * 4096 - 1;

/// `exec RUN|NODE -- CMD`: exits as the command did. If both standard input and
/// output are a terminal here, the command gets one there, so that Ctrl-C
/// reaches it.
pub async fn run(session: &mut Session, args: &Exec) -> Result<u8, Stop> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let place = locate(session, &args.what, terminal).await?;
    go(session, &place, Some(&args.command)).await
}

/// `shell NODE|RUN`.
pub async fn shell(session: &mut Session, args: &ShellOn) -> Result<u8, Stop> {
    let place = locate(session, &args.what, true).await?;
    // Checked last: an unknown name is reported in every terminal.
    if !session.out.screen.tty || !session.out.screen.can_ask {
        return Err(Fault::usage("`shell` needs a terminal")
            .hint("neroman exec RUN|NODE -- CMD runs one command")
            .into());
    }
    go(session, &place, None).await
}

async fn locate(session: &mut Session, what: &str, terminal: bool) -> Result<LocateReply, Stop> {
    let asked = LocateRequest {
        what: what.to_owned(),
        terminal,
    };
    let place = session
        .call(CHANGE_DEADLINE, asked, ManClient::locate)
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
        if !place.folder.is_empty() && !Path::new(&place.folder).is_dir() {
            return Err(no_folder(place).into());
        }
        on_this_machine(place, command)
    } else {
        let line = remote_words(place, command);
        if line.len() > WORD_BYTES_MAX {
            return Err(too_long(line.len()).into());
        }
        words.push(line.into());
        let mut ssh = tokio::process::Command::new(&words[0]);
        ssh.args(&words[1..]);
        ssh
    };
    let away = !place.argv.is_empty();
    let ended = here.status().await.map_err(|error| match command {
        Some([program, ..]) if !away => not_started(place, program, &error),
        _ if away => Fault::failed("cannot start ssh").because(&error),
        _ => Fault::failed("cannot start a shell").because(&error),
    })?;
    // ssh exits with 255 when it fails itself, and when the command did so.
    if away && ended.code() == Some(255) && !is_connected(session, &place.node).await? {
        let fault = Fault::no_node(format!("the way to {} was lost", place.node));
        let hint = "what ran there may run on; `neroman status nodes` shows when it is tried next";
        return Err(fault.hint(hint).into());
    }
    Ok(exit_code(ended))
}

/// The error and exit code of a shell when the program does not start.
fn not_started(place: &LocateReply, program: &str, error: &io::Error) -> Fault {
    // The program starts in that folder. A script may exist there, and its
    // interpreter not.
    let is_there = program.contains('/') && Path::new(&place.folder).join(program).exists();
    match error.kind() {
        io::ErrorKind::NotFound if !is_there => no_program(place, program),
        io::ErrorKind::PermissionDenied => not_runnable(place, program),
        _ => Fault::new(NOT_RUNNABLE, format!("cannot start `{program}`")).because(error),
    }
}

fn no_program(place: &LocateReply, program: &str) -> Fault {
    let node = &place.node;
    let fault = Fault::new(
        NO_PROGRAM,
        format!("there is no program `{program}` on {node}"),
    );
    if program.contains('/') {
        return fault;
    }
    let line = format!("neroman exec {node} -- bash -lc '{program} …'");
    fault.hint(format!("give its whole path, or let a shell look: {line}"))
}

fn not_runnable(place: &LocateReply, program: &str) -> Fault {
    let what = format!("`{program}` on {} cannot be run", place.node);
    Fault::new(NOT_RUNNABLE, what).cause("it is a folder, or is not marked as executable")
}

fn no_folder(place: &LocateReply) -> Fault {
    let what = format!("the run's folder is not on {}", place.node);
    Fault::failed(what)
        .cause(format!("there is no folder {}", place.folder))
        .hint("it is made when the run starts, and goes with `neroman clean`")
}

fn too_long(bytes: usize) -> Fault {
    Fault::usage("the command line is too long")
        .cause(format!(
            "it takes {bytes} bytes on its way, and a system takes {WORD_BYTES_MAX}"
        ))
        .hint("give it as a file or by standard input: neroman exec NODE -- bash -s < FILE")
}

async fn is_connected(session: &mut Session, node: &str) -> Result<bool, Stop> {
    let reply = super::on_node::ask(session, false).await?;
    let mut nodes = reply.nodes.iter();
    Ok(nodes.any(|one| one.name == node && one.connected))
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

/// One line for the login shell of the other side, whichever it is: our script
/// stands in single quotes, and `/bin/sh` runs it.
fn remote_words(place: &LocateReply, command: Option<&[String]>) -> String {
    let mut script = String::new();
    if !place.folder.is_empty() {
        let folder = quoted(&place.folder);
        let fault = fails(&no_folder(place));
        script.push_str(&format!("cd {folder} 2>/dev/null || {fault}; "));
    }
    // This shell waits for the command, to turn the signal that ended it into a
    // code, and survives Ctrl-C. A login shell replaces this shell.
    match command {
        Some(words) => {
            let program = words.first().map_or("", String::as_str);
            script.push_str(&check(place, program));
            script.push_str("trap : INT QUIT; env");
        }
        None => script.push_str("exec env"),
    }
    for var in &place.env {
        let variable = format!("{}={}", var.name, var.value);
        script.push_str(&format!(" {}", quoted(&variable)));
    }
    match command {
        Some(words) => {
            for word in words {
                script.push_str(&format!(" {}", quoted(word)));
            }
            script.push_str("; exit $?");
        }
        None => script.push_str(" \"${SHELL:-/bin/sh}\" -l"),
    }
    // Plain bytes mean the same between single quotes of every login shell;
    // `printf` of any `/bin/sh` decodes octal escapes.
    let mut line = String::with_capacity(script.len());
    for byte in script.bytes() {
        match byte {
            b'\'' | b'\\' | b'!' => write!(line, "\\0{byte:03o}"),
            b' '..=b'~' => write!(line, "{}", char::from(byte)),
            _ => write!(line, "\\0{byte:03o}"),
        }
        .expect("a string takes any text");
    }
    format!("/bin/sh -c 'eval \"$(printf %b \"$1\")\"' sh '{line}'")
}

/// Words of `sh` that end the shell when it could not start the program: the
/// error of `env` would name a program that the user did not type.
fn check(place: &LocateReply, program: &str) -> String {
    let word = quoted(program);
    let missing = fails(&no_program(place, program));
    if !program.contains('/') {
        return format!(
            "(IFS=:; set -f; for d in $PATH; do d=${{d:-.}}/{word}; \
             test -f \"$d\" && test -x \"$d\" && exit 0; done; exit 1) || {missing}; "
        );
    }
    let stuck = fails(&not_runnable(place, program));
    format!("test -e {word} || {missing}; test -f {word} && test -x {word} || {stuck}; ")
}

/// Words of `sh` that print the fault and end the shell.
fn fails(fault: &Fault) -> String {
    let text = quoted(fault.text().trim_end());
    format!("{{ printf '%s\\n' {text} >&2; exit {}; }}", fault.exit_code)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The exit code as a shell gives it: the code, or 128 and the signal.
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

    /// The output of a login shell that runs the line.
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

    /// The exit code and the error text of a login shell that runs the line.
    fn failed(place: &LocateReply, words: &[&str]) -> (Option<i32>, String) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let out = std::process::Command::new("/bin/bash")
            .args(["-c", &remote_words(place, Some(&words))])
            .output()
            .expect("a shell");
        let said = String::from_utf8(out.stderr).expect("text");
        (out.status.code(), said)
    }

    #[test]
    fn a_program_that_does_not_start_is_said_as_shells_exit() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("it's"), "").expect("a file");
        let place = LocateReply {
            node: "h1".into(),
            folder: folder.path().display().to_string(),
            ..LocateReply::default()
        };
        let table = [
            (
                "no-such",
                127,
                "error: there is no program `no-such` on h1\nhint: ",
            ),
            ("A=b", 127, "error: there is no program `A=b` on h1\n"),
            ("-i", 127, "error: there is no program `-i` on h1\n"),
            ("", 127, "error: there is no program `` on h1\n"),
            ("./no", 127, "error: there is no program `./no` on h1\n"),
            ("./it's", 126, "error: `./it's` on h1 cannot be run\n"),
            ("/tmp", 126, "error: `/tmp` on h1 cannot be run\n"),
        ];
        for (program, want, begin) in table {
            let (code, said) = failed(&place, &[program, "x"]);
            assert_eq!(code, Some(want), "{program}: {said}");
            assert!(said.starts_with(begin), "{program}: {said}");
        }
        let gone = LocateReply {
            folder: "/no/such".into(),
            ..place
        };
        let (code, said) = failed(&gone, &["true"]);
        assert_eq!(code, Some(1), "{said}");
        let begin = "error: the run's folder is not on h1\n";
        assert!(said.starts_with(begin), "{said}");
    }

    #[test]
    fn a_script_without_its_interpreter_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("job"), "#!/no/such\n").expect("a file");
        let place = LocateReply {
            node: "local".into(),
            folder: folder.path().display().to_string(),
            ..LocateReply::default()
        };
        let error = io::Error::from(io::ErrorKind::NotFound);
        for (program, want) in [("./job", NOT_RUNNABLE), ("./no", NO_PROGRAM)] {
            let fault = not_started(&place, program, &error);
            assert_eq!(fault.exit_code, want, "{}", fault.text());
        }
    }

    #[test]
    fn a_long_line_travels_nearly_as_it_is() {
        let word = "x".repeat(120_000);
        let words = ["/bin/echo".to_owned(), word.clone()];
        let line = remote_words(&LocateReply::default(), Some(&words));
        assert!(line.len() <= WORD_BYTES_MAX, "{}", line.len());
        assert_eq!(ran("/bin/sh", &line), format!("{word}\n"));
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
