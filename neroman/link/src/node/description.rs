//! Checks the description that a node sends. All numbers of a node enter here:
//! they are finite and in range afterwards, so that arithmetic needs no further
//! checks and tables show no nonsense.

use nero_wire::v1;

use nero_config::Config;
use nero_home::failure::Failure;
use nero_life::cluster::{Cluster, Partition, Scheduler};
use nero_life::place::{Facts, Figures, GpuFacts};
use nero_life::state::State;
use nero_life::text::bounded;

/// Limit of every count: processors, load, runs.
const COUNT_MAX: f64 = 1e7;
/// Limit of every disk and memory: 1 EiB.
pub const BYTES_MAX: u64 = 1 << 60;
/// Range of a node's clock: from 1970 to the year 9999.
const CLOCK_MS: std::ops::RangeInclusive<i64> = 0..=253_402_300_799_999;
/// Limit of the time since a node's boot: 100 years.
const BOOT_MS_MAX: u64 = 100 * 366 * 86_400_000;
/// Limit of GPUs in one machine.
const GPUS_MAX: usize = 1024;

/// Returns the sizes of what is on a node.
///
/// # Errors
/// Names the first size that is out of range.
pub fn checked_usage(said: v1::DiskUsageReply) -> Result<v1::DiskUsageReply, Failure> {
    let sizes = [
        ("free disk", said.free_bytes),
        ("disk", said.total_bytes),
        ("stored files", said.store_bytes),
        ("unused stored files", said.store_unused_bytes),
        ("runs", said.runs_bytes),
        ("trash", said.trash_bytes),
        ("agents", said.agents_bytes),
        ("unused agents", said.agents_unused_bytes),
        ("images", said.images_bytes),
    ];
    let runs = said.runs.iter().map(|run| ("a run", run.bytes));
    match sizes
        .into_iter()
        .chain(runs)
        .find(|(_, size)| *size > BYTES_MAX)
    {
        Some((what, size)) => Err(cannot_be(&format!("the size of {what}"), &size)),
        None => Ok(said),
    }
}

/// Returns the description with its texts cut to a bearable length.
///
/// # Errors
/// Names the first number that is out of range.
pub(super) fn checked(said: v1::NodeDescription) -> Result<v1::NodeDescription, Failure> {
    let counts = [
        ("cpus", said.cpus, 0.0),
        ("free cpus", said.cpus_free, -COUNT_MAX),
        ("load (1 min)", said.load_1, 0.0),
        ("load (15 min)", said.load_15, 0.0),
        ("live runs", f64::from(said.live), 0.0),
        ("waiting runs", f64::from(said.waiting), 0.0),
    ];
    let gpus = said.gpus.iter();
    let used = gpus.map(|gpu| ("use of a GPU", gpu.utilisation, 0.0));
    for (what, value, least) in counts.into_iter().chain(used) {
        // A NaN is in no range.
        if !(least..=COUNT_MAX).contains(&value) {
            return Err(cannot_be(what, &value));
        }
    }
    let bytes = [
        ("memory", said.memory_bytes),
        ("used memory", said.memory_used_bytes),
        ("free memory", said.memory_free_bytes),
        ("free disk", said.disk_free_bytes),
        ("disk", said.disk_total_bytes),
    ];
    let gpus = said.gpus.iter();
    let of_gpus = gpus.flat_map(|gpu| {
        [
            ("memory of a GPU", gpu.memory_bytes),
            ("used memory of a GPU", gpu.memory_used_bytes),
        ]
    });
    for (what, value) in bytes.into_iter().chain(of_gpus) {
        if value > BYTES_MAX {
            return Err(cannot_be(what, &value));
        }
    }
    if !CLOCK_MS.contains(&said.clock_ms) {
        return Err(cannot_be("clock (ms)", &said.clock_ms));
    }
    if said.boot_ms > BOOT_MS_MAX {
        return Err(cannot_be("boot clock (ms)", &said.boot_ms));
    }
    let gpus = said.gpus.into_iter().take(GPUS_MAX).map(|gpu| v1::Gpu {
        name: bounded(&gpu.name),
        uuid: bounded(&gpu.uuid),
        ..gpu
    });
    let site = said.site.map(checked_site);
    Ok(v1::NodeDescription {
        site,
        host: bounded(&said.host),
        root: bounded(&said.root),
        boot_id: bounded(&said.boot_id),
        hold: bounded(&said.hold),
        os: bounded(&said.os),
        arch: bounded(&said.arch),
        kernel: bounded(&said.kernel),
        libc: bounded(&said.libc),
        gpus: gpus.collect(),
        ..said
    })
}

