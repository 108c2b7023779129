//! `Nodes`: the state of each node.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use nero_config::{Config, LOCAL};
use nero_model::{MIN_FREE_BYTES, Phase};
use nero_wire::v1;

use crate::service::Man;
use nero_home::failure::Failure;
use nero_life::reason::{Kind, WaitReason};
use nero_life::state::State;
use nero_link::node::{NodeNow, ReceivedDescription, open_runs};

/// How long a node may take to describe itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// Figures older than this are marked as old.
const OLD_MS: i64 = 60_000;

impl Man {
    /// Every node as it is now; nodes out of reach as they were last.
    pub(crate) async fn ask_nodes(&self, request: v1::NodesRequest) -> v1::NodesReply {
        let config = self.nodes.usable_config();
        if !request.as_known {
            let all = self.nodes.all();
            join_all(all.iter().map(|node| node.described(PATIENCE))).await;
        }
        let groups = config.groups.iter().map(|(name, group)| {
            let names = v1::NodeNames {
                names: group.nodes.clone(),
                unbalanced: !group.balance,
            };
            (name.clone(), names)
        });
        v1::NodesReply {
            nodes: self.node_views(&config),
            groups: groups.collect::<HashMap<_, _>>(),
            default_node: config.default_target().to_owned(),
        }
    }

    /// Every node by its last report, in the order of the configuration.
    pub(crate) fn node_views(&self, config: &Config) -> Vec<v1::NodeView> {
        let names = config.nodes.keys();
        names.map(|name| self.node_view(config, name)).collect()
    }

    /// One node by its last report.
    pub(crate) fn node_view(&self, config: &Config, name: &str) -> v1::NodeView {
        let now = self.nodes.now(name);
        let configured = config.node(name).cloned().unwrap_or_default();
        let root = match &configured.root {
            Some(root) => root.clone(),
            None if name == LOCAL => self.home.local_root.display().to_string(),
            None => "~/.neronet".to_owned(),
        };
        let build = now.hello.as_ref().map(|hello| hello.build.clone());
        let mut view = v1::NodeView {
            name: name.to_owned(),
            address: configured.address.unwrap_or_default(),
            warden: configured.warden.as_str().to_owned(),
            connected: now.connected(),
            why_not: now.why_not(),
            hint: now.hint().to_owned(),
            remedy: now.remedy().into(),
            contact_ms: now.heard_ms().unwrap_or(0),
            unreachable_since_ms: now.since_ms.unwrap_or(0),
            needs_person: now.needs_person,
            next_try_ms: now.next_try_ms.unwrap_or(0),
            root,
            groups: config.groups_of(name).map(str::to_owned).collect(),
            default_node: config.default_target() == name,
            build: build.unwrap_or_default(),
            transfer: transfer(&now),
            ..v1::NodeView::default()
        };
        let state = self.ledger.state();
        if let Some(about) = &now.about {
            let age = self.clock.boot_ms() - about.boot_ms;
            view.known_old = !now.connected() || age > OLD_MS;
            describe(&mut view, about);
        }
        view.clock_offset_s = now.clock_offset_ms().unwrap_or(0) as f64 / 1000.0;
        let is_silent = !now.connected() || now.about.is_none();
        if is_silent || configured.warden != nero_config::Warden::None {
            // The node cannot report now, so the numbers known here are newer; or its
            // runs are at its scheduler, and hold and wait for nothing of its own.
            (view.live, view.waiting) = own_runs(&state, name);
        }
        let kept_back = configured.min_free_bytes.unwrap_or(MIN_FREE_BYTES);
        let has_figures = |about: &ReceivedDescription| about.description.disk_total_bytes > 0;
        let is_told = now.about.as_deref().is_some_and(has_figures) && !now.out_of_reach();
        if is_told && view.hold.is_empty() && view.disk_free_bytes < kept_back {
            // Its agent reports this, in these words, only when a run wants to
            // start.
            view.hold = format!(
                "disk full: {} MB are free, {} MB are kept back",
                view.disk_free_bytes / 1_000_000,
                kept_back / 1_000_000
            );
        }
        if now.connected() {
            view.troubles = troubles(&state, name);
            view.troubles.extend(own_troubles(&now));
        }
        view
    }
}

