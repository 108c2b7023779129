//! What the scheduler gave this task, by its own variables: not what the host has, nor
//! what was asked for.

use nero_journal::v1;
use nero_node_core::capacity::Capacity;
use nero_warden::Kind;
use nero_warden::hosts::{self, AllocatedHost};

use crate::args::Grant;

/// What an allocation gives.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationResources {
    /// The same, for the journals of its runs.
    pub record: v1::Granted,
    /// CPUs and memory for its runs, of all hosts.
    pub capacity: Capacity,
    /// Its hosts, this one first; empty: they are not told.
    pub hosts: Vec<AllocatedHost>,
    /// Its scheduler.
    pub kind: Kind,
    /// Its hosts cannot be read: why, and what was read. Runs go on without them.
    pub odd_hosts: Option<String>,
}

/// Names of the variables of a scheduler.
struct Variables {
    scheduler: &'static str,
    /// Set in every one of its jobs.
    job: &'static str,
    task: &'static str,
    partition: &'static str,
    /// CPUs of this host, or of all.
    cpus: &'static str,
    /// GPUs, the first that is set.
    gpus: [&'static str; 2],
    /// Its hosts, or a file with them.
    hosts: &'static str,
    /// When the job ends at the latest, in seconds since 1970; empty: it is not told.
    until: &'static str,
}

const SCHEDULERS: [Variables; 2] = [
    Variables {
        scheduler: "SLURM",
        job: "SLURM_JOB_ID",
        task: "SLURM_ARRAY_TASK_ID",
        partition: "SLURM_JOB_PARTITION",
        cpus: "SLURM_CPUS_ON_NODE",
        gpus: ["SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"],
        hosts: "SLURM_JOB_NODELIST",
        until: "SLURM_JOB_END_TIME",
    },
    Variables {
        scheduler: "Grid Engine",
        job: "SGE_TASK_ID",
        task: "SGE_TASK_ID",
        partition: "QUEUE",
        cpus: "NSLOTS",
        gpus: ["SGE_HGR_gpu", "CUDA_VISIBLE_DEVICES"],
        hosts: "PE_HOSTFILE",
        until: "",
    },
];

impl AllocationResources {
    /// Reads the variables; `host_cpus` are those that this process may use, for an
    /// allocation whose scheduler is not known.
    pub fn read(
        grant: &Grant,
        host: &str,
        host_cpus: f64,
        var: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let asked = grant.cpus.unwrap_or(host_cpus);
        let set = |name: &str| var(name).filter(|value| !value.is_empty());
        let variables = SCHEDULERS.iter().find(|one| set(one.job).is_some());
        let Some(variables) = variables else {
            return Self::as_asked(grant, host, asked);
        };
        let is_slurm = variables.scheduler == SCHEDULERS[0].scheduler;
        let named = set(variables.hosts);
        let hosts = named.as_deref().map_or(Ok(Vec::new()), |named| {
            let odd = |why: String| format!("{} cannot be read: {why}", variables.hosts);
            if is_slurm {
                hosts::slurm(named).ok_or_else(|| odd(named.to_owned()))
            } else {
                match std::fs::read_to_string(named) {
                    Ok(text) => hosts::grid_engine(&text).ok_or_else(|| odd(text)),
                    Err(error) => Err(odd(error.to_string())),
                }
            }
        });
        let odd_hosts = hosts.as_ref().err().cloned();
        let hosts = hosts.unwrap_or_default();
        let number = |name: &str| set(name)?.parse::<u64>().ok().filter(|number| *number > 0);
        let all_cpus = || set("SLURM_JOB_CPUS_PER_NODE").and_then(|text| sum(&text));
        let cpus = if hosts.len() > 1 && is_slurm {
            all_cpus()
        } else {
            number(variables.cpus)
        };
        let cpus = cpus.map_or(asked, |cpus| cpus as f64);
        let memory = memory(cpus, hosts.len().max(1) as u64, number).or(grant.memory);
        let gpus = variables.gpus.iter().find_map(|name| set(name));
        let gpus = gpus.as_deref().map_or(Vec::new(), list);
        let task = set(variables.task).filter(|task| task != "undefined");
        let task = task.map_or(String::new(), |task| format!("_{task}"));
        // Those of the other hosts are not told, and a scheduler may tell of none: runs that
        // ask for some go one after the other then.
        let is_one_host = hosts.len() <= 1;
        let told = if is_one_host { gpus.len() as u32 } else { 0 };
        let cards = told.max(grant.gpus);
        Self {
            odd_hosts,
            capacity: Capacity {
                cards: (grant.gpus > 0).then_some(cards),
                ..Capacity::new(cpus, memory)
            },
            record: v1::Granted {
                scheduler: variables.scheduler.to_owned(),
                job: format!("{}{task}", grant.job),
                host: host.to_owned(),
                hosts: hosts.iter().map(|host| host.name.clone()).collect(),
                partition: set(variables.partition).unwrap_or_default(),
                cpus,
                memory_bytes: memory.unwrap_or(0),
                gpus,
                helped: Vec::new(),
                until_ms: number(variables.until)
                    .and_then(|s| i64::try_from(s).ok()?.checked_mul(1000))
                    .unwrap_or(0),
            },
            hosts,
            kind: if is_slurm { Kind::Slurm } else { Kind::Oge },
        }
    }