/// Limit of partitions, of environments, and of kinds of GPUs in one partition.
const PARTITIONS_MAX: usize = 1000;

/// A site with its texts cut to a bearable length.
fn checked_site(said: v1::Site) -> v1::Site {
    let gpus = |gpus: Vec<v1::GpuKind>| {
        let bearable = gpus.into_iter().take(PARTITIONS_MAX);
        let kinds = bearable.map(|kind| v1::GpuKind {
            name: bounded(&kind.name),
            ..kind
        });
        kinds.collect()
    };
    let partitions = said.partitions.into_iter().take(PARTITIONS_MAX);
    let partitions = partitions.map(|one| v1::Partition {
        name: bounded(&one.name),
        gpus: gpus(one.gpus),
        ..one
    });
    let environments = said.environments.iter().take(PARTITIONS_MAX);
    v1::Site {
        partitions: partitions.collect(),
        environments: environments.map(|name| bounded(name)).collect(),
        name: bounded(&said.name),
        version: bounded(&said.version),
        cluster: bounded(&said.cluster),
        problem: bounded(&said.problem),
        usage: said.usage.map(checked_use),
        ..said
    }
}

/// Programs of a scheduler whose commands are counted.
const PROGRAMS_MAX: usize = 50;

fn checked_use(said: v1::SchedulerUse) -> v1::SchedulerUse {
    let programs = said.programs.into_iter().take(PROGRAMS_MAX);
    let programs = programs.map(|one| v1::scheduler_use::Program {
        name: bounded(&one.name),
        ..one
    });
    let seconds = |value: f64| {
        if value.is_finite() {
            value.max(0.0)
        } else {
            0.0
        }
    };
    v1::SchedulerUse {
        programs: programs.collect(),
        cpu_s: seconds(said.cpu_s),
        up_s: seconds(said.up_s),
        answered_s: said.answered_s.map(seconds),
        ..said
    }
}

/// The cluster of a node, for comparing runs with it; `None` also for a scheduler that
/// decides alone what it can start.
fn cluster(config: &Config, node: &str, site: &v1::Site) -> Option<Cluster> {
    let scheduler = match site.warden() {
        v1::Warden::Slurm => Scheduler::Slurm,
        v1::Warden::Oge => Scheduler::GridEngine,
        v1::Warden::Generic | v1::Warden::Unspecified => return None,
    };
    let partition = |one: &v1::Partition| Partition {
        name: one.name.clone(),
        is_default: one.is_default,
        time_max_s: one.time_max_s,
        hosts: one.hosts,
        cpus: one.cpus,
        memory_bytes: one.memory_bytes,
        gpus: (one.gpus.iter())
            .map(|kind| (kind.name.clone(), kind.count))
            .collect(),
    };
    Some(Cluster {
        scheduler,
        defaults: config
            .node(node)
            .map(|node| node.asks.clone())
            .unwrap_or_default(),
        partitions: site.partitions.iter().map(partition).collect(),
        environments: site.environments.clone(),
    })
}

fn cannot_be(what: &str, value: &dyn std::fmt::Display) -> Failure {
    Failure::node_does(format!(
        "describes itself with a number that cannot be: {what} is {value}"
    ))
    .hint("its agent is of another version, or not ours: `neroman node doctor` looks at it")
}

