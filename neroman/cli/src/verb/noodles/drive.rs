//! A flow that runs: the effects that its course asks for.
//!
//! Each group of commands is a run on `local`, which nerokid watches as any other: its program is the
//! shell, or the ssh, that the original starts. The result of each effect is in the journal before
//! the next one, and a run is asked for under an id that follows from the flow and the number of the
//! group, which the daemon answers once. So a flow that was cut off anywhere goes on without
//! running a group twice.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nero_format::python::float_text;
use nero_model::safe::quoted;
use nero_noodles::{
    Action, CommandsEnd, Experiment, Flow, FlowNote, FlowResult, FlowStep, Handler, Interval,
    MAIN_STAGE, Metric, NoodlesSpec, STAGES, Satisfaction, Server, StatusFile, WaitReason,
};
use serde_json::{Value, json};

use super::flow_folder::KeptFlow;
use super::group::{GroupEnd, GroupPlace};
use super::journal::FlowJournal;
use super::log::Log;
use super::share::Connections;
use super::shell::ShellEnd;
use crate::fault::{Fault, Stop, code};
use crate::session::Session;

/// A flow at work.
pub struct Drive<'s> {
    pub(super) session: &'s mut Session,
    pub(super) spec: &'s NoodlesSpec,
    pub(super) kept: &'s KeptFlow,
    pub(super) journal: FlowJournal,
    pub(super) log: Log,
    /// Limit of one probe.
    pub(super) limit: Duration,
    /// The number of the next group.
    pub(super) groups: u64,
    /// The experiment whose runs the groups are; known once the first group has started.
    pub(super) experiment: Option<u64>,
    /// The run of the group before.
    pub(super) newest: u64,
    /// Whether it was told what groups cannot have of the caller.
    pub(super) has_told_refused: bool,
    pub(super) status_path: Option<String>,
    /// Why the status file could not be written last; empty: it could.
    pub(super) status_error: String,
    pub(super) previous_round: SystemTime,
    /// What was said about each experiment that waits.
    pub(super) said: HashSet<String>,
    pub(super) connections: Connections,
    /// Texts that were expanded, by the variables that they had.
    pub(super) expansions: HashMap<(String, Vec<(String, String)>), String>,
}

impl<'s> Drive<'s> {
    /// The flow from its start; what its journal has is not done again.
    pub fn new(
        session: &'s mut Session,
        spec: &'s NoodlesSpec,
        kept: &'s KeptFlow,
        journal: FlowJournal,
        log: Log,
        limit: Duration,
    ) -> Self {
        Self {
            session,
            spec,
            kept,
            log,
            limit,
            journal,
            groups: 0,
            experiment: None,
            newest: 0,
            has_told_refused: false,
            status_path: None,
            status_error: String::new(),
            previous_round: kept.started(),
            said: HashSet::new(),
            connections: Connections::default(),
            expansions: HashMap::new(),
        }
    }

    /// Goes on to the end; the exit code.
    ///
    /// # Errors
    /// A deployment ended the flow, or what it needs is gone.
    pub async fn complete(&mut self) -> Result<u8, Stop> {
        let spec = self.spec;
        let mut flow = Flow::new(spec);
        loop {
            self.log.past = !self.journal.is_at_end();
            let step = flow.step();
            let stage = flow.stage();
            let result = match step {
                FlowStep::Begin { stage } => {
                    if let Some(before) = stage.checked_sub(1) {
                        self.log
                            .info(&format!("Finished stage \"{}\"", STAGES[before]));
                    }
                    self.log.info(&format!("Start stage \"{}\"", STAGES[stage]));
                    self.said.clear();
                    self.previous_round = SystemTime::now();
                    self.write_status(&flow, None).await?;
                    FlowResult::Begun
                }
                FlowStep::Wait { interval, seconds } => {
                    self.pause(interval, seconds).await?;
                    FlowResult::Waited
                }
                FlowStep::Probe {
                    experiment,
                    requirement,
                    servers,
                } => {
                    let experiment = &spec.stages[stage][experiment];
                    let results = self.probe(experiment, requirement, &servers).await?;
                    FlowResult::Probed(results)
                }
                FlowStep::Deploy { experiment, server } => {
                    let ended = self.deploy(&spec.stages[stage][experiment], &spec.servers[server]);
                    let ended = ended.await?;
                    if matches!(ended, CommandsEnd::Success | CommandsEnd::Continue) {
                        self.write_status(&flow, Some(experiment)).await?;
                    }
                    FlowResult::Deployed(ended)
                }
                FlowStep::Finished => {
                    let last = STAGES[STAGES.len() - 1];
                    self.log.info(&format!("Finished stage \"{last}\""));
                    self.finished(&flow);
                    match self.journal.past("finished")? {
                        None => self.journal.write("finished", &Value::Null)?,
                        Some(_) => self.session.out.note("note: this flow has finished"),
                    }
                    return Ok(code::OK);
                }
                FlowStep::Stuck => return Err(self.stuck(&flow).into()),
                FlowStep::Aborted => unreachable!("an abort ends the flow where it is met"),
            };
            let done = flow.done(result);
            done.map_err(|error| Fault::new(code::BUG, "the flow went wrong").because(&error))?;
            self.tell_notes(&mut flow);
            self.tell_waiting(&flow);
        }
    }

