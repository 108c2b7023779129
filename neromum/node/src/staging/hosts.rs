//! Runs over several hosts: the variables that name the hosts to a job, and the launcher
//! that starts its processes on them.

use std::net::TcpListener;

use nero_model::RunId;
use nero_wire::v1::RunSpec;

/// Ports for `MASTER_PORT`, below those that kernels give to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The hosts of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationHosts {
    /// Their names, this one first.
    pub names: Vec<String>,
    /// The scheduler's number of the job.
    pub job: String,
}

impl AllocationHosts {
    /// Variables for a run's job; `is_free` tells whether a port of this host is free.
    pub fn vars(
        &self,
        run: RunId,
        is_free: impl Fn(u16) -> bool,
    ) -> Option<[(&'static str, String); 4]> {
        let first = self.names.first()?;
        Some([
            ("NERO_HOSTS", self.names.join(",")),
            ("NERO_NNODES", self.names.len().to_string()),
            ("MASTER_ADDR", first.clone()),
            ("MASTER_PORT", port(&self.job, run, is_free).to_string()),
        ])
    }
}

/// The port that follows from the numbers of the job and of the run, else the next one
/// that is free; the same for each start of them while it is.
fn port(job: &str, run: RunId, is_free: impl Fn(u16) -> bool) -> u16 {
    // FNV-1a.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = format!("{job} {run}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, mix);
    let count = u64::from(PORTS.end - PORTS.start);
    let nth = |n: u64| PORTS.start + ((hash % count + n) % count) as u16;
    let free = (0..count).map(nth).find(|port| is_free(*port));
    free.unwrap_or_else(|| nth(0))
}

/// Whether nothing on this host uses a port.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("::", port)).is_ok() || TcpListener::bind(("0.0.0.0", port)).is_ok()
}

/// The words before a run's command that start it on its hosts; none: the command is
/// started here. `var` returns a variable of the job.
pub fn launcher(spec: &RunSpec, var: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let Some(asks) = &spec.scheduler else {
        return Vec::new();
    };
    let words: &[&str] = match &*asks.launcher {
        "srun" => SRUN,
        "mpirun" => &["mpirun", "-n", &processes(spec).to_string()],
        "torchrun" => return torchrun(spec, var),
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether the job is `srun`, which makes the run's processes a step of SLURM.
pub fn is_step(spec: &RunSpec) -> bool {
    launcher(spec, |_| None)
        .first()
        .is_some_and(|word| word == SRUN[0])
}

/// `srun` ends the other processes when one fails; they would wait for it without end.
const SRUN: &[&str] = &["srun", "--kill-on-bad-exit=1"];

/// `torchrun`, by itself on one host, else one on each of them.
fn torchrun(spec: &RunSpec, var: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let asks = spec.scheduler.clone().unwrap_or_default();
    let hosts = asks.nodes.max(1);
    let processes = match (asks.processes, asks.gpus) {
        (0, gpus) => gpus.max(hosts),
        (given, _) => given,
    };
    let each = format!("--nproc-per-node={}", (processes / hosts).max(1));
    let mut words: Vec<String> = match hosts {
        1 => ["torchrun", "--standalone"].map(str::to_owned).into(),
        hosts => {
            let endpoint = ["MASTER_ADDR", "MASTER_PORT"].map(|name| var(name).unwrap_or_default());
            let mut words: Vec<String> = SRUN.iter().map(|word| (*word).to_owned()).collect();
            words.extend([
                "--ntasks-per-node=1".to_owned(),
                "torchrun".to_owned(),
                "--rdzv-backend=c10d".to_owned(),
                format!("--rdzv-endpoint={}", endpoint.join(":")),
                format!("--rdzv-id={}", var("NERO_RUN").unwrap_or_default()),
                format!("--nnodes={hosts}"),
            ]);
            words
        }
    };
    // Without `--no-python` it would start the command as a script of Python.
    words.extend([each, "--no-python".to_owned()]);
    words
}

/// Processes of a run that its launcher starts; 1 without one.
pub fn processes(spec: &RunSpec) -> u32 {
    let asks = spec.scheduler.as_ref();
    let of = |asks: &nero_wire::v1::SchedulerRequest| match asks.processes {
        0 => asks.nodes.max(1),
        given => given,
    };
    asks.map_or(1, of)
}

#[cfg(test)]
mod tests {
    use nero_model::ExperimentId;
    use nero_wire::v1::SchedulerRequest;

    use super::*;

    fn run(number: u32) -> RunId {
        RunId {
            experiment: ExperimentId(7),
            number,
        }
    }

    #[test]
    fn the_first_host_is_the_master_and_its_port_follows_from_the_job() {
        let hosts = AllocationHosts {
            names: vec!["n1".to_owned(), "n2".to_owned()],
            job: "12_3".to_owned(),
        };
        let vars = hosts.vars(run(1), |_| true).unwrap();
        let [(_, names), (_, count), (_, address), (_, first)] = vars;
        assert_eq!((&*names, &*count, &*address), ("n1,n2", "2", "n1"));
        let port = |run, is_free: &dyn Fn(u16) -> bool| -> u16 {
            let [.., (_, port)] = hosts.vars(run, is_free).unwrap();
            port.parse().unwrap()
        };
        let first: u16 = first.parse().unwrap();
        assert!(PORTS.contains(&first));
        assert_eq!(port(run(1), &|_| true), first);
        assert_ne!(port(run(2), &|_| true), first, "beside it on the host");
        let next = port(run(1), &|port| port != first);
        assert!(next != first && PORTS.contains(&next));
        assert_eq!(port(run(1), &|_| false), first);
        assert_eq!(AllocationHosts::default().vars(run(1), |_| true), None);
    }

    #[test]
    fn a_launcher_stands_before_the_command() {
        let words = |launcher: &str, nodes, processes| {
            let spec = RunSpec {
                scheduler: Some(SchedulerRequest {
                    launcher: launcher.to_owned(),
                    nodes,
                    processes,
                    ..SchedulerRequest::default()
                }),
                ..RunSpec::default()
            };
            let var = |name: &str| Some(format!("<{name}>"));
            super::launcher(&spec, var).join(" ")
        };
        assert_eq!(words("srun", 2, 0), "srun --kill-on-bad-exit=1");
        assert_eq!(words("mpirun", 2, 0), "mpirun -n 2");
        assert_eq!(words("mpirun", 2, 8), "mpirun -n 8");
        assert_eq!(words("none", 2, 8), "");
        assert_eq!(words("", 0, 0), "");
        assert!(super::launcher(&RunSpec::default(), |_| None).is_empty());
        let one = "torchrun --standalone --nproc-per-node=4 --no-python";
        assert_eq!(words("torchrun", 1, 4), one);
        let two = "srun --kill-on-bad-exit=1 --ntasks-per-node=1 torchrun --rdzv-backend=c10d \
                   --rdzv-endpoint=<MASTER_ADDR>:<MASTER_PORT> --rdzv-id=<NERO_RUN> --nnodes=2 \
                   --nproc-per-node=4 --no-python";
        assert_eq!(words("torchrun", 2, 8), two);
    }
}
