//! Programs of the node: running one for a line of output with a time limit,
//! interpreters that experiments name, GPUs.

use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use nero_journal::v1::GpuCard;
use nero_model::safe::Safe;
use nero_model::units::short_bytes as shown;
use nero_node::cards::CardsKnown;
use nero_node::staging::environment::Base;
use tokio::process::Command;

use super::Findings;

/// Time limit of one program.
const PATIENCE: Duration = Duration::from_secs(5);
/// Programs that may be run with `--version`: any other program could take that
/// word for its work.
const INTERPRETERS: [&str; 12] = [
    "python", "pypy", "Rscript", "R", "julia", "perl", "ruby", "node", "bash", "octave", "lua",
    "java",
];

/// The first line that a program prints, on either stream; `None` when it is
/// missing, fails or takes too long.
pub async fn ask(program: &str, words: &[&str]) -> Option<String> {
    let text = ask_all(program, words).await?;
    let line = text.lines().find(|line| !line.trim().is_empty())?.trim();
    let line: String = line.chars().take(200).collect();
    Some(Safe::line(&line).to_string())
}

/// All that a program prints, as [`ask`].
pub async fn ask_all(program: &str, words: &[&str]) -> Option<String> {
    let asked = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let group = asked.id();
    let Ok(said) = tokio::time::timeout(PATIENCE, asked.wait_with_output()).await else {
        end(group);
        return None;
    };
    let said = said.ok()?;
    let text = if said.stdout.is_empty() {
        said.stderr
    } else {
        said.stdout
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    said.status.success().then_some(text)
}

/// Ends a program that takes too long, with the processes that it started.
fn end(group: Option<u32>) {
    let leader = group.and_then(|group| i32::try_from(group).ok());
    if let Some(leader) = leader.and_then(rustix::process::Pid::from_raw) {
        // The leader was killed just now; its pid is not given anew while
        // others of its group live. An empty group is no error here.
        let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    }
}

pub async fn examine(base: &Base, names: &[String]) -> Findings {
    let each = names.iter().map(|name| async move {
        let found = base.find(name);
        let version = match &found {
            Some(path) if is_interpreter(name) => {
                let word = match name.as_str() {
                    "java" => "-version",
                    _ => "--version",
                };
                ask(&path.to_string_lossy(), &[word]).await
            }
            Some(_) | None => None,
        };
        (name, found, version)
    });
    let mut findings = Findings::default();
    for (name, found, version) in join_all(each).await {
        let what = format!("program {}", Safe::line(name));
        match (found, version) {
            (Some(path), Some(version)) => {
                findings.good(&what, format!("{}: {version}", path.display()));
            }
            (Some(path), None) => findings.good(&what, path.display().to_string()),
            (None, _) => findings.bad(
                &what,
                "it is not there: not on the PATH of runs",
                "install it, or put its folder on the PATH in your login files or in env: of the \
                 experiment",
            ),
        }
    }
    findings
}

fn is_interpreter(name: &str) -> bool {
    let versions = |c: char| c.is_ascii_digit() || c == '.';
    INTERPRETERS.contains(&name.trim_end_matches(versions))
}

/// What the helper that reads the cards tells.
pub fn gpus(findings: &mut Findings, told: &CardsKnown) {
    const WHAT: &str = "GPUs";
    let page = match told {
        CardsKnown::Cards(page) => page,
        CardsKnown::None(why) => return findings.good(WHAT, format!("none: {why}")),
        CardsKnown::Looking => {
            return findings.warning(
                WHAT,
                "they are being looked at",
                "ask again in some seconds",
            );
        }
        CardsKnown::Unknown { why, hint } => return findings.bad(WHAT, why, hint),
    };
    for card in page.cards.iter().filter(|card| card.is_lost) {
        findings.bad(
            WHAT,
            format!(
                "{} {} is lost: the driver does not find it any more",
                card.index,
                Safe::line(&card.name)
            ),
            "no run gets it; a restart of the machine often brings it back",
        );
    }
    if !page.lacks.is_empty() {
        let hint = if page.lacks.iter().any(|lacked| lacked == "processes") {
            "processes of others are not seen: give only cards that nobody else uses (`gpus:` of the node)"
        } else {
            "a newer driver has them"
        };
        let lacks = page.lacks.join(", ");
        findings.warning(
            WHAT,
            format!("this old driver does not tell: {lacks}"),
            hint,
        );
    }
    let there = page.cards.iter().filter(|card| !card.is_lost);
    let each: Vec<String> = there.map(card_in_use).collect();
    if !each.is_empty() {
        findings.good(
            WHAT,
            format!("{}; {}", each.join(", "), Safe::line(&page.driver)),
        );
    } else if page.cards.is_empty() {
        findings.warning(
            WHAT,
            format!(
                "the driver is there ({}) and tells of no GPU",
                Safe::line(&page.driver)
            ),
            "",
        );
    }
}

/// A card with its memory, and another user's process on it.
fn card_in_use(card: &GpuCard) -> String {
    let memory = match (card.used_bytes, card.memory_bytes) {
        (Some(used), Some(all)) => format!(" ({} of {} used)", shown(used), shown(all)),
        _ => String::new(),
    };
    let foreign = card.processes.iter().find(|process| process.is_foreign);
    let foreign = foreign.map(|one| {
        format!(
            ", used by {} of {}",
            Safe::line(&one.name),
            Safe::line(&one.user)
        )
    });
    let (name, foreign) = (Safe::line(&card.name), foreign.unwrap_or_default());
    format!("{} {name}{memory}{foreign}", card.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interpreters_are_asked_for_their_version() {
        for name in ["python", "python3", "python3.11", "Rscript"] {
            assert!(is_interpreter(name), "{name}");
        }
        for name in ["train", "./python", "reboot", "3.11", ""] {
            assert!(!is_interpreter(name), "{name}");
        }
    }
}