    /// What happened between two effects.
    fn tell_notes(&mut self, flow: &mut Flow) {
        let spec = self.spec;
        for (stage, note) in flow.take_notes() {
            let name = |at: usize| spec.stages[stage][at].name.as_str();
            let names = |each: &[usize]| list(each.iter().map(|at| name(*at)));
            let line = match note {
                FlowNote::Round(round, undeployed) => {
                    self.log.verbose(&format!("Round #{}", round + 1));
                    format!("Undeployed experiments: {}", names(&undeployed))
                }
                FlowNote::RoundEnd => {
                    let lasted = self.previous_round.elapsed().unwrap_or_default();
                    self.previous_round = SystemTime::now();
                    format!("Elapsed round time: {:.3}s", lasted.as_secs_f64())
                }
                FlowNote::Try(at) => format!("Try to deploy experiment \"{}\"", name(at)),
                FlowNote::Empty(at) => format!("Experiment \"{}\" is empty, skip", name(at)),
                FlowNote::Needs(at, needs) => format!(
                    "Experiment \"{}\" depends on experiments which are still undeployed: {}",
                    name(at),
                    names(&needs)
                ),
                FlowNote::Search => "Find satisfied servers".to_owned(),
                FlowNote::Satisfied(servers) => {
                    let names = servers.iter().map(|at| spec.servers[*at].name.as_str());
                    format!("Satisfied servers: {}", list(names))
                }
                FlowNote::NoServers => "No available servers, skip the deployment".to_owned(),
            };
            self.log.verbose(&line);
        }
    }

    /// Why experiments wait, a line for each that waits for something else than before.
    fn tell_waiting(&mut self, flow: &Flow) {
        self.log.past = !self.journal.is_at_end();
        let stage = &self.spec.stages[flow.stage()];
        let mut now = Vec::new();
        for (at, blocked) in flow.blocked() {
            let why = match blocked {
                WaitReason::Retried => continue,
                WaitReason::Needs(needs) => {
                    let names = needs.iter().map(|at| quoted(&stage[*at].name));
                    format!("needs {}", names.collect::<Vec<_>>().join(", "))
                }
                WaitReason::Unsatisfied(each) if each.is_empty() => continue,
                WaitReason::Unsatisfied(each) => {
                    let each = each.iter().map(|(server, requirement, metric, answer)| {
                        let requirement = &stage[*at].requirements[*requirement];
                        let server = quoted(&self.spec.servers[*server].name);
                        if matches!(metric, Metric::Null | Metric::Missing) {
                            return format!("{} has no value on {server}", requirement.id);
                        }
                        let sense = match answer {
                            Satisfaction::Incomparable => ", which has no order with it",
                            _ => "",
                        };
                        let (id, wanted) = (&requirement.id, &requirement.expression);
                        format!(
                            "{id} {wanted} is {} on {server}{sense}",
                            metric_text(metric)
                        )
                    });
                    each.collect::<Vec<_>>().join("; ")
                }
            };
            now.push(format!("Experiment \"{}\" waits: {why}", stage[*at].name));
        }
        for line in &now {
            if !self.said.contains(line) {
                self.log.info(line);
            }
        }
        self.said = now.into_iter().collect();
    }

    fn elapsed_s(&self) -> f64 {
        let elapsed = self.kept.started().elapsed();
        elapsed.unwrap_or_default().as_secs_f64()
    }

