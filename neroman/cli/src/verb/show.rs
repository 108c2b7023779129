//! `show ID|RUN`: all facts of an experiment or one of its runs.

mod demands;

use nero_model::safe::Safe;
use nero_views::{Fact, json, object, of_run, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{
    EnvVar, ExperimentView, MetricSummary, Output, RuleState, RunView, ShowReply, ShowRequest,
    Strays,
};
use serde_json::Value;

use crate::args::Show;
use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::{Session, zone};

/// Metrics that are listed.
const METRICS_MAX: usize = 40;

/// Lines of each log at the end.
const TAIL_LINES: usize = 10;

pub async fn run(session: &mut Session, args: &Show) -> Result<u8, Stop> {
    let asked = ShowRequest {
        what: args.picked.clone(),
        zone: zone(),
    };
    let reply = session.read(asked, ManClient::show).await?;
    let (out, fields) = (&session.out, || as_json(&reply));
    out.reply(&reply.notes, fields, || as_text(&out.screen, &reply))?;
    Ok(code::OK)
}

/// The page for eyes.
pub fn as_text(screen: &Screen, reply: &ShowReply) -> String {
    let view = reply.experiment.clone().unwrap_or_default();
    let asked = match &reply.run {
        Some(run) => of_run(view.clone(), run.clone()),
        None => view.clone(),
    };
    let mut page = Page {
        screen,
        text: String::new(),
    };
    page.head(&asked);
    page.what(&asked, reply);
    page.times(&asked, reply.run.as_ref());
    page.used(&view, reply);
    page.code(&view, reply);
    page.metrics(&view, reply.run.as_ref());
    page.list("metrics are read by", reading(reply).into_iter());
    page.rules(&reply.rules);
    page.list("environment", reply.env.iter().map(variable));
    page.list("recorded", reply.facts.iter().cloned());
    page.runs(&reply.runs);
    page.list("history", reply.history.iter().cloned());
    page.list("not built yet", view.not_built.iter().cloned());
    page.tail("stdout", &reply.stdout_tail);
    page.tail("stderr", &reply.stderr_tail);
    page.text
}

struct Page<'a> {
    screen: &'a Screen,
    text: String,
}

