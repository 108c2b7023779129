//! What is kept of a flow: its spec, its journal, and the files of its groups.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nero_format::python::list_text;
use nero_format::shell_word;
use nero_model::RequestId;
use nero_noodles::{Diagnostic, NoodlesSpec, Severity, place};
use serde_json::{Value, json};

use super::drive::{Drive, make_folder};
use super::journal::FlowJournal;
use super::log::Log;
use super::{caller, understood};
use crate::args::Noodles;
use crate::fault::{Fault, Stop, code};
use crate::say::table::{self, Cell, Column};
use crate::session::{InterruptNotice, Session, home};

/// A flow that was asked for.
pub struct AskedFlow<'a> {
    pub command_type: &'a str,
    pub path: &'a str,
    pub only: Option<Vec<String>>,
    pub text: &'a str,
}

/// A flow as its folder has it.
#[derive(Debug)]
pub struct KeptFlow {
    id: [u8; 8],
    root: PathBuf,
    /// The command type.
    pub command_type: String,
    /// The spec's path as it was typed.
    pub spec_path: String,
    only: Option<Vec<String>>,
    /// The folder in which local commands start.
    pub folder: PathBuf,
    started_ms: u64,
}

impl KeptFlow {
    /// When it began.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.started_ms)
    }

    /// The spec as it was typed, with the names of experiments.
    pub fn spec_word(&self) -> String {
        match &self.only {
            Some(names) => format!("{}:{}", self.spec_path, names.join(",")),
            None => self.spec_path.clone(),
        }
    }

    /// The folder of its groups' files.
    pub fn groups(&self) -> PathBuf {
        self.root.join("groups")
    }

    /// What commands have of the caller, as lines of a shell.
    pub fn env(&self) -> PathBuf {
        self.root.join("env")
    }

    /// What of that they cannot have.
    pub fn refused(&self) -> PathBuf {
        self.root.join("refused")
    }

    /// The folder of the experiment whose runs its groups are.
    pub fn source(&self) -> PathBuf {
        self.root.join("noodles")
    }

    /// The name of that experiment.
    pub fn experiment(&self) -> String {
        format!("flow_{}", hex(&self.id))
    }

    /// What goes on with it.
    pub fn resume(&self) -> String {
        format!("`neroman noodles --resume {}`", hex(&self.id))
    }

    /// The id of the request for a group: the daemon answers one once.
    pub fn request(&self, group: u64) -> Vec<u8> {
        [self.id, group.to_be_bytes()].concat()
    }

    fn new(id: [u8; 8], asked: &AskedFlow<'_>) -> Result<Self, Fault> {
        let folder = std::env::current_dir()
            .map_err(|error| Fault::usage("cannot tell the present folder").because(&error))?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(Self {
            id,
            root: root(&hex(&id))?,
            command_type: asked.command_type.to_owned(),
            spec_path: asked.path.to_owned(),
            only: asked.only.clone(),
            folder,
            started_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Makes its folder. `flow.json` comes last: without it there is no flow. Its groups take so
    /// little of a processor that none waits for one.
    fn write(&self, text: &str) -> Result<(), Fault> {
        // It stands within quotes in the original's lines.
        let odd = ['\'', '"', '$', '`', '\\', '\n'];
        let is_plain = self.root.to_str().is_some_and(|root| !root.contains(odd));
        for (path, fits) in [
            (&self.root, is_plain),
            (&self.folder, self.folder.to_str().is_some()),
        ] {
            if !fits {
                let what = format!("cannot run a flow in {}", path.display());
                let cause = "its name is no text, or has signs that mean something to a shell";
                return Err(Fault::failed(what).cause(cause));
            }
        }
        make_folder(&self.groups())?;
        make_folder(&self.source())?;
        let go = self.root.join("go");
        let command = format!("env -i /bin/sh {} {{group}}", in_command(&go)?);
        let description = format!(
            "# A flow of `neroman noodles`: each run is a group of its commands.\n+{}:\n  \
             command: {}\n  parameters: {{group: 0}}\n  monitor: {{strays: leave}}\n  \
             resources: {{cpus: 0.0000001}}\n  retry: 0\n  on_timeout: end\n  setup: []\n",
            self.experiment(),
            Value::from(command),
        );
        let flow = json!({
            "version": 2,
            "type": self.command_type,
            "spec": self.spec_path,
            "only": self.only,
            "folder": self.folder.to_str(),
            "started_ms": self.started_ms,
        });
        private(&self.root.join("spec"), text.as_bytes())?;
        private(&go, b". \"${0%/*}/groups/$1.sh\"\n")?;
        private(&self.source().join("neronet.yaml"), description.as_bytes())?;
        private(&self.root.join("flow.json"), flow.to_string().as_bytes())
    }

    fn read(id: &str) -> Result<(Self, String), Fault> {
        let none = || {
            Fault::usage(format!("there is no flow `{id}`"))
                .hint("`neroman noodles --resume` lists them")
        };
        let number = u64::from_str_radix(id, 16).ok().filter(|_| id.len() == 16);
        let root = root(id)?;
        let read = |name: &str| fs::read_to_string(root.join(name));
        let (Some(number), Ok(flow)) = (number, read("flow.json")) else {
            return Err(none());
        };
        let flow: Value = serde_json::from_str(&flow).map_err(|error| none().because(&error))?;
        if flow["version"] != json!(2) {
            return Err(none().cause("it was made by another version"));
        }
        let spec = read("spec").map_err(|error| none().because(&error))?;
        let text = |key: &str| flow[key].as_str().unwrap_or_default().to_owned();
        let only = flow["only"].as_array().map(|names| {
            let names = names.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        });
        let kept = Self {
            id: number.to_be_bytes(),
            command_type: text("type"),
            spec_path: text("spec"),
            only,
            folder: text("folder").into(),
            started_ms: flow["started_ms"].as_u64().unwrap_or_default(),
            root,
        };
        Ok((kept, spec))
    }
}

/// Begins a flow.
///
/// # Errors
/// As of its end, or its folder cannot be made.
pub async fn begin(
    session: &mut Session,
    args: &Noodles,
    asked: &AskedFlow<'_>,
    spec: &NoodlesSpec,
    findings: &[Diagnostic],
) -> Result<u8, Stop> {
    let log = log(args);
    if args.verbose {
        log.line("root", "WARNING", "Verbose logging is on");
    }
    if args.debug {
        log.line("root", "WARNING", "Debug logging is on");
    }
    if let Some(names) = &asked.only {
        let text = format!("Filtered experiments: {}", list_text(names));
        log.line("root", "INFO", &text);
    }
    for finding in findings {
        let at = finding.mark.map_or_else(
            || asked.path.to_owned(),
            |mark| place(asked.path, mark.line, mark.column),
        );
        let text = format!("{} ({at})", finding.message);
        match finding.severity {
            Severity::Never | Severity::Warning => log.warning(&text),
            Severity::Differs => log.verbose(&text),
        }
    }
    let mut id = [0; 8];
    id.copy_from_slice(&RequestId::random().as_bytes()[..8]);
    let kept = KeptFlow::new(id, asked)?;
    kept.write(asked.text)?;
    if args.detach {
        return detached(session, args, &kept);
    }
    follow(session, args, &kept, spec, log).await
}

/// Goes on with a flow.
///
/// # Errors
/// As of its end, or there is no such flow.
pub async fn resume(session: &mut Session, args: &Noodles, id: &str) -> Result<u8, Stop> {
    let (kept, text) = KeptFlow::read(id)?;
    let path = kept.folder.join(&kept.spec_path);
    if fs::read_to_string(&path).is_ok_and(|now| now != text) {
        session.out.note(&format!(
            "note: {} has changed since; the flow goes on as it began. Its copy is {}",
            kept.spec_path,
            kept.root.join("spec").display()
        ));
    }
    if args.detach {
        return detached(session, args, &kept);
    }
    if args.own_session {
        // Fails only for the leader of a group, which has a session already.
        let _ = rustix::process::setsid();
    }
    let spec = understood(
        &kept.spec_path,
        &text,
        &kept.command_type,
        kept.only.as_deref(),
    )?;
    follow(session, args, &kept, &spec, log(args)).await
}

/// Tells which flows can go on.
///
/// # Errors
/// Nothing can be printed.
pub fn list(session: &Session) -> Result<u8, Stop> {
    let flows = fs::read_dir(root("")?).into_iter().flatten().flatten();
    let ids = flows.filter_map(|flow| flow.file_name().into_string().ok());
    // Others are being made.
    let mut flows: Vec<KeptFlow> = ids
        .filter_map(|id| Some(KeptFlow::read(&id).ok()?.0))
        .collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.started_ms));
    let with_state = |flow: KeptFlow| {
        let state = FlowJournal::state(&flow.root.join("journal"))?;
        Some((flow, state))
    };
    let flows: Vec<_> = flows.into_iter().filter_map(with_state).collect();
    if flows.is_empty() {
        session.out.note("no flow of this home can go on");
        return Ok(code::OK);
    }
    let columns: [Column<'_, (KeptFlow, &str)>; 5] = [
        ("flow", &|(flow, _)| Cell::text(&hex(&flow.id))),
        ("state", &|(_, state)| Cell::text(state)),
        ("started", &|(flow, _)| {
            Cell::time(i64::try_from(flow.started_ms).unwrap_or(i64::MAX))
        }),
        ("spec", &|(flow, _)| {
            Cell::text(&format!("{} {}", flow.command_type, flow.spec_path))
        }),
        ("folder", &|(flow, _)| {
            Cell::text(&flow.folder.to_string_lossy())
        }),
    ];
    let text = table::list(&session.out.screen, &columns, &flows);
    session.out.text(&text)?;
    Ok(code::OK)
}