    /// An allocation that no variable tells of: what was asked for.
    fn as_asked(grant: &Grant, host: &str, cpus: f64) -> Self {
        Self {
            record: v1::Granted {
                job: grant.job.clone(),
                host: host.to_owned(),
                cpus,
                memory_bytes: grant.memory.unwrap_or(0),
                ..v1::Granted::default()
            },
            capacity: Capacity {
                cards: Some(grant.gpus).filter(|gpus| *gpus > 0),
                ..Capacity::new(cpus, grant.memory)
            },
            hosts: Vec::new(),
            kind: Kind::Generic,
            odd_hosts: None,
        }
    }

    /// Its GPUs as programs find them, where the scheduler numbers them and sets no
    /// variable that programs know: Grid Engine.
    pub fn devices(&self) -> Option<String> {
        let gpus = &self.record.gpus;
        let is_number = |gpu: &String| gpu.bytes().all(|byte| byte.is_ascii_digit());
        let are_numbers = !gpus.is_empty() && gpus.iter().all(is_number);
        let is_engine = self.record.scheduler == SCHEDULERS[1].scheduler;
        (is_engine && are_numbers).then(|| gpus.join(","))
    }
}

/// Memory of a job of SLURM, which counts in megabytes; `None`: it is not limited, or
/// the scheduler does not tell.
fn memory(cpus: f64, hosts: u64, number: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let of_cpus = || Some((number("SLURM_MEM_PER_CPU")? as f64 * cpus) as u64);
    let of_hosts = number("SLURM_MEM_PER_NODE").and_then(|each| each.checked_mul(hosts));
    let megabytes = of_hosts.or_else(of_cpus)?;
    megabytes.checked_mul(1 << 20)
}

/// CPUs of all hosts, from `8(x2),4`: two hosts with 8, and one with 4.
fn sum(text: &str) -> Option<u64> {
    let part = |part: &str| {
        let (cpus, hosts) = match part.split_once("(x") {
            Some((cpus, hosts)) => (cpus, hosts.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        cpus.parse::<u64>().ok()?.checked_mul(hosts)
    };
    let mut parts = text.split(',').map(part);
    parts.try_fold(0_u64, |sum, part| sum.checked_add(part?))
}

/// Names between commas or blanks: `0,1`, `cuda0 cuda1`.
fn list(text: &str) -> Vec<String> {
    let names = text.split([',', ' ']).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> AllocationResources {
        read_with_gpus(0, vars)
    }

    fn read_with_gpus(gpus: u32, vars: &[(&str, &str)]) -> AllocationResources {
        let grant = Grant {
            folder: "/".into(),
            task: 3,
            job: "12".to_owned(),
            cpus: Some(1.0),
            memory: Some(1 << 30),
            gpus,
            setup: None,
            min_free: 0,
        };
        let var = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        AllocationResources::read(&grant, "n1", 64.0, var)
    }

    #[test]
    fn an_allocation_gives_what_its_scheduler_says_and_not_what_the_host_has() {
        let slurm = [
            ("SLURM_JOB_ID", "15"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_JOB_PARTITION", "main"),
            ("SLURM_CPUS_ON_NODE", "8"),
            ("SLURM_MEM_PER_NODE", "4096"),
        ];
        let granted = read(&slurm);
        assert_eq!(granted.capacity, Capacity::new(8.0, Some(4 << 30)));
        let record = &granted.record;
        assert_eq!((&*record.job, &*record.partition), ("12_3", "main"));
        let engine = [
            ("SGE_TASK_ID", "undefined"),
            ("QUEUE", "all.q"),
            ("NSLOTS", "2"),
        ];
        let granted = read(&engine);
        assert_eq!(granted.capacity, Capacity::new(2.0, Some(1 << 30)));
        assert_eq!(granted.record.job, "12");
        assert_eq!(read(&[]).capacity, Capacity::new(1.0, Some(1 << 30)));
    }

    #[test]
    fn an_allocation_over_several_hosts_gives_what_all_of_them_give() {
        let slurm = [
            ("SLURM_JOB_ID", "15"),
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_CPUS_ON_NODE", "8"),
            ("SLURM_JOB_CPUS_PER_NODE", "8(x2),4"),
            ("SLURM_MEM_PER_NODE", "1024"),
        ];
        let granted = read(&slurm);
        assert_eq!(granted.capacity, Capacity::new(20.0, Some(3 << 30)));
        assert_eq!(granted.record.hosts, ["n1", "n2", "n3"]);
        assert_eq!(granted.odd_hosts, None);
        let odd = read(&[("SLURM_JOB_ID", "15"), ("SLURM_JOB_NODELIST", "n[1")]);
        assert!(odd.record.hosts.is_empty());
        let why = odd.odd_hosts.unwrap();
        assert_eq!(why, "SLURM_JOB_NODELIST cannot be read: n[1");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(
            &file,
            "a.x 2 all.q@a.x UNDEFINED\nb.x 2 all.q@b.x UNDEFINED\n",
        )
        .unwrap();
        let engine = [
            ("SGE_TASK_ID", "undefined"),
            ("NSLOTS", "4"),
            ("PE_HOSTFILE", file.to_str().unwrap()),
        ];
        let granted = read(&engine);
        assert_eq!(granted.record.hosts, ["a.x", "b.x"]);
        assert_eq!(granted.capacity, Capacity::new(4.0, Some(1 << 30)));
        for odd in ["", "8(x", "8(y2)", "a", "8,,2"] {
            assert_eq!(sum(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_allocation_gives_the_cards_that_its_scheduler_names() {
        let vars = [
            ("SLURM_JOB_ID", "15"),
            ("SLURM_CPUS_ON_NODE", "8"),
            ("SLURM_MEM_PER_CPU", "100"),
            ("SLURM_JOB_GPUS", "0,3"),
        ];
        // A whole host has GPUs that nobody asked for.
        let without = Capacity::new(8.0, Some(800 << 20));
        assert_eq!(read(&vars).capacity, without);
        let with = |cards| Capacity {
            cards: Some(cards),
            ..without
        };
        let granted = read_with_gpus(1, &vars);
        assert_eq!(granted.capacity, with(2));
        assert_eq!(granted.record.gpus, ["0", "3"]);
        // Those of other hosts are not named.
        let hosts = ("SLURM_JOB_NODELIST", "n[1-2]");
        let cpus = ("SLURM_JOB_CPUS_PER_NODE", "4(x2)");
        let several = [&vars[..], &[hosts, cpus]].concat();
        assert_eq!(read_with_gpus(4, &several).capacity, with(4));
        assert_eq!(read_with_gpus(3, &vars[..3]).capacity, with(3));
        let granted = read(&[("SGE_TASK_ID", "7"), ("SGE_HGR_gpu", "cuda0 cuda1")]);
        assert_eq!(granted.record.gpus, ["cuda0", "cuda1"]);
        assert_eq!(granted.devices(), None);
        let granted = read(&[("SGE_TASK_ID", "7"), ("SGE_HGR_gpu", "0 1")]);
        assert_eq!(granted.devices().as_deref(), Some("0,1"));
    }
}
