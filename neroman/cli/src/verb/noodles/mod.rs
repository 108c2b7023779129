//! `noodles TYPE SPEC`: runs a spec of Training Noodles. With `--check`: what it would do, without a
//! daemon and without asking a server.

mod caller;
mod drive;
mod flow_folder;
mod group;
mod journal;
mod log;
mod probe;
mod share;
mod shell;

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use nero_noodles::{NoodlesSpec, Severity, check, place, read, spec_text, target};
use nero_views::text::plural;
use nero_yaml::Mistakes;

use crate::args::Noodles;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};
use crate::verb::change::abort;
use crate::verb::wait;

/// More than any spec that people write.
const SPEC_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub async fn run(session: &mut Session, args: &Noodles) -> Result<u8, Stop> {
    if let Some(id) = &args.resume {
        if id.is_empty() {
            return flow_folder::list(session);
        }
        return flow_folder::resume(session, args, id).await;
    }
    let (Some(command_type), Some(word)) = (&args.command_type, &args.spec) else {
        let fault = Fault::usage("`noodles` needs a command type and a spec");
        let hint = "for example `neroman noodles run spec.yml`";
        return Err(fault.hint(hint).into());
    };
    let (path, only) = spec_target(word)?;
    if path.is_empty() {
        let fault = Fault::failed("the name of the spec is empty");
        let hint = "for example `neroman noodles run spec.yml:Exp`";
        return Err(fault.hint(hint).into());
    }
    let text = contents(path)?;
    let spec = understood(path, &text, command_type, only.as_deref())?;
    let findings = check(&spec, command_type);
    if !args.check {
        let asked = flow_folder::AskedFlow {
            command_type,
            path,
            only,
            text: &text,
        };
        return flow_folder::begin(session, args, &asked, &spec, &findings).await;
    }
    let text = spec_text(&spec, path, command_type, &findings);
    session.out.text(&text)?;
    let never = findings.iter().any(|one| one.severity == Severity::Never);
    Ok(code::ok_if(!never))
}

/// After Ctrl-C: follows the group that runs to its end, or aborts it when Ctrl-C comes again.
///
/// # Errors
/// The daemon is not there.
pub async fn interrupted(session: &mut Session, run: &str) -> Result<(), Stop> {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => abort::abort_run(session, run).await,
        ended = wait::to_end(session, selection(&[run.to_owned()])) => ended,
    }
}

/// The path of a spec, and the names of the experiments that are meant.
pub(super) fn spec_target(word: &str) -> Result<(&str, Option<Vec<String>>), Fault> {
    target(word).map_err(|_| {
        let fault = Fault::failed("there is more than one `:` in the spec's name");
        fault.hint("write SPEC:NAME,NAME; no name holds a `:`")
    })
}

/// The spec, or all its mistakes.
pub(super) fn understood(
    path: &str,
    text: &str,
    command_type: &str,
    only: Option<&[String]>,
) -> Result<NoodlesSpec, Fault> {
    read(text, command_type, only).map_err(|mistakes| refused(path, &mistakes))
}

/// All mistakes of a file with their places.
pub(super) fn refused(path: &str, mistakes: &Mistakes) -> Fault {
    let mut report = String::new();
    for mistake in &mistakes.list {
        let at = place(path, mistake.place.line, mistake.place.column);
        let _ = writeln!(report, "{at}: {}", mistake.message);
        if !mistake.hint.is_empty() {
            let _ = writeln!(report, "    {}", mistake.hint);
        }
    }
    let more = if mistakes.truncated { "more than " } else { "" };
    let count = plural(mistakes.list.len(), "mistake");
    Fault {
        report,
        ..Fault::failed(format!("{path} has {more}{count}"))
    }
}

/// The text of a file.
pub(super) fn contents(path: &str) -> Result<String, Fault> {
    let failed = || Fault::failed(format!("cannot read {path}"));
    let file = fs::File::open(Path::new(path)).map_err(|error| failed().because(&error))?;
    let mut bytes = Vec::new();
    let read = file.take(SPEC_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed().because(&error))?;
    if bytes.len() as u64 > SPEC_BYTES_MAX {
        return Err(failed().cause("it is larger than 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| failed().cause("it is not UTF-8 text"))
}
