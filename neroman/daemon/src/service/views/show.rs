//! `Show`: all facts of one experiment or run.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_wire::v1;

use super::view::{self, Sight};
use crate::service::Man;
use crate::service::files::logs::copy_of;
use crate::service::select;
use nero_format::SchedulerOptions;
use nero_home::failure::Failure;
use nero_home::spec;
use nero_life::experiment::Experiment;
use nero_life::run::{Results, Run};
use nero_link::connect::mum_client;

/// Bytes that are read for the last lines.
const TAIL_BYTES: u64 = 8 * 1024;
/// How long the node may take for the last lines; they are a convenience.
const PATIENCE: Duration = Duration::from_secs(2);

/// GPUs, and what the scheduler of its node is asked for, but for the lines of `setup`, which
/// may have secrets.
fn asked_of_scheduler(experiment: &Experiment, run: Option<&Run>) -> Option<v1::SchedulerRequest> {
    let asks = run.map_or(&*experiment.definition.scheduling, |run| {
        &run.made.takes.scheduling
    });
    let node = run.and_then(Run::node).unwrap_or(nero_config::LOCAL);
    let request = spec::scheduler(asks, &SchedulerOptions::default(), node)?;
    Some(v1::SchedulerRequest {
        setup: Vec::new(),
        ..request
    })
}

impl Man {
    /// All facts of one experiment or run.
    pub(crate) async fn show(&self, request: v1::ShowRequest) -> Result<v1::ShowReply, Failure> {
        let zone = select::zone(&request.zone, 0);
        let chosen = select::choose_single(&self.ledger.state(), &request.what, self.now())?;
        self.settle(std::slice::from_ref(&chosen)).await;
        let state = self.ledger.state();
        let experiment = state
            .experiment(chosen.id)
            .ok_or_else(|| Failure::usage(format!("`{}` picks nothing", request.what)))?;
        self.ledger.durable().await?;
        let run = chosen.of(experiment);
        let definition = &experiment.definition;
        let sight = Sight::new(&state, self.nodes.known(), zone.clone(), self.clock);
        let mut reply = v1::ShowReply {
            experiment: Some(view::experiment(experiment, run, &sight)),
            run: run.map(|run| run_view(run, &sight)),
            missing: run.map_or_else(String::new, |run| run.missing().to_owned()),
            runs: experiment
                .runs
                .iter()
                .map(|run| run_view(run, &sight))
                .collect(),
            argv: spec::display_command(&definition.argv),
            resources: Some(spec::resources(&definition.resources)),
            scheduler: asked_of_scheduler(experiment, run),
            rules: super::rules::states(&state, experiment, run),
            metric_patterns: (*definition.metric_patterns).clone(),
            metric_reading: spec::metric_reading(&definition.metric_reading),
            notes: (*definition.notes).clone(),
            ..v1::ShowReply::default()
        };
        if let Some(text) = &*definition.custom_msg {
            reply.notes.push(text.clone());
        }
        reply.history = self.history(experiment, &zone).await?;
        if experiment.changed() {
            reply
                .notes
                .push("its definition is newer than its newest run".to_owned());
        }
        if let Some(run) = run {
            self.show_run(run, &mut reply).await?;
        }
        Ok(reply)
    }