impl Page<'_> {
    fn head(&mut self, view: &ExperimentView) {
        let id = json::run_id(view.id, view.run).unwrap_or_else(|| view.id.to_string());
        let name = text::full_name(&view.collection, &view.name);
        let (name, state) = (Safe::line(&name), table::painted(self.screen, &view.state));
        let reason = text::why(&view.state, &view.reason, &view.stderr_line);
        let line = format!("{id}  {name}  {state}  {}", Safe::line(&reason));
        self.text.push_str(&format!("{}\n", line.trim_end()));
        self.fact("run again", view, Fact::Follows);
        self.fact("asked", view, Fact::Cancel);
        self.fact("waits for", view, Fact::Waiting);
        self.fact("held", view, Fact::Held);
        self.fact("contact", view, Fact::Contact);
        for hint in &view.hints {
            self.field("hint", hint);
        }
        for warning in &view.warnings {
            self.field("warning", warning);
        }
    }

    fn what(&mut self, view: &ExperimentView, reply: &ShowReply) {
        self.field("command", &line(&reply.argv));
        let params = view.params.iter();
        let params = params.map(|param| format!("{}={}", param.name, param.text));
        self.field("parameters", &text::join(params, "  "));
        for one in &view.overrides {
            let source = match one.source.as_str() {
                "" => "not in its source".to_owned(),
                source => format!("{source} in its source"),
            };
            self.field("set", &format!("{}={}  ({source})", one.key, one.text));
        }
        self.fact("copy of", view, Fact::CopyOf);
        if view.collections.len() > 1 {
            self.field("collections", &view.collections.join(", "));
        }
        self.fact("tags", view, Fact::Tags);
        self.fact("note", view, Fact::Note);
        self.fact("folder", view, Fact::Path);
        self.fact("node", view, Fact::Node);
        if view.hosts.len() > 1 {
            self.fact("hosts", view, Fact::Hosts);
        }
        self.fact("image", view, Fact::Image);
        self.fact("results", view, Fact::Results);
        let priority = reply.run.as_ref().map_or(0, |run| run.priority);
        if priority != 0 {
            self.field("priority", &priority.to_string());
        }
        self.field("work", &reply.work);
        self.field(
            "outputs",
            &text::join(reply.outputs.iter().map(output), ", "),
        );
    }

    fn times(&mut self, view: &ExperimentView, run: Option<&RunView>) {
        self.fact("added", view, Fact::Created);
        if view.modified_ms != view.created_ms {
            self.fact("changed", view, Fact::Modified);
        }
        self.fact("submitted", view, Fact::Submitted);
        self.fact("started", view, Fact::Started);
        self.fact("ended", view, Fact::Ended);
        let by = match view.as_of_ms {
            0 => String::new(),
            ms => format!(" by {}", text::local_time(ms)),
        };
        if view.runtime_s.is_some() {
            self.field("runtime", &(Fact::Runtime.value(view).text() + &by));
        }
        self.fact("progress", view, Fact::Progress);
        self.fact("eta", view, Fact::Eta);
        if let Some(run) = run
            && run.incarnations > 1
        {
            self.field("starts", &run.incarnations.to_string());
        }
        self.fact("exit code", view, Fact::Exit);
        self.fact("signal", view, Fact::Signal);
        if let Some(strays) = run.and_then(|run| run.strays.as_ref()) {
            self.field("left behind", &left_behind(strays));
        }
    }

    fn used(&mut self, view: &ExperimentView, reply: &ShowReply) {
        let resources = reply.resources.unwrap_or_default();
        let mut asked = Vec::new();
        if resources.cpus > 0.0 {
            let unit = if resources.cpus == 1.0 { "CPU" } else { "CPUs" };
            asked.push(format!("{} {unit}", text::number(resources.cpus)));
        }
        if resources.memory_bytes > 0 {
            asked.push(format!("{} memory", text::bytes(resources.memory_bytes)));
        }
        let scheduler = reply.scheduler.clone().unwrap_or_default();
        asked.extend(demands::gpus(&scheduler));
        if resources.time_ms > 0 {
            asked.push(nero_model::units::print_duration_ms(resources.time_ms));
        }
        let words = demands::words(&scheduler);
        asked.extend(words.iter().map(|(name, word)| format!("{name} {word}")));
        self.field("asked for", &asked.join(", "));
        let mut used = Vec::new();
        if let Some(cores) = view.cpu_cores {
            used.push(format!("{cores:.2} cores now"));
        }
        if let Some(bytes) = view.rss_bytes {
            used.push(format!("{} memory now", text::bytes(bytes)));
        }
        let (user, system) = (reply.user_cpu_s, reply.system_cpu_s);
        if user + system > 0.0 {
            let [all, user, system] = [user + system, user, system].map(text::duration);
            used.push(format!("{all} CPU ({user} user, {system} system)"));
        }
        if reply.peak_rss_bytes > 0 {
            used.push(text::bytes(reply.peak_rss_bytes) + " memory at most");
        }
        self.field("used", &used.join(", "));
        let gpus = reply.gpu_use.unwrap_or_default();
        let used = [
            gpus.utilisation
                .map(|used| format!("{:.0} % now", used * 100.0)),
            gpus.memory_bytes
                .map(|bytes| text::bytes(bytes) + " of their memory"),
            gpus.power_w.map(|power| format!("{power:.0} W")),
            gpus.temperature_c.map(|degrees| format!("{degrees:.0} °C")),
        ];
        self.field("GPUs used", &text::join(used.iter().flatten(), ", "));
    }

    fn metrics(&mut self, view: &ExperimentView, run: Option<&RunView>) {
        if view.metrics.is_empty() {
            // The metrics are those of the newest run.
            let is_newest = run.is_some_and(|run| run.number == view.run && has_run(run));
            let id = json::run_id(view.id, view.run).filter(|_| is_newest);
            if let Some(id) = id {
                let text = format!("none; neroman metrics --try {id} shows what its logs give");
                self.field("metrics", &text);
            }
            return;
        }
        let columns: [Column<'_, MetricSummary>; 6] = [
            ("metric", &|metric| Cell::text(&metric.name)),
            ("last", &|metric| Cell::number(metric.last)),
            ("step", &|metric| Cell::number(metric.step)),
            ("min", &|metric| Cell::number(metric.min)),
            ("max", &|metric| Cell::number(metric.max)),
            ("count", &|metric| Cell::whole(metric.count)),
        ];
        let shown = &view.metrics[..view.metrics.len().min(METRICS_MAX)];
        self.table(&columns, shown);
        let more = view.metrics.len() - shown.len();
        if more > 0 {
            let all = format!("… and {more} more: neroman metrics {}\n", view.id);
            self.text.push_str(&all);
        }
    }

    fn rules(&mut self, rules: &[RuleState]) {
        if rules.is_empty() {
            return;
        }
        let rules = super::rule::as_text(self.screen, rules, false);
        self.text.push_str(&format!("\n{rules}"));
    }

    fn code(&mut self, view: &ExperimentView, reply: &ShowReply) {
        self.field("code", &reply.tree);
        self.field("git", &reply.git);
        if !reply.missing.is_empty() {
            self.field("records", &format!("incomplete: {}", reply.missing));
        } else if view.settled && view.ended_ms != 0 {
            self.field("records", "complete");
        }
    }

    fn runs(&mut self, runs: &[RunView]) {
        if runs.len() < 2 {
            return;
        }
        let columns: [Column<'_, RunView>; 6] = [
            ("run", &|run| Cell::whole(run.number)),
            ("state", &|run| Cell::state(&run.state)),
            ("node", &|run| Cell::text(&run.node)),
            ("started", &|run| Cell::time(run.started_ms)),
            ("runtime", &|run| {
                Cell::right(&run.runtime_s.map(text::duration).unwrap_or_default())
            }),
            ("reason", &|run| {
                Cell::text(&text::why(&run.state, &run.reason, &run.stderr_line))
            }),
        ];
        self.table(&columns, runs);
    }

    fn tail(&mut self, name: &str, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.text.push_str(&format!("\n{name}\n"));
        for line in last(bytes, TAIL_LINES) {
            self.text.push_str(&format!("  {}\n", Safe::line(line)));
        }
    }

    fn field(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let value = Safe::line(value);
            self.text.push_str(&format!("  {name:<13}{value}\n"));
        }
    }

    fn fact(&mut self, name: &str, view: &ExperimentView, fact: Fact) {
        self.field(name, &fact.value(view).text());
    }

    fn list(&mut self, name: &str, items: impl Iterator<Item = String>) {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return;
        }
        self.text.push_str(&format!("\n{name}\n"));
        for item in items {
            self.text.push_str(&format!("  {}\n", Safe::line(&item)));
        }
    }

    fn table<T>(&mut self, columns: &[Column<'_, T>], things: &[T]) {
        let table = table::list(self.screen, columns, things);
        self.text.push_str(&format!("\n{table}"));
    }
}