    fn finished(&self, flow: &Flow) {
        let elapsed = self.elapsed_s();
        let (deployed, all) = flow.deployed();
        // A flow that has finished deployed all there were.
        let share = if all == 0 { 0 } else { 100 };
        self.log.info(&format!("Total elapsed time: {elapsed:.3}s"));
        self.log.info(&format!(
            "Successfully deployed {share}% ({deployed}/{all}) \"{}\" experiments",
            self.kept.command_type
        ));
    }

    fn stuck(&self, flow: &Flow) -> Fault {
        let names: Vec<String> = (flow.undeployed().iter())
            .map(|at| quoted(&self.spec.stages[flow.stage()][*at].name))
            .collect();
        let why = if self.spec.servers.is_empty() {
            "the spec has no servers"
        } else {
            "each of them needs another one that is not deployed"
        };
        let what = format!("nothing can ever deploy {}", names.join(", "));
        let hint = "`--check` shows what each of them needs";
        Fault::failed(what).cause(why).hint(hint)
    }

    async fn pause(&mut self, interval: Interval, seconds: f64) -> Result<(), Stop> {
        let next = match interval {
            Interval::Round => "round",
            Interval::Deployment => "deployment",
            Interval::Commands => "commands",
        };
        let shown = if seconds.fract() == 0.0 && seconds < 1e15 {
            format!("{seconds:.0}")
        } else {
            float_text(seconds)
        };
        self.log
            .verbose(&format!("Wait for next {next} for {shown}s"));
        if self.journal.past("waited")?.is_none() {
            let pause = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            tokio::time::sleep(pause).await;
            self.journal.write("waited", &Value::Null)?;
        }
        Ok(())
    }

    /// Runs the commands of an experiment, again after an end that had ended the flow.
    async fn deploy(
        &mut self,
        experiment: &Experiment,
        server: &Server,
    ) -> Result<CommandsEnd, Stop> {
        loop {
            if let Some(ended) = self.deploy_once(experiment, server).await? {
                return Ok(ended);
            }
        }
    }

    /// `None`: its end had ended the flow, and was told then.
    async fn deploy_once(
        &mut self,
        experiment: &Experiment,
        server: &Server,
    ) -> Result<Option<CommandsEnd>, Stop> {
        self.log.info(&format!(
            "Deploy experiment \"{}\" to server \"{}\"",
            experiment.name, server.name
        ));
        let exact = self.server_values(experiment, server).await?;
        let mut env = experiment.env.clone();
        env.retain(|(name, _)| !exact.iter().any(|(known, _)| known == name));
        let own = exact.iter();
        env.extend(own.map(|(name, value)| ((*name).to_owned(), value.clone())));
        let mut paths = [None, None];
        for (path, written) in paths
            .iter_mut()
            .zip([&experiment.stdout_to, &experiment.stderr_to])
        {
            if let Some(written) = written {
                *path = Some(self.expanded(written, &env).await?);
            }
        }
        let place = GroupPlace {
            experiment,
            server,
            exact: &exact,
            env: &env,
        };
        let mut ends = Vec::new();
        for (number, group) in experiment.commands.iter().enumerate() {
            let end = self.group(&place, group, &paths, number > 0).await?;
            let is_cut = end.code.is_none();
            ends.push(end);
            // The groups behind one that a person aborted, or that was lost, do not run.
            if is_cut {
                break;
            }
        }
        let Some(status) = self.handle_ends(&place, &ends).await? else {
            return Ok(None);
        };
        // What was printed before is followed by other results.
        self.log.past = !self.journal.is_at_end();
        self.tell_outputs(experiment, &ends);
        let word = match status {
            CommandsEnd::Continue => "continue",
            CommandsEnd::Retry => "retry",
            _ => return Ok(Some(status)),
        };
        self.log.warning(&format!(
            "Unsuccessful deployment of experiment \"{}\", will {word}",
            experiment.name
        ));
        Ok(Some(status))
    }

    /// The variables of the server, with those in them expanded.
    async fn server_values(
        &mut self,
        experiment: &Experiment,
        server: &Server,
    ) -> Result<Vec<(&'static str, String)>, Stop> {
        let mut exact = Vec::new();
        for (name, text) in server.variables(&experiment.name) {
            // Names are no program, whatever stands in them.
            let value = match name {
                "NOODLES_EXPERIMENT_NAME" | "NOODLES_SERVER_NAME" => text,
                _ => self.expanded(&text, &experiment.env).await?,
            };
            exact.push((name, value));
        }
        Ok(exact)
    }

