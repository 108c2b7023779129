//! Whether a run fits into a cluster: its demands are compared with the partitions or
//! queues that the scheduler has, never with the login node.

use nero_format::{Definition, SchedulerOptions};

use crate::facts::partition::{NoPartition, Shortage};
use crate::facts::run_record::RunDemands;

/// A scheduler, as far as the placer tells one from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// It has partitions, one of which is the default, and describes its GPUs.
    Slurm,
    /// It has queues, and chooses one itself.
    #[default]
    GridEngine,
}

/// A cluster that runs are submitted to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    pub scheduler: Scheduler,
    /// What runs of the node ask for where their experiments ask nothing else.
    pub defaults: SchedulerOptions,
    pub partitions: Vec<Partition>,
    /// Parallel environments of Grid Engine.
    pub environments: Vec<String>,
}

/// A partition or queue; 0: not limited, or not told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partition {
    pub name: String,
    /// Whether runs that name none go there.
    pub is_default: bool,
    pub time_max_s: u64,
    /// Number of hosts.
    pub hosts: u64,
    /// Most CPUs of one host.
    pub cpus: u64,
    /// Most memory of one host.
    pub memory_bytes: u64,
    /// GPUs of one host by their type, which is empty where the site has no types.
    pub gpus: Vec<(String, u64)>,
}

impl Cluster {
    /// Whether the scheduler can ever start such a run.
    ///
    /// # Errors
    /// What each partition that may be meant lacks.
    pub fn ever_fits(&self, takes: &RunDemands, node: &str) -> Result<(), NoPartition> {
        self.has_environment(takes, node)?;
        let partitions = self.meant(takes, node)?;
        let mut short = Vec::new();
        for partition in partitions {
            match self.shortage(partition, takes, node) {
                None => return Ok(()),
                Some(lacks) => short.push((partition.name.clone(), lacks)),
            }
        }
        if short.is_empty() {
            // The site told of none: its scheduler decides.
            Ok(())
        } else {
            Err(NoPartition::Each(short))
        }
    }

    /// The partitions that the run may be started in.
    fn meant(&self, takes: &RunDemands, node: &str) -> Result<Vec<&Partition>, NoPartition> {
        let named = |of: fn(&SchedulerOptions) -> &nero_format::OnNodes<String>| {
            let own = of(&takes.scheduling).on(node);
            own.or_else(|| of(&self.defaults).on(node)).cloned()
        };
        let (word, name) = match self.scheduler {
            Scheduler::Slurm => ("partition", named(|asks| &asks.partition)),
            Scheduler::GridEngine => ("queue", named(|asks| &asks.queue)),
        };
        if self.partitions.is_empty() {
            return Ok(Vec::new());
        }
        let Some(name) = name else {
            return self.unnamed();
        };
        // Grid Engine's `all.q@host` is a part of a queue.
        let queue = name.split('@').next().unwrap_or_default();
        let is_it = |one: &&Partition| one.name == name || one.name == queue;
        match self.partitions.iter().find(is_it) {
            Some(partition) => Ok(vec![partition]),
            None => Err(NoPartition::Unknown {
                word,
                name,
                known: self.names(),
            }),
        }
    }

    fn unnamed(&self) -> Result<Vec<&Partition>, NoPartition> {
        let default = self.partitions.iter().find(|one| one.is_default);
        match (self.scheduler, default) {
            (Scheduler::Slurm, Some(default)) => Ok(vec![default]),
            (Scheduler::Slurm, None) => Err(NoPartition::NoneNamed {
                known: self.names(),
            }),
            (Scheduler::GridEngine, _) => Ok(self.partitions.iter().collect()),
        }
    }

    fn names(&self) -> Vec<String> {
        let names = self.partitions.iter();
        names.map(|one| one.name.clone()).collect()
    }

    fn has_environment(&self, takes: &RunDemands, node: &str) -> Result<(), NoPartition> {
        let own = takes.scheduling.parallel_env.on(node);
        let name = own.or_else(|| self.defaults.parallel_env.on(node));
        match name {
            Some(name) if self.scheduler == Scheduler::GridEngine => {
                if self.environments.contains(name) || self.environments.is_empty() {
                    Ok(())
                } else {
                    Err(NoPartition::Unknown {
                        word: "parallel_env",
                        name: name.clone(),
                        known: self.environments.clone(),
                    })
                }
            }
            Some(_) | None => Ok(()),
        }
    }

