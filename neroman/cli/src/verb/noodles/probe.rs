//! What a flow asks: servers for the values of probes, the caller's shell for texts with variables.
//! Both change nothing, so they are processes of this program and no runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nero_format::python::list_text;
use nero_model::safe::quoted;
use nero_noodles::{CommandGroup, CommandsEnd, Experiment, Metric, script, whole_script};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::drive::Drive;
use super::group::GroupPlace;
use super::shell::{self, Question, ShellEnd, Streams};
use crate::fault::{Fault, Stop, code};

/// Before a probe whose error a handler wants tried again at once.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// Connections to one host at once: ten that have not logged in are the least that make sshd refuse
/// others.
const AT_ONCE: usize = 6;
/// Between the starts of connections, as all may go through one host.
const APART: Duration = Duration::from_millis(20);

impl Drive<'_> {
    /// Asks all servers at once.
    pub(super) async fn probe(
        &mut self,
        experiment: &Experiment,
        requirement: usize,
        servers: &[usize],
    ) -> Result<Vec<(usize, Metric)>, Stop> {
        let id = &experiment.requirements[requirement].id;
        self.log
            .verbose(&format!("Check requirement group #{}", requirement + 1));
        self.log.verbose(&format!("Check requirement ID: {id}"));
        // What answered an error of this probe before this process began: it is not run again.
        while let Some(past) = self.journal.past_if("response") {
            let number = |at: usize| past[at].as_u64().and_then(|at| usize::try_from(at).ok());
            let (handler, at) = (number(0), number(1).unwrap_or_default());
            self.respond(handler, experiment, at).await?;
        }
        if let Some(past) = self.journal.past("probed")? {
            return Ok(read_metrics(&past));
        }
        let Some(commands) = self.spec.probes.get(id) else {
            let (name, id) = (quoted(&experiment.name), quoted(id));
            let fault = Fault::failed(format!("experiment {name} requires {id}"));
            return Err(fault.cause("no requirement has this id").into());
        };
        let probe = Probe {
            id,
            commands,
            experiment,
        };
        let mut asked = self.ask_all(&probe, servers);
        let mut retried = HashSet::new();
        let mut results = Vec::new();
        while let Some(joined) = asked.join_next().await {
            let answer =
                joined.map_err(|error| Fault::new(code::BUG, "a probe broke").because(&error))?;
            let at = answer.at;
            match self.outcome(&probe, at, answer.ends).await? {
                ProbeOutcome::Metric(metric) => results.push((at, metric)),
                ProbeOutcome::Again { has_responded } => {
                    if retried.insert(at) {
                        self.warn(&probe, at, "retry");
                    }
                    let again = ProbeTry {
                        pause: PROBE_PAUSE,
                        room: answer.room,
                        // The time of the handler's commands is not the probe's.
                        until: (!has_responded).then_some(answer.until),
                    };
                    self.ask(&mut asked, &probe, at, again);
                }
            }
        }
        results.sort_by_key(|(at, _)| *at);
        self.journal.write("probed", &write_metrics(&results))?;
        Ok(results)
    }

    /// Asks all servers, with few connections to one host at a time.
    fn ask_all(&self, probe: &Probe<'_>, servers: &[usize]) -> AskedServers {
        let mut asked = AskedServers::new();
        let mut rooms = HashMap::new();
        for (order, at) in (0..).zip(servers) {
            let server = &self.spec.servers[*at];
            self.log.verbose(&format!(
                "Check requirement \"{}\" on server \"{}\"",
                probe.id, server.name
            ));
            let room = rooms.entry(self.endpoint(false, server));
            let room = Arc::clone(room.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))));
            let pause = if server.is_local() {
                Duration::ZERO
            } else {
                APART * order
            };
            let until = None;
            self.ask(&mut asked, probe, *at, ProbeTry { pause, room, until });
        }
        asked
    }

    /// Asks one server after a pause: its commands' groups one after the other.
    fn ask(&self, asked: &mut AskedServers, probe: &Probe<'_>, at: usize, this: ProbeTry) {
        let questions = self.questions(probe.commands, probe.experiment, at);
        let limit = self.limit;
        asked.spawn(async move {
            tokio::time::sleep(this.pause).await;
            let _permit = Arc::clone(&this.room).acquire_owned().await;
            let until = this.until.unwrap_or_else(|| Instant::now() + limit);
            ProbeAnswer {
                at,
                ends: answers(&questions, until).await,
                room: this.room,
                until,
            }
        });
    }

    /// What the answer of a server comes to. Handlers respond to errors.
    async fn outcome(
        &mut self,
        probe: &Probe<'_>,
        at: usize,
        ends: std::io::Result<Vec<ShellEnd>>,
    ) -> Result<ProbeOutcome, Stop> {
        let (id, server) = (probe.id, &self.spec.servers[at].name);
        let ends = match ends {
            Ok(ends) => ends,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                let seconds = self.limit.as_secs_f64();
                self.log.warning(&format!(
                    "Requirement \"{id}\" has no value on server \"{server}\": no end within {seconds}s"
                ));
                return Ok(ProbeOutcome::Metric(Metric::Missing));
            }
            Err(error) => {
                let what = format!("cannot ask {} of server {}", quoted(id), quoted(server));
                return Err(Fault::failed(what).because(&error).into());
            }
        };
        let mut is_last_continued = false;
        let mut has_responded = false;
        for end in &ends {
            let (error, handler) = self.judge(end)?;
            is_last_continued = error;
            if !error {
                continue;
            }
            if handler.is_some_and(|at| !self.spec.error_handlers[at].commands.is_empty()) {
                has_responded = true;
                self.log.verbose("Run response commands");
                self.journal.write("response", &json!([handler, at]))?;
            }
            match self.respond(handler, probe.experiment, at).await? {
                CommandsEnd::Retry => return Ok(ProbeOutcome::Again { has_responded }),
                CommandsEnd::Abort => {
                    let what = format!("requirement {} on server {}", quoted(id), quoted(server));
                    return Err(self.aborted(&what, Some(end.code), end, "").into());
                }
                CommandsEnd::Continue | CommandsEnd::Success => {}
            }
        }
        if is_last_continued {
            self.warn(probe, at, "continue");
            return Ok(ProbeOutcome::Metric(Metric::Null));
        }
        let printed: String = ends.iter().map(|end| end.stdout.as_str()).collect();
        Ok(ProbeOutcome::Metric(Metric::read(&printed)))
    }

    fn warn(&self, probe: &Probe<'_>, at: usize, next: &str) {
        self.log.warning(&format!(
            "Unsuccessful commands execution on server \"{}\", will {next}->\n{}",
            self.spec.servers[at].name,
            written(probe.commands)
        ));
    }

    /// Runs the commands of a handler where a probe failed; what it wants then.
    async fn respond(
        &mut self,
        handler: Option<usize>,
        experiment: &Experiment,
        at: usize,
    ) -> Result<CommandsEnd, Stop> {
        let spec = self.spec;
        let place = GroupPlace {
            experiment,
            server: &spec.servers[at],
            exact: &[],
            env: &experiment.env,
        };
        self.answer(handler, Some(&place)).await
    }

    fn questions(
        &self,
        commands: &[CommandGroup],
        experiment: &Experiment,
        at: usize,
    ) -> Vec<Question> {
        let spec = self.spec;
        let mut questions = Vec::new();
        for (number, group) in commands.iter().enumerate() {
            let text = script(&experiment.env, &[], &group.commands);
            let text = whole_script(spec, &text);
            let endpoint = self.endpoint(group.local, &spec.servers[at]);
            // A probe of a process that was killed may still write.
            let name = format!("probe-{}-{at}-{number}", std::process::id());
            questions.push(self.question(&name, endpoint, text, &experiment.env));
        }
        questions
    }

    pub(super) fn question(
        &self,
        name: &str,
        endpoint: String,
        text: String,
        env: &[(String, String)],
    ) -> Question {
        let streams = Streams::new(&self.kept.groups().join(name), &[None, None], false);
        let line = shell::line(self.spec, &endpoint, &streams);
        self.log.debug(&format!("Run command: {line}"));
        Question {
            line,
            streams,
            text,
            env: env.to_vec(),
        }
    }

    /// A text with its variables expanded by the caller's shell.
    pub(super) async fn expanded(
        &mut self,
        text: &str,
        env: &[(String, String)],
    ) -> Result<String, Stop> {
        if !text.contains('$') {
            return Ok(text.to_owned());
        }
        let key = (text.to_owned(), env.to_vec());
        if let Some(known) = self.expansions.get(&key) {
            return Ok(known.clone());
        }
        let expanded = match self.journal.past("text")? {
            Some(past) => past.as_str().unwrap_or_default().to_owned(),
            None => self.expanded_now(text, env).await?,
        };
        if is_lasting(text) {
            self.expansions.insert(key, expanded.clone());
        }
        Ok(expanded)
    }

    async fn expanded_now(&mut self, text: &str, env: &[(String, String)]) -> Result<String, Stop> {
        let failed = || Fault::failed(format!("cannot expand {}", quoted(text)));
        loop {
            let endpoint = self.spec.shell_string.clone();
            let name = format!("text-{}", std::process::id());
            let question = self.question(&name, endpoint, format!("echo -n {text}"), env);
            let end = shell::ask(&question, self.limit).await;
            let end = end.map_err(|error| failed().because(&error))?;
            let (error, handler) = self.judge(&end)?;
            let wanted = if error {
                self.answer(handler, None).await?
            } else {
                CommandsEnd::Success
            };
            let expanded = match wanted {
                CommandsEnd::Success => end.stdout,
                CommandsEnd::Continue => {
                    self.log.warning(&format!(
                        "Unsuccessful expression evaluation, will continue->\n{text}"
                    ));
                    text.to_owned()
                }
                CommandsEnd::Retry => {
                    tokio::time::sleep(PROBE_PAUSE).await;
                    continue;
                }
                CommandsEnd::Abort => {
                    return Err(failed().cause(end.stderr + &end.outer).into());
                }
            };
            self.journal.write("text", &json!(expanded))?;
            return Ok(expanded);
        }
    }
}