    /// Has the handlers of errors respond to the ends of an experiment's groups. `None`: as in
    /// `deploy_once`.
    async fn handle_ends(
        &mut self,
        place: &GroupPlace<'_>,
        ends: &[GroupEnd],
    ) -> Result<Option<CommandsEnd>, Stop> {
        let mut status = CommandsEnd::Success;
        // What a person ended is no matter of handlers.
        let cut = ends.iter().filter(|end| end.code.is_none());
        for end in cut.chain(ends) {
            status = if end.error {
                self.answer(end.handler, Some(place)).await?
            } else {
                CommandsEnd::Success
            };
            if status == CommandsEnd::Abort {
                let experiment = place.experiment;
                let (name, server) = (quoted(&experiment.name), quoted(&place.server.name));
                let what = format!("experiment {name} on server {server}");
                let fault = self.aborted(&what, end.code, &end.end, &end.cut);
                if let Err(fault) = self.tried_again(fault, end.is_told) {
                    self.log.past = false;
                    self.tell_outputs(experiment, ends);
                    return Err(fault.into());
                }
                return Ok(None);
            }
            if status == CommandsEnd::Retry {
                break;
            }
        }
        Ok(Some(status))
    }

    fn tell_outputs(&self, experiment: &Experiment, ends: &[GroupEnd]) {
        let log = self.log;
        match &experiment.stdout_to {
            Some(path) => log.info(&format!("STDOUT output is written to \"{path}\"")),
            None => {
                let printed: String = ends.iter().map(|end| end.end.stdout.as_str()).collect();
                log.info(&format!("Commands output from STDOUT->\n{printed}"));
            }
        }
        match &experiment.stderr_to {
            Some(path) => log.info(&format!("STDERR output is written to \"{path}\"")),
            None => {
                let printed: String = ends.iter().map(|end| end.end.stderr.as_str()).collect();
                if !printed.is_empty() {
                    log.warning(&format!("Commands output from STDERR->\n{printed}"));
                }
            }
        }
    }

    /// What a handler wants after an error. Its commands run where the experiment does.
    pub(super) async fn answer(
        &mut self,
        handler: Option<usize>,
        place: Option<&GroupPlace<'_>>,
    ) -> Result<CommandsEnd, Stop> {
        let spec = self.spec;
        let Some(handler) = handler.and_then(|at| spec.error_handlers.get(at)) else {
            return Ok(CommandsEnd::Abort);
        };
        if let Some(place) = place {
            for group in &handler.commands {
                // It is no error of the experiment if these fail.
                self.group(place, group, &[None, None], false).await?;
            }
        }
        match &handler.action {
            Action::Retry => Ok(CommandsEnd::Retry),
            Action::Continue => Ok(CommandsEnd::Continue),
            Action::Abort => Ok(CommandsEnd::Abort),
            Action::Unknown(word) => {
                let what = format!("an error handler has the action {}", quoted(word));
                let hint = "actions are abort, retry, continue";
                Err(Fault::failed(what).hint(hint).into())
            }
        }
    }

    /// Whether a shell's end is an error, and the handler that is for it.
    pub(super) fn judge(&self, end: &ShellEnd) -> Result<(bool, Option<usize>), Fault> {
        let is_clean = end.code == 0 && end.stderr.is_empty() && end.outer.is_empty();
        if is_clean || !self.spec.check_any_errors {
            return Ok((false, None));
        }
        for (at, handler) in self.spec.error_handlers.iter().enumerate() {
            let fits = handler.matches(end.code, &end.stderr).map_err(|_| {
                let which = match handler.name.as_str() {
                    "" => format!("number {}", at + 1),
                    name => quoted(name),
                };
                let what = format!("the error handler {which} cannot be tried");
                Fault::failed(what)
                    .cause("its pattern takes too many steps for what was printed")
                    .hint("what looks ahead or back, or repeats a group, is compared with less than 1 MB")
            })?;
            if fits {
                self.tell_handler(handler);
                return Ok((true, Some(at)));
            }
        }
        Ok((true, None))
    }