    async fn show_run(&self, run: &Run, reply: &mut v1::ShowReply) -> Result<(), Failure> {
        match self.ledger.spec(run.made.id).await? {
            Ok(mut spec) => {
                if run.node().is_some_and(|node| node != nero_config::LOCAL) {
                    spec::without_shell(&mut spec);
                }
                reply.argv = spec::display_command(&spec.argv);
                if let Some(view) = &mut reply.experiment {
                    // Its definition may have other ones by now.
                    view.params = spec.params;
                }
                reply.env = spec::masked(&spec.env);
                let there = run.node();
                let there = there.and_then(|node| spec::resources_on(&run.made, node));
                reply.resources = there.or(spec.resources);
                reply.metric_patterns = spec.metric_patterns;
                reply.metric_reading = spec.metric_reading;
                reply.outputs = spec.outputs;
            }
            Err(unread) => reply.notes.push(unread.to_string()),
        }
        reply.tree = run.made.tree.clone();
        reply.git = run.made.git.clone();
        let lacks = self.lacks_points(run).await?;
        if !lacks.is_empty() && !reply.missing.is_empty() {
            reply.missing.push_str("; ");
        }
        reply.missing.push_str(&lacks);
        reply.facts = facts(run);
        reply.work = self.work_of(run);
        if let Some(exit) = run.exit() {
            reply.user_cpu_s = exit.user_cpu_us as f64 / 1e6;
            reply.system_cpu_s = exit.system_cpu_us as f64 / 1e6;
            reply.peak_rss_bytes = exit.peak_rss_bytes;
        } else if let Some(sample) = &run.journal.sample {
            reply.user_cpu_s = sample.cpu_ms as f64 / 1e3;
            reply.peak_rss_bytes = sample.peak_rss_bytes;
            let used = v1::GpuUse {
                utilisation: sample.gpu,
                memory_bytes: sample.gpumem_bytes,
                power_w: sample.gpu_power_w,
                temperature_c: sample.gpu_temperature_c,
            };
            reply.gpu_use = Some(used).filter(|used| *used != v1::GpuUse::default());
        }
        if let Results::Done { notes, .. } = run.results() {
            reply.notes.extend(notes.iter().cloned());
        }
        if let Some(made) = run.processed() {
            reply.notes.extend(made.problems.iter().cloned());
            reply.notes.extend(made.notes.iter().cloned());
            let pictures = made.pictures.iter();
            reply
                .notes
                .extend(pictures.map(|name| format!("plot among the results: {name}")));
        }
        if let Some(away) = self.away(run) {
            reply.notes.push(away);
        } else if run.started_ms().is_some() {
            reply.stdout_tail = self.tail(run, false).await;
            reply.stderr_tail = self.tail(run, true).await;
        }
        Ok(())
    }

    /// The note that a run's last lines lie on a node out of reach.
    fn away(&self, run: &Run) -> Option<String> {
        let home = run.results().settled() && !run.results().folder().is_empty();
        let now = self.nodes.now(run.node()?);
        if home || run.started_ms().is_none() || !now.out_of_reach() {
            return None;
        }
        Some(format!(
            "its last lines are on {}, which is out of reach: {}",
            run.node_word(),
            now.why_not()
        ))
    }

    /// The end of a log; empty if neither copy nor node has it.
    async fn tail(&self, run: &Run, stderr: bool) -> Vec<u8> {
        if let Some(path) = copy_of(run, stderr).filter(|_| run.results().settled()) {
            let tail = crate::service::blocking(move || nero_model::tail(&path, TAIL_BYTES)).await;
            return tail.ok().and_then(Result::ok).unwrap_or_default();
        }
        if run.phase().is_end() && !run.printed() {
            return Vec::new();
        }
        let asked = tokio::time::timeout(PATIENCE, async {
            let channel = self.nodes.channel(run.node()?, PATIENCE).await.ok()?;
            let mut parts = mum_client(channel)
                .read_log(v1::ReadLogRequest {
                    run: Some(v1::RunRef {
                        token: run.made.token.to_vec(),
                        experiment: run.made.id.experiment.0,
                        number: run.made.id.number,
                    }),
                    stderr,
                    offset: -(TAIL_BYTES as i64),
                    max_bytes: TAIL_BYTES,
                    ..v1::ReadLogRequest::default()
                })
                .await
                .ok()?
                .into_inner();
            let mut tail = Vec::new();
            while let Ok(Some(part)) = parts.message().await {
                tail.extend_from_slice(&part.data);
                if part.end || tail.len() as u64 >= TAIL_BYTES {
                    break;
                }
            }
            Some(tail)
        });
        asked.await.ok().flatten().unwrap_or_default()
    }