/// A probe of an experiment's requirement.
struct Probe<'p> {
    id: &'p str,
    commands: &'p [CommandGroup],
    experiment: &'p Experiment,
}

/// What the answer of a server to a probe comes to.
enum ProbeOutcome {
    Metric(Metric),
    /// A handler wants another try.
    Again {
        /// Whether commands of a handler ran.
        has_responded: bool,
    },
}

/// Servers that are asked.
type AskedServers = tokio::task::JoinSet<ProbeAnswer>;

/// The answer of one server to a probe.
struct ProbeAnswer {
    /// The index of the server.
    at: usize,
    ends: std::io::Result<Vec<ShellEnd>>,
    room: Arc<Semaphore>,
    /// When its limit ended.
    until: Instant,
}

/// A try of a probe.
struct ProbeTry {
    pause: Duration,
    /// Room for one more connection to the host.
    room: Arc<Semaphore>,
    /// When its limit ends; `None`: the whole limit, from when there is room.
    until: Option<Instant>,
}

/// The commands of a probe as the original prints them.
fn written(groups: &[CommandGroup]) -> String {
    let of_group = |group: &CommandGroup| {
        let prefix = if group.local { "local:" } else { "" };
        let commands = group.commands.iter();
        let commands = commands.map(|command| format!("{prefix}{command}"));
        commands.collect::<Vec<_>>()
    };
    let commands: Vec<String> = groups.iter().flat_map(of_group).collect();
    match &commands[..] {
        [command] => command.clone(),
        _ => list_text(&commands),
    }
}