fn log(args: &Noodles) -> Log {
    Log {
        verbose: args.verbose,
        debug: args.debug,
        silent: args.silent,
        past: false,
    }
}

async fn follow(
    session: &mut Session,
    args: &Noodles,
    kept: &KeptFlow,
    spec: &NoodlesSpec,
    log: Log,
) -> Result<u8, Stop> {
    let journal = FlowJournal::open(&kept.root.join("journal"))?;
    make_folder(&kept.groups())?;
    let _ = fs::remove_file(kept.refused());
    private(&kept.env(), &caller::lines(&kept.refused()))?;
    session.on_interrupt(InterruptNotice::text(format!("{} goes on", kept.resume())));
    let mut drive = Drive::new(session, spec, kept, journal, log, args.probe_limit);
    drive.connections.is_off = args.own_connections;
    let deadline = async {
        match args.deadline {
            Some(deadline) => tokio::time::sleep(deadline).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = drive.complete() => ended?,
        () = deadline => {
            let fault = Fault::failed("the deadline has passed");
            let fault = fault.cause("a group that runs goes on, nothing more is placed");
            return Err(fault.hint(format!("{} goes on", kept.resume())).into());
        }
    };
    // The journal stays, and the folder that `show` names as the source.
    let _ = fs::remove_file(kept.env());
    let _ = fs::remove_file(kept.refused());
    let _ = fs::remove_dir_all(kept.groups());
    Ok(ended)
}

/// Lets another process follow the flow.
fn detached(session: &Session, args: &Noodles, kept: &KeptFlow) -> Result<u8, Stop> {
    let failed = |error: &dyn std::error::Error| {
        Fault::failed("cannot go on in the background").because(error)
    };
    let path = kept.root.join("log");
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    let log = options.open(&path).map_err(|error| failed(&error))?;
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let limit = format!("{}ms", args.probe_limit.as_millis());
    let mut command = std::process::Command::new(own);
    command.args(["noodles", "--resume", &hex(&kept.id), "--own-session"]);
    command.args(["--probe-limit", &limit]);
    for (is_given, word) in [
        (args.own_connections, "--own-connections"),
        (args.verbose, "-v"),
        (args.debug, "-d"),
        (args.silent, "-s"),
    ] {
        if is_given {
            command.arg(word);
        }
    }
    if let Some(deadline) = args.deadline {
        command.args(["--deadline", &format!("{}ms", deadline.as_millis())]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().map_err(|error| failed(&error))?;
    let id = hex(&kept.id);
    session
        .out
        .text(&format!("flow {id} goes on; its log: {}\n", path.display()))?;
    Ok(code::OK)
}

fn root(id: &str) -> Result<PathBuf, Fault> {
    Ok(home()?.data.join("flows").join(id))
}

fn hex(id: &[u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(*id))
}

/// A path as a word of a command, in which braces are places.
fn in_command(path: &Path) -> Result<String, Fault> {
    let text = path.to_str().ok_or_else(|| {
        Fault::failed("cannot use the home of Neronet").cause("its path is no text")
    })?;
    Ok(shell_word(&text.replace('{', "{{").replace('}', "}}")))
}

/// Writes a file that only its owner reads; it is on disk when this returns.
pub(super) fn private(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(bytes)?;
        file.sync_data()
    });
    written.map_err(|error| Fault::cannot("write", path).because(&error))
}
