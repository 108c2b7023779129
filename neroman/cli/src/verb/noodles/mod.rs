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

use nero_model::safe::{Safe, quoted};
use nero_noodles::{
    CommandGroup, Diagnostic, Experiment, Freshness, NoodlesSpec, STAGES, Severity, check, course,
    read, target,
};
use nero_views::text::{join, plural};
use nero_yaml::Mistakes;

use crate::args::Noodles;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};
use crate::verb::change::abort;
use crate::verb::wait;

/// More than any spec that people write.
const SPEC_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Runs the verb.
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
    let Ok((path, only)) = target(word) else {
        let fault = Fault::failed("there is more than one `:` in the spec's name");
        let hint = "write SPEC:NAME,NAME; no name holds a `:`";
        return Err(fault.hint(hint).into());
    };
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

fn place(path: &str, line: u32, column: u32) -> String {
    format!("{}:{line}:{column}", Safe::line(path))
}

/// Everything, as it is printed.
fn spec_text(
    spec: &NoodlesSpec,
    path: &str,
    command_type: &str,
    findings: &[Diagnostic],
) -> String {
    let mut text = String::new();
    let names = servers(spec, &mut text);
    for (key, experiments) in STAGES.iter().zip(&spec.stages) {
        if experiments.is_empty() {
            continue;
        }
        let count = plural(experiments.len(), "experiment");
        let _ = writeln!(text, "{key}: {count} for {}", quoted(command_type));
        for experiment in experiments {
            write_experiment(experiment, &mut text);
        }
        text.push('\n');
    }
    order(spec, &names, &mut text);
    for finding in findings {
        let word = match finding.severity {
            Severity::Never => "never",
            Severity::Warning => "warning",
            Severity::Differs => "differs",
        };
        let at = match finding.mark {
            Some(mark) => place(path, mark.line, mark.column),
            None => Safe::line(path).to_string(),
        };
        let _ = writeln!(text, "{word}: {} ({at})", finding.message);
        if !finding.hint.is_empty() {
            let _ = writeln!(text, "    {}", finding.hint);
        }
    }
    if findings.is_empty() {
        text.push_str("nothing stands in its way\n");
    }
    text
}

/// The servers; returns how each is called below.
fn servers(spec: &NoodlesSpec, text: &mut String) -> Vec<String> {
    let names: Vec<String> = spec.servers.iter().map(|one| quoted(&one.name)).collect();
    if !names.is_empty() {
        text.push_str("servers, the preferred one first\n");
    }
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0);
    for (server, name) in spec.servers.iter().zip(&names) {
        let way = if server.is_local() {
            "this machine".to_owned()
        } else {
            // Without options there are two blanks, as in the original's lines.
            Safe::line(&server.endpoint(&spec.shell_string).replace("  ", " ")).to_string()
        };
        let _ = writeln!(text, "  {name:width$}  {way}");
    }
    if !names.is_empty() {
        text.push('\n');
    }
    names
}

fn write_experiment(experiment: &Experiment, text: &mut String) {
    let name = quoted(&experiment.name);
    if experiment.commands.is_empty() {
        let _ = writeln!(text, "  {name}  no commands: counts as deployed");
        return;
    }
    let _ = writeln!(text, "  {name}");
    if !experiment.depends_on.is_empty() {
        let needs = experiment.depends_on.iter();
        let needs = join(needs.map(|needed| quoted(&needed.name)), ", ");
        let _ = writeln!(text, "    needs    {needs}");
    }
    for requirement in &experiment.requirements {
        let expression = Safe::line(&requirement.expression);
        let once = match requirement.freshness {
            Freshness::Static => ", asked once per round",
            Freshness::Dynamic => "",
        };
        let id = quoted(&requirement.id);
        let _ = writeln!(text, "    requires {id} {expression}{once}");
    }
    for (word, path) in [
        ("stdout", &experiment.stdout_to),
        ("stderr", &experiment.stderr_to),
    ] {
        if let Some(path) = path {
            let _ = writeln!(text, "    {word} to {}", quoted(path));
        }
    }
    for group in &experiment.commands {
        commands(group, text);
    }
}

/// The commands that one shell reads.
fn commands(group: &CommandGroup, text: &mut String) {
    let lines = group.commands.iter().flat_map(|command| command.lines());
    for (at, line) in lines.enumerate() {
        let word = match (at, group.local) {
            (0, true) => "local",
            (0, false) => "remote",
            _ => "",
        };
        let _ = writeln!(text, "    {word:8} {}", Safe::line(line));
    }
}

/// The order of deployments.
fn order(spec: &NoodlesSpec, names: &[String], text: &mut String) {
    let course = course(spec);
    let placed = |(stage, round, experiment, server): &(usize, usize, usize, Option<usize>)| {
        let server = (*server)?;
        let name = quoted(&spec.stages[*stage][*experiment].name);
        Some((*stage, *round, format!("{name} on {}", names[server])))
    };
    let placed: Vec<_> = course.deployments.iter().filter_map(placed).collect();
    if placed.is_empty() {
        return;
    }
    text.push_str("order, if every server satisfies all requirements and nothing fails\n");
    for round in placed.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1)) {
        let (stage, number, _) = &round[0];
        let (stage, deployments) = (
            STAGES[*stage],
            join(round.iter().map(|(.., text)| text), ", "),
        );
        let _ = writeln!(text, "  {stage} round {number}: {deployments}");
    }
    if !course.complete {
        text.push_str("  then nothing more: see below\n");
    }
    text.push('\n');
}
