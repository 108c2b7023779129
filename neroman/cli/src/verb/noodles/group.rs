//! Groups of commands: a run on `local` each.

use std::fs;
use std::path::{Path, PathBuf};

use nero_noodles::{CommandGroup, Experiment, Server, script, whole_script};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{Assignment, ExperimentView, RunView, ShowRequest, StartRequest};
use serde_json::{Value, json};

use super::drive::Drive;
use super::flow_folder::{KeptFlow, private};
use super::shell::{self, ShellEnd, Streams};
use crate::connect::for_jobs;
use crate::fault::{Fault, Stop};
use crate::session::{InterruptNotice, selection};
use crate::verb::change::start;
use crate::verb::{listed, wait};

/// How a group ended.
pub(super) struct GroupEnd {
    pub(super) code: Option<i32>,
    pub(super) error: bool,
    /// The index of the handler that is for it.
    pub(super) handler: Option<usize>,
    /// Why there is no exit code.
    pub(super) cut: String,
    /// What it printed.
    pub(super) end: ShellEnd,
    /// Whether the person knows the end, having asked for it before this process began.
    pub(super) is_told: bool,
}

impl GroupEnd {
    /// An end that the journal has, with what was printed.
    fn of_journal(past: &Value, end: ShellEnd) -> Self {
        let code = past["code"].as_i64();
        let handler = past["handler"].as_u64();
        Self {
            code: code.and_then(|code| i32::try_from(code).ok()),
            error: past["error"].as_bool().unwrap_or(true),
            handler: handler.and_then(|at| usize::try_from(at).ok()),
            cut: past["cut"].as_str().unwrap_or_default().to_owned(),
            end,
            is_told: false,
        }
    }
}

/// The exit code of a run that ended by itself; else what became of it.
fn exit_code(run: &RunView) -> (Option<i32>, String) {
    // What a person or a limit ended has no result that a handler is for.
    let by_itself = matches!(run.state.as_str(), "finished" | "crashed");
    let code = run.exit_code.or(run.signal.map(|signal| -signal));
    let code = code.filter(|_| by_itself);
    let cut = format!("its run is {} {}", run.state, run.reason);
    let cut = if code.is_none() { cut.trim() } else { "" };
    (code, cut.to_owned())
}

/// The files of a group of commands.
struct GroupFiles {
    streams: Streams,
    stdout: PathBuf,
    stderr: PathBuf,
    /// What the run executes.
    program: PathBuf,
    /// What the shell, or the ssh, prints about itself.
    outer: PathBuf,
}

impl GroupFiles {
    /// `paths`: where the outputs go, if the spec has it.
    fn new(kept: &KeptFlow, number: u64, paths: &[Option<String>; 2], append: bool) -> Self {
        let name = kept.groups().join(number.to_string());
        let streams = Streams::new(&name, paths, append);
        Self {
            stdout: kept.folder.join(&streams.stdout),
            stderr: kept.folder.join(&streams.stderr),
            streams,
            program: name.with_extension("sh"),
            outer: name.with_extension("outer"),
        }
    }

    /// The bytes of the outputs that the group keeps.
    fn sizes(&self) -> [u64; 2] {
        [&self.stdout, &self.stderr].map(|path| {
            let kept = self.streams.append.then(|| fs::metadata(path).ok());
            kept.flatten().map_or(0, |file| file.len())
        })
    }

    /// What the group printed behind these offsets; `stderr` if that is known already.
    fn end(&self, code: i32, offsets: [u64; 2], stderr: Option<&str>) -> Result<ShellEnd, Fault> {
        let read = |path: &Path, from: u64| {
            let read = shell::text(path, from);
            read.map_err(|error| Fault::cannot("read", path).because(&error))
        };
        Ok(ShellEnd {
            code,
            stdout: read(&self.stdout, offsets[0])?,
            stderr: match stderr {
                Some(known) => known.to_owned(),
                None => read(&self.stderr, offsets[1])?,
            },
            outer: read(&self.outer, 0)?,
        })
    }
}