    async fn history(
        &self,
        experiment: &Experiment,
        zone: &TimeZone,
    ) -> Result<Vec<String>, Failure> {
        let mut lines: Vec<(i64, String)> = vec![(experiment.created_ms, "added".to_owned())];
        for event in self.ledger.events(experiment.id).await? {
            lines.push((event.at_ms, event.text));
        }
        for run in &experiment.runs {
            lines.extend(run_history(run));
        }
        lines.sort_by_key(|(at, _)| *at);
        Ok(lines
            .into_iter()
            .map(|(at, text)| format!("{} {text}", moment(at, zone)))
            .collect())
    }
}

/// What happened to a run, and when.
fn run_history(run: &Run) -> Vec<(i64, String)> {
    let id = run.made.id;
    let queued = format!("{id}: queued for {}", run.made.node);
    let mut lines = vec![(run.made.created_ms, queued)];
    for (number, one) in &run.journal.incarnations {
        if let Some(at) = one.started_ms {
            let which = match number {
                1 => String::new(),
                more => format!(" (start {more})"),
            };
            lines.push((at, format!("{id}: started{which}")));
        }
        if one.taken_over > 0 {
            let at = one.exit.as_ref();
            let at = at.map_or(run.made.created_ms, |exit| exit.at_ms);
            lines.push((at, format!("{id}: its supervisor died, another took over")));
        }
    }
    if let Some(cancel) = run.cancel() {
        let who = match cancel.author.as_str() {
            "" => String::new(),
            author => format!(" by {author}"),
        };
        lines.push((cancel.asked_ms, format!("{id}: abort asked{who}")));
    }
    for rule in run.journal.rules.values().filter(|rule| rule.fired > 0) {
        let text = format!("{id}: rule `{}` fired ({})", rule.text, rule.last_values);
        lines.push((rule.last_fired_ms, text));
    }
    for firing in run.fired().values() {
        let text = format!("{id}: rule `{}` fired ({})", firing.text, firing.values);
        lines.push((firing.at_ms, text));
    }
    let beside = run.journal.rules.values();
    let beside = beside.flat_map(|facts| facts.ran.values().map(|ran| (&facts.text, ran)));
    let here = run.acted().iter().filter_map(|(rule, acted)| {
        let text = run.fired().get(rule).map(|firing| &firing.text);
        let text = text.or_else(|| Some(&run.journal.rules.get(rule)?.text));
        Some((text?, &acted.ran))
    });
    for (text, ran) in beside.chain(here) {
        let line = format!("{id}: command of rule `{text}`: {}", ran.line());
        lines.push((ran.at_ms, line));
    }
    for remark in &run.journal.notices {
        lines.push((remark.at_ms, format!("{id}: {}", remark.text)));
    }
    if let Some(at) = run.outcome.ended_ms {
        let mut why = run.reason().map_or(String::new(), |why| format!(": {why}"));
        if !run.stderr_line().is_empty() {
            why.push_str(&format!(": {}", run.stderr_line()));
        }
        lines.push((at, format!("{id}: {}{why}", run.phase())));
    }
    lines
}