/// The figures of a node, for comparing it with others.
pub(super) fn figures(
    state: &State,
    config: &Config,
    name: &str,
    about: &nero_wire::v1::NodeDescription,
) -> Figures {
    Figures {
        probes: std::collections::BTreeMap::new(),
        cpus: about.cpus,
        memory_bytes: about.memory_bytes,
        disk_free_bytes: about.disk_free_bytes,
        load: about.load_1,
        cores: state.on_node(name).cores,
        cluster: (about.site.as_ref()).and_then(|site| cluster(config, name, site)),
        facts: Facts {
            name: name.to_owned(),
            groups: config.groups_of(name).collect::<Vec<_>>().join(" "),
            host: about.host.clone(),
            os: about.os.clone(),
            arch: about.arch.clone(),
            kernel: about.kernel.clone(),
            glibc: about
                .libc
                .strip_prefix("glibc ")
                .unwrap_or_default()
                .to_owned(),
            cpus_free: about.cpus_free,
            memory_free_bytes: about.memory_free_bytes,
            load_15: about.load_15,
            disk_bytes: about.disk_total_bytes,
            gpus: about
                .gpus
                .iter()
                .map(|gpu| GpuFacts {
                    name: gpu.name.clone(),
                    memory_bytes: gpu.memory_bytes,
                    memory_free_bytes: gpu.memory_bytes.saturating_sub(gpu.memory_used_bytes),
                    used: gpu.utilisation,
                })
                .collect(),
            live: about.live,
            waiting: about.waiting,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> v1::NodeDescription {
        v1::NodeDescription {
            cpus: 8.0,
            cpus_free: -0.5,
            load_15: 3.5,
            memory_bytes: 1 << 34,
            disk_free_bytes: 1 << 40,
            clock_ms: 1_790_000_000_000,
            ..v1::NodeDescription::default()
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_by_name() {
        checked_usage(v1::DiskUsageReply::default()).unwrap();
        let run = v1::disk_usage_reply::Run {
            bytes: u64::MAX,
            ..v1::disk_usage_reply::Run::default()
        };
        let of_run = v1::DiskUsageReply {
            runs: vec![run],
            ..v1::DiskUsageReply::default()
        };
        let of_trash = v1::DiskUsageReply {
            trash_bytes: u64::MAX,
            ..v1::DiskUsageReply::default()
        };
        for (said, what) in [(of_run, "a run"), (of_trash, "trash")] {
            let refused = checked_usage(said).unwrap_err().to_string();
            let expected = format!("the size of {what} is {}", u64::MAX);
            assert!(refused.contains(&expected), "{refused}");
        }
    }

    fn refused(change: impl FnOnce(&mut v1::NodeDescription)) -> String {
        let mut said = usual();
        change(&mut said);
        checked(said).unwrap_err().to_string()
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_by_name() {
        checked(usual()).unwrap();
        for (told, text) in [
            (
                "-9223372036854775808",
                refused(|said| said.clock_ms = i64::MIN),
            ),
            (
                "9223372036854775807",
                refused(|said| said.clock_ms = i64::MAX),
            ),
            (
                "load (15 min) is -inf",
                refused(|said| said.load_15 = f64::NEG_INFINITY),
            ),
            ("cpus is NaN", refused(|said| said.cpus = f64::NAN)),
            ("free cpus is -1", refused(|said| said.cpus_free = -1e300)),
            (
                "live runs is 4294967295",
                refused(|said| said.live = u32::MAX),
            ),
            (
                "free disk is 1844674",
                refused(|said| said.disk_free_bytes = u64::MAX),
            ),
            (
                "boot clock (ms) is 1844674",
                refused(|said| said.boot_ms = u64::MAX),
            ),
            (
                "use of a GPU is inf",
                refused(|said| {
                    said.gpus = vec![v1::Gpu {
                        utilisation: f64::INFINITY,
                        ..v1::Gpu::default()
                    }];
                }),
            ),
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let said = checked(v1::NodeDescription {
            hold: "x".repeat(1 << 20),
            ..usual()
        });
        assert!(said.unwrap().hold.len() <= 1000);
    }
}