    fn shortage(&self, partition: &Partition, takes: &RunDemands, node: &str) -> Option<Shortage> {
        let less = |has: u64, asks: u64| has > 0 && has < asks;
        let hosts = takes.hosts(node);
        if less(partition.hosts, hosts.into()) {
            return Some(Shortage::Hosts {
                has: partition.hosts,
                asks: hosts,
            });
        }
        // All hosts give the same.
        let cores = takes.cores_on(node) / f64::from(hosts);
        if less(partition.cpus, cores.ceil() as u64) {
            return Some(Shortage::Cpus {
                has: partition.cpus,
                asks: cores.ceil().min(takes.cores_on(node)),
            });
        }
        let memory_bytes = takes.memory_bytes.div_ceil(hosts.into());
        if less(partition.memory_bytes, memory_bytes) {
            return Some(Shortage::Memory {
                has_bytes: partition.memory_bytes,
                asks_bytes: memory_bytes,
            });
        }
        let runs = self.packed(takes, node);
        let asks_s = Definition::pack_limit_s(takes.limit_s, runs);
        if less(partition.time_max_s, asks_s) {
            return Some(Shortage::Time {
                most_s: partition.time_max_s,
                asks_s,
                runs,
            });
        }
        match self.scheduler {
            Scheduler::Slurm => self.lacks_gpus(partition, takes, node),
            Scheduler::GridEngine => None,
        }
    }

    /// Runs that share its task there, for the time of all of them.
    fn packed(&self, takes: &RunDemands, node: &str) -> u32 {
        let pack = takes.scheduling.pack.on(node);
        let pack = pack.or_else(|| self.defaults.pack.on(node)).copied();
        pack.unwrap_or(1).min(takes.together).max(1)
    }

    fn lacks_gpus(
        &self,
        partition: &Partition,
        takes: &RunDemands,
        node: &str,
    ) -> Option<Shortage> {
        let asks = takes.scheduling.gpus.on(node).copied().unwrap_or(0);
        if asks == 0 {
            return None;
        }
        let kind = takes.scheduling.gpu_type.on(node);
        let kind = kind.or_else(|| self.defaults.gpu_type.on(node));
        let of_kind = |(name, _): &&(String, u64)| kind.is_none_or(|kind| kind == name);
        let counts = partition.gpus.iter().filter(of_kind);
        let has = counts.map(|(_, count)| *count).max().unwrap_or(0);
        let asks = u64::from(asks.div_ceil(takes.hosts(node)));
        (has < asks).then(|| Shortage::Gpus {
            kind: kind.cloned().unwrap_or_default(),
            has,
            asks,
        })
    }
}

#[cfg(test)]
mod tests {
    use nero_format::{OnNode, OnNodes};

    use super::*;

    fn on<T>(value: T) -> OnNodes<T> {
        OnNodes(vec![OnNode { node: None, value }])
    }

    /// Four hosts of 8 CPUs, a partition for short runs, and one with GPUs.
    fn site(scheduler: Scheduler) -> Cluster {
        let partition = |name: &str, cpus, time_max_s| Partition {
            name: name.to_owned(),
            cpus,
            time_max_s,
            memory_bytes: 8 << 30,
            ..Partition::default()
        };
        Cluster {
            scheduler,
            partitions: vec![
                Partition {
                    is_default: true,
                    ..partition("main", 8, 0)
                },
                partition("short", 2, 1800),
                Partition {
                    gpus: vec![("a100".to_owned(), 4), ("v100".to_owned(), 2)],
                    ..partition("gpu", 8, 0)
                },
            ],
            environments: vec!["smp".to_owned()],
            ..Cluster::default()
        }
    }

    fn said(site: &Cluster, takes: &RunDemands) -> String {
        match site.ever_fits(takes, "triton") {
            Ok(()) => "fits".to_owned(),
            Err(why) => why.to_string(),
        }
    }

    fn in_partition(name: &str) -> RunDemands {
        RunDemands {
            scheduling: SchedulerOptions {
                partition: on(name.to_owned()),
                ..SchedulerOptions::default()
            }
            .into(),
            ..RunDemands::default()
        }
    }