fn variable(var: &EnvVar) -> String {
    if var.unset {
        format!("{} unset", var.name)
    } else {
        format!("{}={}", var.name, text::variable(var))
    }
}

fn output(output: &Output) -> String {
    let (path, max) = (&output.path, text::bytes(output.max_bytes));
    match (output.fetch.as_str(), output.max_bytes) {
        ("", 0) => path.clone(),
        ("", _) => format!("{path} (up to {max})"),
        (fetch, 0) => format!("{path} (fetched at {fetch})"),
        (fetch, _) => format!("{path} (fetched at {fetch}, up to {max})"),
    }
}

/// Processes that outlived the main one, and their ends.
fn left_behind(strays: &Strays) -> String {
    let count = |count: u32| match count {
        1 => "1 process".to_owned(),
        more => format!("{more} processes"),
    };
    let waited = text::duration(strays.waited_s);
    let mut said = match (strays.left, strays.ended) {
        (0, 0) => return format!("processes that ended by themselves, after {waited}"),
        (0, ended) => format!("{}, ended after {waited}", count(ended)),
        (left, _) => format!("{}, not ended (monitor.strays: leave)", count(left)),
    };
    let named = strays.named.iter();
    let named = text::join(named.map(|one| format!("{} ({})", one.name, one.pid)), ", ");
    if !named.is_empty() {
        said.push_str(&format!(": {named}"));
        if strays.left.max(strays.ended) as usize > strays.named.len() {
            said.push_str(" …");
        }
    }
    said
}

/// Whether the run began and is over.
fn has_run(run: &RunView) -> bool {
    run.started_ms != 0 && run.ended_ms != 0
}

/// What the experiment says of how its output is read; recipes as their patterns.
fn reading(reply: &ShowReply) -> Vec<String> {
    let more = reply.metric_reading.clone().unwrap_or_default();
    let kinds = [
        ("file", &more.files),
        ("match", &reply.metric_patterns),
        ("only", &more.only),
        ("skip", &more.skip),
    ];
    let lines = kinds.into_iter().flat_map(|(kind, patterns)| {
        let line = move |pattern: &String| format!("{kind}: '{}'", pattern.replace('\'', "''"));
        patterns.iter().map(line)
    });
    let mut lines: Vec<String> = lines.collect();
    let readers = more.readers.iter();
    lines.extend(readers.map(|reader| format!("command: {}", line(&reader.argv))));
    if more.decimal_comma {
        lines.push("decimal: ','".to_owned());
    }
    if more.no_tables {
        lines.push("table: false".to_owned());
    }
    lines
}

/// Words as a line for a shell.
fn line(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@+%".contains(c);
    let quoted = words.iter().map(|word| match word.as_str() {
        word if !word.is_empty() && word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    });
    text::join(quoted, " ")
}

/// The last lines; a carriage return ends a line too.
fn last(bytes: &[u8], count: usize) -> Vec<&[u8]> {
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

fn as_json(reply: &ShowReply) -> Value {
    let view = reply.experiment.clone().unwrap_or_default();
    let run = |run| json::run(view.id, run);
    let known = |bytes: u64| (bytes != 0).then_some(bytes);
    object!(reply =>
        experiment: json::experiment(&view),
        run: reply.run.as_ref().map(run),
        runs: reply.runs.iter().map(run).collect::<Vec<_>>(),
        command: reply.argv,
        env: json::environment(&reply.env),
        facts,
        resources: demands::as_json(reply),
        outputs: [one => path, fetch?, max_bytes: known(one.max_bytes)],
        rules: reply.rules.iter().map(json::rule).collect::<Vec<_>>(),
        tree?, git?, missing?, history, work?,
        user_cpu_s: json::number(reply.user_cpu_s),
        system_cpu_s: json::number(reply.system_cpu_s),
        peak_rss_bytes: known(reply.peak_rss_bytes),
        gpu_use: reply.gpu_use.map(|used| object!(used =>
            utilisation, memory_bytes, power_w, temperature_c,
        )),
        stdout_tail: String::from_utf8_lossy(&reply.stdout_tail),
        stderr_tail: String::from_utf8_lossy(&reply.stderr_tail),
        notes,
    )
}
