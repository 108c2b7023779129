//! A scheduler that the configuration describes: whether its programs are there, and
//! what its list reads as.

use nero_model::safe::Safe;
use nero_warden::{CallOutput, Queue, Warden};

use super::Findings;
use super::schedulers::PATIENCE;
use crate::warden::login::Login;
use crate::warden::runner::Runner;

/// Lines of the list that are quoted.
const LINES_MAX: usize = 5;
const HINT: &str = "the words of `scheduler:` in the configuration: `neroman help schedulers`";

pub async fn examine(findings: &mut Findings, login: &Login, warden: &dyn Warden) {
    let name = &*warden.name();
    let mut programs = warden.programs_elsewhere();
    programs.insert(0, warden.program());
    programs.dedup();
    let (there, missing): (Vec<_>, Vec<_>) = programs
        .iter()
        .map(|program| (program, login.find(program)))
        .partition(|(_, found)| found.is_some());
    let paths = there.into_iter().filter_map(|(_, found)| found);
    let paths: Vec<String> = paths.map(|one| one.path.display().to_string()).collect();
    findings.good(&format!("{name}'s programs"), paths.join(", "));
    for (program, _) in missing {
        let text =
            format!("{program} is neither on the PATH of runs nor on that of your login shell");
        findings.bad(&format!("{name}'s programs"), text, HINT);
    }
    let Some(runner) = Runner::find(login, warden, PATIENCE) else {
        return;
    };
    let mut said = Vec::new();
    for call in warden.queue_calls(&[]) {
        said.push(runner.run(&call).await);
    }
    match warden.read_queue(&said, &[]) {
        Ok(queue) => listed(findings, warden, &queue, &said),
        Err(error) => findings.bad(
            &format!("{name}'s list"),
            Safe::line(&error.to_string()).to_string(),
            HINT,
        ),
    }
}

fn listed(findings: &mut Findings, warden: &dyn Warden, queue: &Queue, said: &[CallOutput]) {
    let what = format!("{}'s list", warden.name());
    let mut text = format!("jobs of yours that did not end: {}", queue.not_ended());
    if !warden.shows_names() {
        text.push_str("; it shows no names: a submission whose answer is lost waits for you");
    }
    findings.good(&what, text);
    let lines = warden.unread_lines(said);
    if lines.is_empty() {
        return;
    }
    let quoted = lines.iter().take(LINES_MAX).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Safe::line(&words.join(" ")).to_string()
    });
    let quoted: Vec<String> = quoted.collect();
    let more = match lines.len().saturating_sub(LINES_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let text = format!(
        "read as no job: {}{more}; that is right for headings alone",
        quoted.join(" | ")
    );
    match queue.unreadable {
        0 => findings.good(&what, text),
        _ => findings.bad(&what, text, HINT),
    }
}