    #[test]
    fn a_run_is_compared_with_the_partition_that_it_names_or_with_the_default() {
        let site = site(Scheduler::Slurm);
        let wide = RunDemands {
            cpus: 4.0,
            ..RunDemands::default()
        };
        assert_eq!(said(&site, &wide), "fits");
        let narrow = RunDemands {
            cpus: 4.0,
            ..in_partition("short")
        };
        assert_eq!(said(&site, &narrow), "short: cpus 2 < 4");
        let long = RunDemands {
            limit_s: 1900,
            ..in_partition("short")
        };
        let expected = "short: time 30m < 31m40s (grace and a margin included)";
        assert_eq!(said(&site, &long), expected);
        let packed = |together| {
            let mut one = in_partition("short");
            one.scheduling.pack = on(8);
            RunDemands {
                limit_s: 360,
                together,
                ..one
            }
        };
        assert_eq!(said(&site, &packed(5)), "fits");
        let expected = "short: time 30m < 41m of a pack of 8 runs (grace and a margin included)";
        assert_eq!(said(&site, &packed(20)), expected);
        let large = RunDemands {
            memory_bytes: 16 << 30,
            ..RunDemands::default()
        };
        assert_eq!(said(&site, &large), "main: memory 8.0G < 16G");
        let nowhere = in_partition("huge");
        let expected = "it has no `partition: huge`, but main, short, gpu";
        assert_eq!(said(&site, &nowhere), expected);
        let by_default = Cluster {
            defaults: (*in_partition("huge").scheduling).clone(),
            ..site.clone()
        };
        assert_eq!(said(&by_default, &RunDemands::default()), expected);
        assert_eq!(said(&by_default, &in_partition("main")), "fits");
    }

    #[test]
    fn gpus_and_their_types_are_those_of_one_host() {
        let site = site(Scheduler::Slurm);
        let asks = |partition: &str, count: u32, kind: &str| {
            let mut takes = in_partition(partition);
            takes.scheduling.gpus = on(count);
            if !kind.is_empty() {
                takes.scheduling.gpu_type = on(kind.to_owned());
            }
            said(&site, &takes)
        };
        assert_eq!(asks("gpu", 4, ""), "fits");
        assert_eq!(asks("gpu", 4, "v100"), "gpu: gpus v100 2 < 4");
        assert_eq!(asks("gpu", 1, "h200"), "gpu: gpus h200 0 < 1");
        assert_eq!(asks("main", 1, ""), "main: gpus 0 < 1");
    }

    #[test]
    fn hosts_are_counted_and_each_gives_its_share() {
        let mut site = site(Scheduler::Slurm);
        site.partitions[0].hosts = 4;
        site.partitions[2].hosts = 2;
        let asks = |partition: &str, nodes: u32, cpus: f64| {
            let mut takes = in_partition(partition);
            takes.scheduling.nodes = on(nodes);
            takes.cpus = cpus;
            takes
        };
        assert_eq!(said(&site, &asks("main", 4, 32.0)), "fits");
        assert_eq!(said(&site, &asks("main", 5, 1.0)), "main: nodes 4 < 5");
        assert_eq!(said(&site, &asks("main", 2, 17.0)), "main: cpus 8 < 9");
        let mut gpus = asks("gpu", 2, 1.0);
        gpus.scheduling.gpus = on(8);
        assert_eq!(said(&site, &gpus), "fits");
        gpus.scheduling.nodes = on(1);
        assert_eq!(said(&site, &gpus), "gpu: gpus 4 < 8");
        let mut many = asks("main", 2, 1.0);
        many.scheduling.processes = on(18);
        assert_eq!(said(&site, &many), "main: cpus 8 < 9");
        let mut memory = asks("main", 2, 1.0);
        memory.memory_bytes = 20 << 30;
        assert_eq!(said(&site, &memory), "main: memory 8.0G < 10G");
        // A partition that does not tell of its hosts.
        assert_eq!(said(&site, &asks("short", 9, 1.0)), "fits");
    }

    #[test]
    fn a_cluster_without_a_default_wants_a_name_and_grid_engine_chooses_itself() {
        let mut slurm = site(Scheduler::Slurm);
        slurm.partitions[0].is_default = false;
        let expected = "it has no default partition: `partition:` names one of main, short, gpu";
        assert_eq!(said(&slurm, &RunDemands::default()), expected);
        let engine = site(Scheduler::GridEngine);
        let wide = |cpus| RunDemands {
            cpus,
            ..RunDemands::default()
        };
        assert_eq!(said(&engine, &wide(8.0)), "fits");
        let each = "main: cpus 8 < 9, short: cpus 2 < 9, gpu: cpus 8 < 9";
        assert_eq!(said(&engine, &wide(9.0)), each);
        let mut odd = wide(1.0);
        odd.scheduling.parallel_env = on("mpi".to_owned());
        assert_eq!(
            said(&engine, &odd),
            "it has no `parallel_env: mpi`, but smp"
        );
        let mut part = wide(1.0);
        part.scheduling.queue = on("main@host".to_owned());
        assert_eq!(said(&engine, &part), "fits");
    }

    #[test]
    fn a_site_that_tells_of_no_partition_decides_itself() {
        let untold = Cluster {
            scheduler: Scheduler::Slurm,
            ..Cluster::default()
        };
        assert_eq!(said(&untold, &in_partition("any")), "fits");
    }
}