fn moment(at_ms: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(at_ms).map_or_else(
        |_| at_ms.to_string(),
        |at| {
            at.to_zoned(zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
        },
    )
}

fn run_view(run: &Run, sight: &Sight<'_>) -> v1::RunView {
    let (exit_code, signal) = view::exit(run);
    v1::RunView {
        number: run.made.id.number,
        state: run.state_word().as_str().to_owned(),
        reason: run.reason().map(ToString::to_string).unwrap_or_default(),
        node: run.node_word().to_owned(),
        created_ms: run.made.created_ms,
        started_ms: run.started_ms().unwrap_or(0),
        ended_ms: run.outcome.ended_ms.unwrap_or(0),
        exit_code,
        signal,
        runtime_s: sight.runtime_s(run),
        incarnations: u32::try_from(run.journal.incarnations.len()).unwrap_or(u32::MAX),
        results: run.results().folder().to_owned(),
        token: run.made.token.to_string(),
        stderr_line: run.stderr_line().to_owned(),
        batch: view::batch(run),
        strays: strays(run),
        follows: run.made.follows.as_ref().map(view::follows),
        progress: run.journal.progress().map(|progress| progress.done),
        eta_s: run.eta_s(sight.runtime_s(run)),
        image: view::image(run),
        priority: run.made.priority,
    }
}

/// Shorter waits for processes that end by themselves are not reported.
const STRAYS_MS_MIN: u64 = 1000;

/// Processes that outlived the main one of the newest start, if they need a
/// report.
fn strays(run: &Run) -> Option<v1::Strays> {
    let gone = run.journal.newest()?.1.gone.as_ref()?;
    let strays = v1::Strays {
        ended: gone.strays_killed,
        left: u32::try_from(gone.strays_left).unwrap_or(u32::MAX),
        waited_s: gone.strays_ms as f64 / 1000.0,
        named: gone
            .strays
            .iter()
            .map(|one| v1::strays::One {
                pid: one.pid,
                name: one.name.clone(),
            })
            .collect(),
    };
    let is_news = strays.ended > 0 || strays.left > 0 || gone.strays_ms >= STRAYS_MS_MIN;
    is_news.then_some(strays)
}

/// Most hosts that one line names.
const HOSTS_SHOWN_MAX: usize = 16;

/// "SLURM's job 12_3 on n1, partition main, 2 CPUs, 4.0G memory, GPU 0".
fn granted(one: &nero_life::journal::SchedulerGrant) -> String {
    let on = match one.hosts.len() {
        0 | 1 => one.host.clone(),
        hosts => {
            let shown = &one.hosts[..hosts.min(HOSTS_SHOWN_MAX)];
            let more = match hosts - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{hosts} hosts: {}{more}", shown.join(" "))
        }
    };
    let mut text = match &*one.scheduler {
        "" => format!("job {} on {on}", one.job),
        scheduler => format!("{scheduler}'s job {} on {on}", one.job),
    };
    let mut say = |what: String, known: bool| {
        if known {
            text.push_str(", ");
            text.push_str(&what);
        }
    };
    let partition = &one.partition;
    say(format!("partition {partition}"), !partition.is_empty());
    let plural = if one.cpus == 1.0 { "" } else { "s" };
    say(format!("{} CPU{plural}", one.cpus), one.cpus > 0.0);
    let memory = nero_model::units::short_bytes(one.memory_bytes);
    say(format!("{memory} memory"), one.memory_bytes > 0);
    let plural = if one.gpus.len() == 1 { "" } else { "s" };
    let gpus = one.gpus.join(", ");
    say(format!("GPU{plural} {gpus}"), !one.gpus.is_empty());
    text
}

fn facts(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    let newest = run.journal.newest();
    if let Some(one) = newest.and_then(|(_, one)| one.granted.as_ref()) {
        lines.push(format!("granted: {}", granted(one)));
    }
    let Some(host) = &run.journal.host else {
        return lines;
    };
    let mut say = |name: &str, value: String| {
        if !value.is_empty() && value != "0" {
            lines.push(format!("{name}: {value}"));
        }
    };
    say("host", host.host.clone());
    say("kernel", host.kernel.clone());
    say("cpus", host.cpus.to_string());
    say("cpu", host.cpu_model.clone());
    say("memory", nero_model::units::short_bytes(host.memory_bytes));
    for gpu in &host.gpus {
        say("gpu", gpu.clone());
    }
    for gpu in &host.given_gpus {
        say("given GPU", gpu.clone());
    }
    lines
}
