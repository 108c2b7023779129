//! Limits and partitions.

use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{AccountingAccess, CallOutput, End, Gpus, GpusPer, Site, Warden};

use crate::recorded;

fn said(scheduler: &str, names: &[&str]) -> Vec<CallOutput> {
    names.iter().map(|name| recorded(scheduler, name)).collect()
}

fn slurm(scheduler: &str) -> Site {
    let said = said(scheduler, &["version", "config", "partitions", "nodes"]);
    Slurm::default().read_site(&said).unwrap()
}

#[test]
fn slurm_names_its_limits_and_what_each_partition_gives() {
    let site = slurm("slurm-22.05");
    assert_eq!(site.version, "22.05.8");
    assert_eq!(site.cluster.as_ref().unwrap().as_str(), "rig");
    assert_eq!(site.array_index_end, Some(5001));
    assert_eq!(site.jobs_max, Some(20_000));
    assert_eq!(site.ended_kept_s, Some(300));
    assert_eq!(site.accounting, AccountingAccess::Present);
    let [main, short, shut] = &site.partitions[..] else {
        panic!("{:?}", site.partitions);
    };
    assert!(main.is_default && main.is_open && main.time_max_s.is_none());
    assert_eq!((main.hosts, main.cpus), (Some(3), Some(8)));
    assert_eq!(main.memory_bytes, Some(8000 << 20));
    let two = Gpus {
        kind: None,
        count: 2,
    };
    assert_eq!(main.gpus, [two]);
    assert!(!short.is_default && short.is_open);
    assert_eq!((short.time_max_s, short.cpus), (Some(1800), Some(2)));
    assert_eq!(short.memory_bytes, Some(2000 << 20));
    assert!(!shut.is_open);
}

#[test]
fn slurm_without_accounting_is_known_as_such() {
    let site = slurm("slurm-22.05-no-accounting");
    assert_eq!(site.accounting, AccountingAccess::Absent);
}

#[test]
fn grid_engine_names_its_limits_queues_and_environments() {
    let names = ["version", "config", "queues", "environments", "hosts"];
    let site = Oge::default()
        .read_site(&said("gridengine-8.1.9", &names))
        .unwrap();
    assert_eq!(site.version, "8.1.9");
    assert_eq!(site.array_index_end, Some(75_001));
    assert_eq!(site.array_running_max, Some(2000));
    assert_eq!((site.jobs_max, site.own_jobs_max), (None, None));
    let [all, big] = &site.partitions[..] else {
        panic!("{:?}", site.partitions);
    };
    assert_eq!((all.name.as_str(), all.cpus), ("all.q", Some(8)));
    assert_eq!(all.time_max_s, Some(172_800));
    assert!(all.memory_bytes.unwrap() > 20 << 30, "the host's");
    assert_eq!((big.cpus, big.time_max_s), (Some(8), Some(600)));
    assert_eq!(big.memory_bytes, Some(4 << 30));
    assert_eq!(site.environments.len(), 1);
}

#[test]
fn grid_engine_tells_for_what_a_request_for_gpus_counts() {
    let names = [
        "version",
        "config",
        "queues",
        "environments",
        "hosts",
        "queues",
    ];
    for (column, per) in [
        ("YES", GpusPer::Slot),
        ("NO", GpusPer::Slot),
        ("JOB", GpusPer::Job),
        ("HOST", GpusPer::Host),
    ] {
        let mut all = said("gridengine-8.1.9", &names);
        let table = format!(
            "#name shortcut type relop requestable consumable default urgency\n\
             gpu_mem  gm   MEMORY  <=  YES  JOB       0  0\n\
             gpu      gpu  INT     <=  YES  {column}  0  0\n"
        );
        all.push(CallOutput {
            end: End::Code(0),
            out: table.into_bytes(),
            err: Vec::new(),
        });
        let site = Oge::default().read_site(&all).unwrap();
        assert_eq!(site.gpus_per, per, "{column}");
    }
}

#[test]
fn a_login_node_that_is_no_administrative_host_knows_the_names_of_queues() {
    let denied = CallOutput {
        end: End::Code(1),
        out: Vec::new(),
        err: b"denied: host \"login1\" is not an admin host\n".to_vec(),
    };
    let mut all = said("gridengine-8.1.9", &["version", "hosts"]);
    for at in 1..4 {
        all.insert(at, denied.clone());
    }
    all.push(CallOutput {
        end: End::Code(0),
        out: b"all.q@n1\nall.q@n2\nlong.q@n1\n".to_vec(),
        err: Vec::new(),
    });
    let site = Oge::default().read_site(&all).unwrap();
    let names: Vec<&str> = site
        .partitions
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["all.q", "long.q"]);
    assert_eq!(site.partitions[0].cpus, Some(2), "of the largest host");
    assert_eq!(site.array_index_end, Some(1001), "equal runs are an array");
}

#[test]
fn a_scheduler_that_fails_is_quoted() {
    let mut said = said("slurm-22.05", &["version", "config", "partitions", "nodes"]);
    said[1] = CallOutput {
        end: End::Code(1),
        out: Vec::new(),
        err: b"slurm_load_ctl_conf error: Unable to contact slurm controller\n".to_vec(),
    };
    let error = Slurm::default().read_site(&said).unwrap_err().to_string();
    assert_eq!(
        error,
        "scontrol exited with 1: slurm_load_ctl_conf error: Unable to contact slurm controller"
    );
    said[1].end = End::TimedOut;
    assert!(Slurm::default().read_site(&said).is_err());
    said[1] = CallOutput {
        end: End::Code(0),
        out: b"something else\n".to_vec(),
        err: Vec::new(),
    };
    assert!(Slurm::default().read_site(&said).is_err());
}

#[test]
fn names_that_could_be_commands_are_left_out_and_counted() {
    let mut said = said("slurm-22.05", &["version", "config", "partitions", "nodes"]);
    said[2].out.extend_from_slice(
        b"PartitionName=a;b State=UP\nPartitionName=$(x) State=UP\nPartitionName=-p State=UP\n",
    );
    let site = Slurm::default().read_site(&said).unwrap();
    assert_eq!((site.partitions.len(), site.odd_names), (3, 3));
}

#[test]
fn the_time_since_the_start_of_a_controller_is_asked_for_alone() {
    let slurm = Slurm::default();
    let programs: Vec<String> = (slurm.uptime_calls().iter())
        .map(|call| call.program.to_string())
        .collect();
    assert_eq!(programs, ["scontrol"]);
    let up_s = slurm
        .read_uptime(&said("slurm-22.05", &["config"]))
        .unwrap();
    assert!(up_s.is_some());
    assert_eq!(up_s, self::slurm("slurm-22.05").up_s);
    assert!(slurm.read_uptime(&[]).is_err());
    assert!(Oge::default().uptime_calls().is_empty(), "it does not tell");
}