/// The ends of shells, one after the other.
async fn answers(questions: &[Question], until: Instant) -> std::io::Result<Vec<ShellEnd>> {
    let mut ends = Vec::new();
    for question in questions {
        let left = until.saturating_duration_since(Instant::now());
        ends.push(shell::ask(question, left).await?);
    }
    Ok(ends)
}

/// Whether the same variables always make the same of a text: it has no commands, and no variable
/// that a shell changes.
fn is_lasting(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@,+=${}".contains(c);
    let changing = ["RANDOM", "SECONDS", "EPOCH", "PID", "$$"];
    text.chars().all(is_plain) && !changing.iter().any(|name| text.contains(name))
}

fn write_metrics(results: &[(usize, Metric)]) -> Value {
    let each = results.iter().map(|(at, metric)| match metric {
        // JSON has no infinity.
        Metric::Number(number) => json!([at, "number", number.to_string()]),
        Metric::Text(text) => json!([at, "text", text]),
        Metric::Null => json!([at, "null"]),
        Metric::Missing => json!([at, "missing"]),
    });
    each.collect()
}

fn read_metrics(past: &Value) -> Vec<(usize, Metric)> {
    let one = |value: &Value| {
        let at = value[0].as_u64().and_then(|at| usize::try_from(at).ok())?;
        let text = value[2].as_str().unwrap_or_default();
        let metric = match value[1].as_str() {
            Some("number") => Metric::Number(text.parse().unwrap_or(f64::NAN)),
            Some("text") => Metric::Text(text.to_owned()),
            Some("missing") => Metric::Missing,
            _ => Metric::Null,
        };
        Some((at, metric))
    };
    past.as_array()
        .into_iter()
        .flatten()
        .filter_map(one)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_probes_are_read_back_as_they_were() {
        let results = vec![
            (0, Metric::Number(0.1)),
            (2, Metric::Number(f64::INFINITY)),
            (3, Metric::Text("Yes\n5".to_owned())),
            (4, Metric::Null),
            (5, Metric::Missing),
        ];
        let text = write_metrics(&results).to_string();
        assert_eq!(read_metrics(&serde_json::from_str(&text).unwrap()), results);
    }
}
