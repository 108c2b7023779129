//! The scheduler of this node, as all parts of neromum share it: its words, its
//! programs, and what its site allows.

use std::sync::Arc;
use std::time::Duration;

use nero_model::safe::Safe;
use nero_node::staging::environment::Base;
use nero_warden::{Kind, Partition, Settings, Site, Warden};
use nero_wire::v1;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use super::login::Login;
use super::runner::Runner;

/// Time limit of one command; a controller that is busy answers late.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which the site is described anew.
const FRESH: Duration = Duration::from_secs(3600);
/// The same after a failure.
const FRESH_FAILURE: Duration = Duration::from_secs(120);
/// Time that a description of the node waits for the site.
const WAIT: Duration = Duration::from_secs(8);
/// Partitions that a description of the node contains.
const PARTITIONS_MAX: usize = 1000;

/// The scheduler of this node.
#[derive(Debug)]
pub struct Front {
    settings: Settings,
    warden: Arc<dyn Warden>,
    base: Base,
    login: OnceCell<Login>,
    runner: OnceCell<Arc<Runner>>,
    known: Mutex<Option<KnownSite>>,
    began: Instant,
}

/// The scheduler's last description of its site.
#[derive(Clone, Debug)]
struct KnownSite {
    since: Instant,
    site: Result<Arc<Site>, String>,
}

impl Front {
    /// The scheduler of these settings; `None`: the node has none.
    pub fn new(settings: &Settings, base: Base) -> Option<Self> {
        Some(Self {
            settings: settings.clone(),
            warden: settings.warden()?,
            base,
            login: OnceCell::new(),
            runner: OnceCell::new(),
            known: Mutex::new(None),
            began: Instant::now(),
        })
    }

    /// Which one, and how much it is given.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its words and their meaning.
    pub fn warden(&self) -> &Arc<dyn Warden> {
        &self.warden
    }

    /// What executes its commands. The person's login shell is asked once where its
    /// programs are.
    ///
    /// # Errors
    /// When they are not there.
    pub async fn runner(&self) -> Result<Arc<Runner>, String> {
        let found = self.runner.get_or_try_init(|| async {
            let login = self.login.get_or_init(|| Login::ask(&self.base)).await;
            let program = self.warden.program();
            let runner = Runner::find(login, &*self.warden, PATIENCE);
            runner.map(Arc::new).ok_or_else(|| {
                let silent = login.silent.as_ref();
                let silent = silent.map_or(String::new(), |why| format!("; {why}"));
                format!(
                    "{program} of {} is neither on the PATH of runs nor on that of your login shell \
                     there ({}){silent}",
                    self.warden.name(),
                    login.shell.display()
                )
            })
        });
        found.await.cloned()
    }

    /// What the site allows, asked at most once an hour.
    ///
    /// # Errors
    /// When the scheduler did not tell, with its words.
    pub async fn site(&self) -> Result<Arc<Site>, String> {
        let mut known = self.known.lock().await;
        if let Some(known) = &*known {
            let fresh = match known.site {
                Ok(_) => FRESH,
                Err(_) => FRESH_FAILURE,
            };
            if known.since.elapsed() < fresh {
                return known.site.clone();
            }
        }
        let site = self.ask_site().await.map(Arc::new);
        if let Err(why) = &site {
            tracing::warn!(why, "the scheduler does not describe its site");
        }
        let since = Instant::now();
        *known = Some(KnownSite {
            since,
            site: site.clone(),
        });
        site
    }

    async fn ask_site(&self) -> Result<Site, String> {
        let runner = self.runner().await?;
        let mut said = Vec::new();
        for call in self.warden.site_calls() {
            said.push(runner.run(&call).await);
        }
        let site = self.warden.read_site(&said);
        site.map_err(|error| Safe::line(&error.to_string()).to_string())
    }

    /// What is asked of the scheduler, beside what the agent counted.
    pub fn usage(&self, counted: v1::SchedulerUse) -> v1::SchedulerUse {
        let runner = self.runner.get();
        v1::SchedulerUse {
            programs: runner.map(|runner| runner.programs()).unwrap_or_default(),
            cpu_s: cpu_s().unwrap_or(0.0),
            up_s: self.began.elapsed().as_secs_f64(),
            max_queued: self.settings.max_queued,
            max_running: self.settings.max_running.map(u64::from),
            ..counted
        }
    }

    /// What the site allows, for neroman.
    pub async fn describe(&self) -> v1::Site {
        let site = match tokio::time::timeout(WAIT, self.site()).await {
            Ok(site) => site,
            Err(_) => Err(format!("{} is slow to answer", self.warden.name())),
        };
        let kind = match self.settings.kind {
            Kind::None => v1::Warden::Unspecified,
            Kind::Slurm => v1::Warden::Slurm,
            Kind::Oge => v1::Warden::Oge,
            Kind::Generic => v1::Warden::Generic,
        };
        let asked = self.runner.get().map_or(0, |runner| runner.executed());
        let described = v1::Site {
            warden: kind.into(),
            name: self.warden.name().into_owned(),
            asked,
            ..v1::Site::default()
        };
        match site {
            Ok(site) => with_site(described, &site),
            Err(problem) => v1::Site {
                problem,
                ..described
            },
        }
    }
}

/// CPU seconds of this process and of the commands that it waited for.
fn cpu_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = fields.split(' ').skip(11).take(4);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn with_site(described: v1::Site, site: &Site) -> v1::Site {
    let partitions = site.partitions.iter().take(PARTITIONS_MAX);
    v1::Site {
        version: site.version.clone(),
        cluster: site
            .cluster
            .as_ref()
            .map_or(String::new(), ToString::to_string),
        partitions: partitions.map(partition).collect(),
        environments: site.environments.iter().map(ToString::to_string).collect(),
        ..described
    }
}

fn partition(partition: &Partition) -> v1::Partition {
    v1::Partition {
        name: partition.name.to_string(),
        is_default: partition.is_default,
        is_open: partition.is_open,
        time_max_s: partition.time_max_s.unwrap_or(0),
        hosts: partition.hosts.unwrap_or(0),
        cpus: partition.cpus.unwrap_or(0),
        memory_bytes: partition.memory_bytes.unwrap_or(0),
        gpus: partition
            .gpus
            .iter()
            .map(|gpus| v1::GpuKind {
                name: gpus
                    .kind
                    .as_ref()
                    .map_or(String::new(), ToString::to_string),
                count: gpus.count,
            })
            .collect(),
    }
}
