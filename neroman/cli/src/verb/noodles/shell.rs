//! Shell lines of a flow, built as the original builds them, and short processes that are asked
//! something: probes and texts with variables in them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_noodles::NoodlesSpec;
use rustix::process::{Pid, Signal, kill_process_group};

/// Most bytes of an output that count.
pub const OUTPUT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Most that a probe writes into a file, in blocks of 512 bytes: one that prints without end would fill
/// the disk within its limit of time.
const BLOCKS_MAX: u32 = 128 * 1024;

/// Where the streams of a shell go.
#[derive(Debug, Clone)]
pub struct Streams {
    /// The script that the shell reads.
    pub script: PathBuf,
    /// Standard output: a path as the shell's line has it.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether the files keep what they have.
    pub append: bool,
}

impl Streams {
    /// Files of this name with endings of their own, but for outputs that have other `paths`.
    pub fn new(name: &Path, paths: &[Option<String>; 2], append: bool) -> Self {
        let file = |path: &Option<String>, extension: &str| match path {
            Some(path) => path.clone(),
            None => name.with_extension(extension).display().to_string(),
        };
        Self {
            script: name.with_extension("in"),
            stdout: file(&paths[0], "out"),
            stderr: file(&paths[1], "err"),
            append,
        }
    }
}

/// The line that runs a script at an endpoint: the original's.
pub fn line(spec: &NoodlesSpec, endpoint: &str, streams: &Streams) -> String {
    let sign = if streams.append { ">>" } else { ">" };
    let script = streams.script.display();
    format!(
        "{} \"{endpoint} '{}' < '{script}' {sign} '{}' 2{sign} '{}'\"",
        spec.shell_string, spec.shell_stdin, streams.stdout, streams.stderr,
    )
}

/// A text as one word of a shell's line.
pub fn quote_word(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in text {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Lines that export variables. A name that no shell can export is left out.
pub fn exports(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in variables {
        let is_name = |text: &str| {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            text.chars().all(part) && !text.starts_with(|c: char| c.is_ascii_digit())
        };
        let Some(name) = name.to_str().filter(|name| is_name(name)) else {
            continue;
        };
        // The shell's own.
        if ["", "_", "PWD", "OLDPWD", "SHLVL", "PPID", "UID", "EUID"].contains(&name) {
            continue;
        }
        lines.extend(b"export ");
        lines.extend(name.as_bytes());
        lines.push(b'=');
        lines.extend(quote_word(value.as_bytes()));
        lines.push(b'\n');
    }
    lines
}

/// How a shell ended.
#[derive(Debug, Clone)]
pub struct ShellEnd {
    /// Its exit code; negative: the signal that ended it.
    pub code: i32,
    /// What the script printed.
    pub stdout: String,
    /// What it printed on standard error.
    pub stderr: String,
    /// What the line itself printed, as of a file that cannot be made.
    pub outer: String,
}

/// A shell that is asked something.
#[derive(Debug, Clone)]
pub struct Question {
    /// The line.
    pub line: String,
    /// Its streams.
    pub streams: Streams,
    /// What the script's file gets.
    pub text: String,
    /// Variables of the line's own environment.
    pub env: Vec<(String, String)>,
}

/// Asks.
///
/// # Errors
/// A file or process cannot be made. [`io::ErrorKind::TimedOut`]: it took longer than the limit.
pub async fn ask(question: &Question, limit: Duration) -> io::Result<ShellEnd> {
    let streams = &question.streams;
    fs::write(&streams.script, &question.text)?;
    let outer = streams.script.with_extension("outer");
    let plain = |(name, _): &&(String, String)| !name.is_empty() && !name.contains(['=', '\0']);
    let env = question.env.iter().filter(plain);
    // A lower limit of the caller's stays.
    let line = format!("ulimit -f {BLOCKS_MAX} 2>/dev/null; {}", question.line);
    let mut child = tokio::process::Command::new("/bin/sh")
        .args(["-c", &line])
        .envs(env.map(|(name, value)| (name, value.replace('\0', ""))))
        // No question for a password: nobody sees it.
        .env("SSH_ASKPASS_REQUIRE", "force")
        .env("SSH_ASKPASS", "/bin/false")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&outer)?)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let asked = AskedProcesses::of(&child);
    let ended = tokio::time::timeout(limit, child.wait()).await;
    let ended = ended.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    // What a probe leaves behind on purpose goes on.
    std::mem::forget(asked);
    let signal = ended.signal().map(|signal| -signal);
    Ok(ShellEnd {
        code: ended.code().or(signal).unwrap_or(-1),
        stdout: text(Path::new(&streams.stdout), 0)?,
        stderr: text(Path::new(&streams.stderr), 0)?,
        outer: text(&outer, 0)?,
    })
}

/// The processes of a question whose answer nobody waits for any more: they end with it.
struct AskedProcesses(Option<Pid>);

impl AskedProcesses {
    fn of(child: &tokio::process::Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for AskedProcesses {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails only where they have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A file from this byte on, not more than [`OUTPUT_BYTES_MAX`]. Bytes that are no text are replaced.
pub fn text(path: &Path, from: u64) -> io::Result<String> {
    use std::io::{Seek as _, SeekFrom};
    let mut file = match File::open(path) {
        Ok(file) => file,
        // The shell that would have made it did not come so far.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
