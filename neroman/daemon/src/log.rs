//! The daemon's log: one file of bounded size, with the one before it. Of warnings
//! and errors that repeat, a node's among them, few are written and the rest are
//! counted: what one node sends does not push everything else out of the log.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// A log that reaches this is renamed to `….1` and begun anew.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How many warnings or errors of one place in the code, about one node, are
/// written within [`WINDOW`].
const ALIKE_MAX: u32 = 20;
/// See [`ALIKE_MAX`].
const WINDOW: Duration = Duration::from_secs(60);
/// How many characters of a left-out line are shown beside the count.
const SHOWN_CHARS: usize = 160;

/// Sends what the daemon traces to its log.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn begin(path: &Path) -> io::Result<()> {
    let log = BoundedLog::open(path)?;
    let filter = EnvFilter::try_from_env("NERONET_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,h2=warn,hyper=warn,tonic=warn"));
    // A second daemon in one process (a test) keeps the log of the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(log)
        // tracing would report a failed write on standard error, which is this
        // file, too: on a full disk that would panic in the task that logs.
        .log_internal_errors(false)
        .try_init();
    Ok(())
}

#[derive(Debug)]
struct BoundedLog {
    path: PathBuf,
    held: Mutex<LogFile>,
}

#[derive(Debug)]
struct LogFile {
    file: File,
    written: u64,
    /// Whether the disk had no room for the end of the last event.
    cut: bool,
    alike: HashMap<LineSource, Tally>,
}

/// Lines that are counted together: of one place in the code, about one node.
type LineSource = (Identifier, String);

/// The counts of such lines since a moment.
#[derive(Debug)]
struct Tally {
    since: Instant,
    written: u32,
    left_out: u64,
    /// The text of the first line that was left out.
    shown: String,
}

impl LogFile {
    /// Whether one more line may be written.
    fn admit(&mut self, alike: LineSource, line: &str, now: Instant) -> bool {
        let tally = self.alike.entry(alike).or_insert_with(|| Tally {
            since: now,
            written: 0,
            left_out: 0,
            shown: String::new(),
        });
        if tally.written < ALIKE_MAX {
            tally.written += 1;
            return true;
        }
        if tally.left_out == 0 {
            // The text without its time.
            let text = line.split_once(' ').map_or(line, |(_, text)| text);
            tally.shown = text.trim().chars().take(SHOWN_CHARS).collect();
        }
        tally.left_out += 1;
        false
    }

    /// Forgets counts older than [`WINDOW`]; returns a line for each place with
    /// left-out lines, with the time of the line that is written next.
    fn left_out(&mut self, next: &str, now: Instant) -> String {
        let mut lines = String::new();
        let at = next.split(' ').next().unwrap_or("");
        self.alike.retain(|_, tally| {
            let is_over = now.duration_since(tally.since) >= WINDOW;
            if is_over && tally.left_out > 0 {
                let (count, shown) = (tally.left_out, &tally.shown);
                lines.push_str(&format!(
                    "{at}  WARN {count} more lines like this one were left out: {shown}\n"
                ));
            }
            !is_over
        });
        lines
    }
}

/// The node in a line's `node` field.
fn node_of(line: &str) -> String {
    let after = line.split_once(" node=\"").map(|(_, after)| after);
    let name = after.and_then(|after| after.split('"').next());
    name.unwrap_or_default().to_owned()
}

impl BoundedLog {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        let written = file.metadata()?.len();
        Ok(Self {
            path: path.to_path_buf(),
            held: Mutex::new(LogFile {
                file,
                written,
                cut: false,
                alike: HashMap::new(),
            }),
        })
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Writes one event; the event is lost if there is no room.
#[derive(Debug)]
pub(crate) struct LogLine<'a> {
    log: &'a BoundedLog,
    /// The place in the code of a warning or an error.
    from: Option<Identifier>,
}

impl Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self
            .log
            .held
            .lock()
            .map_err(|_| io::Error::other("a writer of the log panicked"))?;
        let (line, now) = (String::from_utf8_lossy(bytes), Instant::now());
        let left_out = held.left_out(&line, now);
        if !left_out.is_empty() {
            self.log.append(&mut held, left_out.as_bytes())?;
        }
        if let Some(from) = &self.from
            && !held.admit((from.clone(), node_of(&line)), &line, now)
        {
            return Ok(bytes.len());
        }
        self.log.append(&mut held, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BoundedLog {
    fn append(&self, held: &mut LogFile, bytes: &[u8]) -> io::Result<()> {
        if held.written + bytes.len() as u64 > LOG_BYTES_MAX {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            std::fs::rename(&self.path, older)?;
            held.file = append_to(&self.path)?;
            held.written = 0;
        }
        if held.cut {
            held.file.write_all(b"\n")?;
        }
        let written = held.file.write_all(bytes);
        held.cut = written.is_err();
        held.written += bytes.len() as u64;
        written
    }
}

impl<'a> MakeWriter<'a> for BoundedLog {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine {
            log: self,
            from: None,
        }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> LogLine<'a> {
        let repeats = matches!(*meta.level(), Level::WARN | Level::ERROR);
        LogLine {
            log: self,
            from: repeats.then(|| meta.callsite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_never_grows_beyond_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let log = BoundedLog::open(&path).unwrap();
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..20 {
            log.make_writer().write_all(&line).unwrap();
        }
        assert!(path.metadata().unwrap().len() <= LOG_BYTES_MAX);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// The content of the log after `work` wrote to it.
    fn logged(log: BoundedLog, work: impl FnOnce()) -> String {
        let path = log.path.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(log)
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_node_that_sends_nonsense_without_end_leaves_room_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let log = BoundedLog::open(&folder.path().join("daemon.log")).unwrap();
        let nonsense = |node: &str| tracing::warn!(node, "no part of a segment");
        let text = logged(log, || {
            for _ in 0..10_000 {
                nonsense("bad");
            }
            nonsense("good");
            for _ in 0..100 {
                tracing::info!("a transition");
            }
        });
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!(count("node=\"bad\""), ALIKE_MAX as usize);
        assert_eq!(count("node=\"good\""), 1);
        assert_eq!(
            count("a transition"),
            100,
            "what does not warn is not counted"
        );
    }

    #[test]
    fn lines_that_were_left_out_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let log = BoundedLog::open(&folder.path().join("daemon.log")).unwrap();
        let mut held = log.held.into_inner().unwrap();
        struct TestCallsite;
        impl tracing::callsite::Callsite for TestCallsite {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                unreachable!("nobody asks")
            }
        }
        static HERE: TestCallsite = TestCallsite;
        let from = Identifier(&HERE);
        let line = "2026-01-02T03:04:05Z  WARN no part of a segment node=\"bad\"\n";
        let now = Instant::now();
        for count in 0..100 {
            let admitted = held.admit((from.clone(), node_of(line)), line, now);
            assert_eq!(admitted, count < ALIKE_MAX);
        }
        assert_eq!(held.left_out(line, now), "");
        let said = held.left_out("2026-01-02T03:05:05Z  INFO later\n", now + WINDOW);
        assert_eq!(
            said,
            "2026-01-02T03:05:05Z  WARN 80 more lines like this one were left out: \
             WARN no part of a segment node=\"bad\"\n"
        );
    }
}