/// The reasons that keep files of our runs from a node, each once, and the nodes from
/// which runs came.
fn troubles(state: &State, node: &str) -> Vec<String> {
    let mut runs: BTreeMap<Kind, (&WaitReason, u64)> = BTreeMap::new();
    let mut came: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for run in open_runs(state, node)
        .into_iter()
        .filter_map(|id| state.run(id))
    {
        let why = run.why();
        let is_held = run.elsewhere().is_some();
        if (run.phase() == Phase::Staging || is_held) && !why.is_unknown() {
            runs.entry(why.kind()).or_insert((why, 0)).1 += 1;
        }
        if let Some(from) = run.came_from().filter(|_| run.phase().is_live()) {
            *came.entry(from).or_default() += 1;
        }
    }
    let line = |(why, count)| match count {
        1 => format!("1 run waits: {why}"),
        count => format!("{count} runs wait: {why}"),
    };
    let came = came.into_iter().map(|((from, why), count)| match count {
        1 => format!("1 run came here from {from}: {why}"),
        count => format!("{count} runs came here from {from}: {why}"),
    });
    runs.into_values().map(line).chain(came).collect()
}

/// What is wrong on a node, by its own words and those of its runs that are unknown here.
fn own_troubles(now: &NodeNow) -> Vec<String> {
    let mut troubles = Vec::new();
    if now.unknown_runs > 0 {
        troubles.push(format!(
            "{} of its runs are not in state.db, which is a copy from before they were made: they go on there, \
             and a newer copy of data/backups knows them",
            now.unknown_runs
        ));
    }
    if let Some(about) = &now.about {
        let files = about.description.unreadable.iter();
        troubles.extend(files.map(|file| {
            let trouble = format!("{} {}; {}", file.path, file.why, file.hint);
            nero_model::plain::plain(&trouble).into_owned()
        }));
    }
    troubles
}

/// The number of our live runs on a node, and of those that wait for it.
fn own_runs(state: &State, node: &str) -> (u32, u32) {
    let (mut live, mut waiting) = (0, 0);
    for id in open_runs(state, node) {
        match state.run(id).map(|run| run.phase()) {
            Some(Phase::Running | Phase::Ending) => live += 1,
            Some(phase) if phase.is_live() => waiting += 1,
            Some(_) | None => {}
        }
    }
    (live, waiting)
}

fn describe(view: &mut v1::NodeView, about: &ReceivedDescription) {
    let share = |used: u64, total: u64| match total {
        0 => 0.0,
        total => used as f64 / total as f64,
    };
    let said = &about.description;
    view.load_15 = said.load_15;
    view.memory_used = share(said.memory_used_bytes, said.memory_bytes);
    view.disk_used = share(
        said.disk_total_bytes.saturating_sub(said.disk_free_bytes),
        said.disk_total_bytes,
    );
    view.live = said.live;
    view.waiting = said.waiting;
    view.cpus = said.cpus;
    view.cpus_free = said.cpus_free;
    view.memory_bytes = said.memory_bytes;
    view.memory_free_bytes = said.memory_free_bytes;
    view.disk_free_bytes = said.disk_free_bytes;
    if !said.root.is_empty() {
        said.root.clone_into(&mut view.root);
    }
    said.hold.clone_into(&mut view.hold);
    view.gpus.clone_from(&said.gpus);
    said.arch.clone_into(&mut view.arch);
    said.host.clone_into(&mut view.host);
    view.round_trip_ms = about.round_trip_ms;
    view.usage = said.site.as_ref().and_then(|site| site.usage.clone());
}

/// The transfer to a node, in one line.
fn transfer(now: &NodeNow) -> String {
    match &now.transfer {
        Some(progress) if progress.total_bytes > 0 => {
            let done = progress.done_bytes.min(progress.total_bytes) as f64;
            let share = 100.0 * done / progress.total_bytes as f64;
            format!("{} ({share:.0} %)", progress.what)
        }
        Some(progress) => progress.what.clone(),
        None if now.connecting => "connecting".to_owned(),
        None => String::new(),
    }
}

/// The nodes that a word stands for.
pub(crate) fn resolved(config: &Config, word: &str, whose: &str) -> Result<Vec<String>, Failure> {
    match config.resolve(word) {
        Ok(target) => Ok(target.nodes().to_vec()),
        Err(error) => Err(Failure::usage(format!("{whose}{error}")).hint(error.hint.clone())),
    }
}