    fn tell_handler(&self, handler: &Handler) {
        let commands = handler.commands.iter().flat_map(|group| &group.commands);
        let commands: Vec<&str> = commands.map(String::as_str).collect();
        let action = match &handler.action {
            Action::Abort => "abort",
            Action::Retry => "retry",
            Action::Continue => "continue",
            Action::Unknown(word) => word,
        };
        self.log.verbose(&format!(
            "Found error handler match\nName: {}\nCommands->\n{}\nAction: {action}",
            handler.name,
            commands.join("\n")
        ));
    }

    pub(super) fn aborted(
        &self,
        what: &str,
        code: Option<i32>,
        end: &ShellEnd,
        cut: &str,
    ) -> Fault {
        let mut fault = Fault::failed(format!("{what} ended the flow"));
        fault = match code {
            Some(code) => fault.cause(format!("exit code {code}")),
            None => fault.cause(cut),
        };
        let printed = format!("{}{}", end.outer, end.stderr);
        if let Some(last) = printed.lines().rfind(|line| !line.trim().is_empty()) {
            fault = fault.cause(last);
        }
        fault.hint(format!("{} tries it again and goes on", self.kept.resume()))
    }

    /// Lets an end that once ended the flow be tried again; else gives the fault back.
    fn tried_again(&mut self, fault: Fault, is_told: bool) -> Result<(), Fault> {
        if self.journal.past("tried again")?.is_some() {
            return Ok(());
        }
        // What ended the flow before is tried again; what ends it now is told.
        if self.journal.has_written() && !is_told {
            return Err(fault);
        }
        self.journal.write("tried again", &Value::Null)
    }

    /// Writes the status file of the main stage; `deployed` is deployed besides those that the flow
    /// knows of.
    async fn write_status(&mut self, flow: &Flow, deployed: Option<usize>) -> Result<(), Stop> {
        let spec = self.spec;
        let (Some(written), MAIN_STAGE) = (&spec.status_path, flow.stage()) else {
            return Ok(());
        };
        let path = match self.status_path.clone() {
            Some(path) => path,
            None => self.expanded(written, &spec.default_env).await?,
        };
        self.status_path = Some(path.clone());
        if !self.journal.is_at_end() {
            return Ok(());
        }
        let mut undeployed = flow.undeployed();
        undeployed.retain(|at| Some(*at) != deployed);
        let stage = &spec.stages[MAIN_STAGE];
        let names = |wanted: bool| {
            let all = stage.iter().enumerate();
            let all = all.filter(|(at, _)| undeployed.contains(at) == wanted);
            all.map(|(_, one)| one.name.as_str()).collect::<Vec<_>>()
        };
        let status = StatusFile {
            command_type: &self.kept.command_type,
            spec_path: &self.kept.spec_word(),
            started: &iso(self.kept.started()),
            previous_round: &iso(self.previous_round),
            elapsed_s: self.elapsed_s(),
            stage: STAGES[MAIN_STAGE],
            round: flow.round() + 1,
            deployed: &names(false),
            undeployed: &names(true),
        };
        let path = self.kept.folder.join(path);
        let written = replace(&path, &status.yaml()).err();
        let error = written.map_or_else(String::new, |error| error.to_string());
        // The flow does not depend on it.
        if !error.is_empty() && error != self.status_error {
            self.log.warning(&format!(
                "Cannot write the status file \"{}\": {error}",
                path.display()
            ));
        }
        self.status_error = error;
        Ok(())
    }
}

/// A file that readers see whole, old or new.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside: PathBuf = path.with_file_name(name);
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

/// Makes a private folder.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(path: &Path) -> Result<(), Fault> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|error| Fault::cannot("make", path).because(&error))
}

/// Python's `isoformat` of local time.
fn iso(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    let local = time.to_zoned(jiff::tz::TimeZone::system());
    local.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

/// Names as Python writes a list in JSON.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names = names.map(|name| {
        let mut text = String::new();
        for c in json!(name).to_string().chars() {
            if c.is_ascii() {
                text.push(c)
            } else {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
        text
    });
    let names: Vec<String> = names.collect();
    format!("[{}]", names.join(", "))
}

fn metric_text(metric: &Metric) -> String {
    match metric {
        Metric::Number(number) => float_text(*number),
        Metric::Text(text) => quoted(text),
        Metric::Null | Metric::Missing => "nothing".to_owned(),
    }
}
