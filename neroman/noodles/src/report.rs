//! The report of a spec, for `--check`: its servers, experiments, order and findings, as text.

use std::fmt::Write as _;

use nero_model::safe::{Safe, quoted};

use crate::{
    CommandGroup, Diagnostic, Experiment, Freshness, NoodlesSpec, STAGES, Severity, course,
};

/// `spec.yml:3:1`.
pub fn place(path: &str, line: u32, column: u32) -> String {
    format!("{}:{line}:{column}", Safe::line(path))
}

/// What the command type of a spec does, as `--check` prints it; `findings` are told behind it.
pub fn spec_text(
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
        let (count, many) = (
            experiments.len(),
            if experiments.len() == 1 { "" } else { "s" },
        );
        let _ = writeln!(
            text,
            "{key}: {count} experiment{many} for {}",
            quoted(command_type)
        );
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
        let needs: Vec<String> = needs.map(|needed| quoted(&needed.name)).collect();
        let _ = writeln!(text, "    needs    {}", needs.join(", "));
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
        let deployments: Vec<&str> = round.iter().map(|(.., text)| text.as_str()).collect();
        let (stage, deployments) = (STAGES[*stage], deployments.join(", "));
        let _ = writeln!(text, "  {stage} round {number}: {deployments}");
    }
    if !course.complete {
        text.push_str("  then nothing more: see below\n");
    }
    text.push('\n');
}