/// Where commands run.
pub(super) struct GroupPlace<'p> {
    pub(super) experiment: &'p Experiment,
    pub(super) server: &'p Server,
    pub(super) exact: &'p [(&'static str, String)],
    pub(super) env: &'p [(String, String)],
}

impl Drive<'_> {
    pub(super) fn endpoint(&self, local: bool, server: &Server) -> String {
        let shell = &self.spec.shell_string;
        if local {
            shell.clone()
        } else {
            server.endpoint(shell)
        }
    }

    /// Runs a group of commands, unless it has run.
    pub(super) async fn group(
        &mut self,
        place: &GroupPlace<'_>,
        group: &CommandGroup,
        paths: &[Option<String>; 2],
        append: bool,
    ) -> Result<GroupEnd, Stop> {
        let number = self.groups;
        self.groups += 1;
        let files = GroupFiles::new(self.kept, number, paths, append);
        let begun = self.journal.past("begun")?;
        let was_begun = begun.is_some();
        let offsets = match begun {
            Some(past) => [past[0].as_u64().unwrap_or(0), past[1].as_u64().unwrap_or(0)],
            None => {
                let offsets = files.sizes();
                self.write_group(place, group, &files)?;
                self.journal.write("begun", &json!(offsets))?;
                offsets
            }
        };
        let mut known = self.journal.past("run")?;
        if known.is_none() && was_begun {
            known = self.unheard_run(number).await?;
        }
        let ended = match known {
            Some(_) => self.journal.past("ended")?,
            None => None,
        };
        if let Some(past) = ended {
            self.knows(known.as_ref());
            let stderr = past["stderr"].as_str().filter(|_| paths[1].is_some());
            let end = files.end(0, offsets, stderr)?;
            return Ok(GroupEnd::of_journal(&past, end));
        }
        self.log.past = false;
        let is_resumed = known.is_some();
        let run = self.run(number, known).await?;
        self.newest = run.number.into();
        self.tell_refused();
        let (code, cut) = exit_code(&run);
        let end = files.end(code.unwrap_or(-1), offsets, None)?;
        let (error, handler) = match code {
            Some(_) => self.judge(&end)?,
            // A handler is for an exit code, and a run that was aborted or lost has none.
            None => (true, None),
        };
        let last = end.stderr.lines().next_back().unwrap_or_default();
        let last: String = last.chars().take(400).collect();
        self.journal.write(
            "ended",
            &json!({"code": code, "error": error, "handler": handler, "cut": cut, "stderr": last}),
        )?;
        Ok(GroupEnd {
            code,
            error,
            handler,
            cut,
            end,
            is_told: is_resumed && run.state == "aborted",
        })
    }

    /// The run of a group whose start another process asked for, and did not hear the answer: the
    /// daemon answers a request once only as long as it remembers it.
    async fn unheard_run(&mut self, number: u64) -> Result<Option<Value>, Stop> {
        let name = format!("name={}", self.kept.experiment());
        let all = listed::views(self.session, selection(&[name])).await?;
        let is_of_group = |view: &&ExperimentView| {
            let mut params = view.params.iter();
            let group = params.find(|param| param.name == "group");
            let is_new = u64::from(view.run) > self.newest;
            is_new && group.is_some_and(|group| group.text == number.to_string())
        };
        let Some(view) = all.iter().find(is_of_group) else {
            return Ok(None);
        };
        let known = json!([view.id, view.run]);
        self.journal.write("run", &known)?;
        Ok(Some(known))
    }

    fn knows(&mut self, run: Option<&Value>) {
        let part = |at: usize| run.and_then(|run| run[at].as_u64());
        self.experiment = part(0);
        self.newest = part(1).unwrap_or(self.newest);
    }

    /// Tells once what of the caller's limits groups cannot have.
    fn tell_refused(&mut self) {
        let refused = fs::read_to_string(self.kept.refused()).unwrap_or_default();
        if self.has_told_refused || refused.is_empty() {
            return;
        }
        self.has_told_refused = true;
        let mut names: Vec<&str> = refused.lines().collect();
        names.sort_unstable();
        names.dedup();
        self.log.warning(&format!(
            "Commands are limited as the shell was that started the daemon: {}. After `neroman daemon stop` the next one has the limits of this shell",
            names.join(", ")
        ));
    }

    /// The files of a group.
    fn write_group(
        &mut self,
        place: &GroupPlace<'_>,
        group: &CommandGroup,
        files: &GroupFiles,
    ) -> Result<(), Fault> {
        let streams = &files.streams;
        let text = script(&place.experiment.env, place.exact, &group.commands);
        let endpoint = self.endpoint(group.local, place.server);
        let endpoint = if group.local {
            endpoint
        } else {
            self.connections.shared(self.spec, endpoint)
        };
        let line = shell::line(self.spec, &endpoint, streams);
        self.log.debug(&format!(
            "Write command to {}->\n{text}",
            streams.script.display()
        ));
        self.log.debug(&format!("Run command: {line}"));
        let env = place.env.iter();
        let env = env.map(|(name, value)| (name.into(), value.into()));
        let word = |path: &Path| shell::quote_word(path.as_os_str().as_encoded_bytes());
        let mut lines = [
            b". ",
            &*word(&self.kept.env()),
            b"\ncd ",
            &*word(&self.kept.folder),
        ]
        .concat();
        lines.extend(b" || exit 1\n");
        lines.extend(shell::exports(env));
        lines.extend(line.as_bytes());
        lines.extend([b" 2> ", &*word(&files.outer), b"\n"].concat());
        let text = whole_script(self.spec, &text);
        private(&streams.script, text.as_bytes())?;
        private(&files.program, &lines)
    }

    /// The run of a group, to its end. `known`: the journal's record of it.
    pub(super) async fn run(&mut self, number: u64, known: Option<Value>) -> Result<RunView, Stop> {
        let known = match known {
            Some(known) => known,
            None => self.start(number).await?,
        };
        self.experiment = known[0].as_u64();
        let (experiment, run) = (&known[0], &known[1]);
        let (experiment, run) = (experiment.to_string(), format!("{experiment}.{run}"));
        let text = format!(
            "nothing more is placed. {run} runs on: Ctrl-C again aborts it, {} goes on",
            self.kept.resume()
        );
        self.session.on_interrupt(InterruptNotice {
            text,
            run: Some(run.clone()),
        });
        wait::to_end(self.session, selection(&[experiment])).await?;
        let asked = ShowRequest {
            what: run.clone(),
            ..ShowRequest::default()
        };
        let shown = self.session.read(asked, ManClient::show);
        let shown = shown.await?.run;
        self.session.on_interrupt(InterruptNotice::text(format!(
            "{} goes on",
            self.kept.resume()
        )));
        shown.ok_or_else(|| Fault::failed(format!("run {run} is gone")).into())
    }

    /// Starts the run of a group. The daemon answers this request once, however often it gets it
    /// within days; after the answer it is never sent again.
    async fn start(&mut self, number: u64) -> Result<Value, Stop> {
        let asked = StartRequest {
            request: self.kept.request(number),
            node: "local".to_owned(),
            shell: for_jobs(),
            ..StartRequest::default()
        };
        let asked = match &self.experiment {
            Some(experiment) => StartRequest {
                selection: Some(selection(&[experiment.to_string()])),
                restart: true,
                set: vec![Assignment {
                    key: "group".to_owned(),
                    text: number.to_string(),
                }],
                ..asked
            },
            None => StartRequest {
                paths: vec![self.kept.source().display().to_string()],
                ..asked
            },
        };
        let reply = start::send(self.session, asked).await?;
        let Some(started) = start::started(&reply).next() else {
            let first = reply.experiments.first();
            let why = first.map_or("", |one| one.skipped.as_str());
            let fault = Fault::failed("a group of commands did not start").cause(why);
            let hint = format!("{} goes on", self.kept.resume());
            return Err(fault.hint(hint).into());
        };
        let known = json!([started.experiment, started.run]);
        self.journal.write("run", &known)?;
        Ok(known)
    }
}
