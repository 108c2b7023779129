//! Version, limits and partitions.

use std::collections::HashMap;

use super::time;
use crate::{AccountingAccess, Call, CallOutput, Gpus, Partition, Site, Unreadable, Word};

/// Fields of a row of `sinfo`: partition, number of hosts, CPUs, memory in MB,
/// generic resources, state of the partition.
const HOSTS: &str = "--format=%R|%D|%c|%m|%G|%a";

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::new("sbatch", ["--version"]),
        config_call(),
        Call::new("scontrol", ["show", "partition", "--oneliner"]),
        Call::new("sinfo", ["--noheader", "--exact", HOSTS]),
    ]
}

pub(super) fn config_call() -> Call {
    Call::new("scontrol", ["show", "config"])
}

/// How long the controller has been up, by the answer to [`config_call`].
pub(super) fn read_uptime(said: &CallOutput) -> Result<Option<u64>, Unreadable> {
    let mut site = Site::default();
    read_config(&mut site, &said.text(&config_call())?)?;
    Ok(site.up_s)
}

pub(super) fn read(said: &[CallOutput]) -> Result<Site, Unreadable> {
    let calls = calls();
    let text = |at: usize| match said.get(at) {
        Some(said) => said.text(&calls[at]),
        None => Err(Unreadable::odd(calls[at].program.clone(), "it is missing")),
    };
    let mut site = Site {
        version: version(&text(0)?),
        ..Site::default()
    };
    read_config(&mut site, &text(1)?)?;
    read_partitions(&mut site, &text(2)?);
    read_hosts(&mut site, &text(3)?);
    Ok(site)
}

/// `22.05.8` of `slurm-wlm 22.05.8`.
fn version(text: &str) -> String {
    let word = text.split_whitespace().nth(1).unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || ".-_".contains(*c);
    word.chars().take_while(fits).take(40).collect()
}

/// Lines `Key = value` of `scontrol show config`.
fn read_config(site: &mut Site, text: &str) -> Result<(), Unreadable> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let config: HashMap<&str, &str> = lines
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let number = |key: &str| -> Option<u64> {
        let first = config.get(key)?.split_whitespace().next()?;
        first.parse().ok()
    };
    if !config.contains_key("MaxArraySize") {
        let what = "it has no MaxArraySize";
        return Err(Unreadable::odd("scontrol", what));
    }
    site.cluster = config
        .get("ClusterName")
        .and_then(|name| Word::new(name).ok());
    site.array_index_end = number("MaxArraySize");
    site.jobs_max = number("MaxJobCount");
    site.ended_kept_s = number("MinJobAge");
    // Both times are of the controller's clock, so that no other counts.
    let mut heads = text.lines().filter_map(|line| line.split_once(" as of "));
    let now = heads.next().and_then(|(_, text)| time::moment(text.trim()));
    let started = config.get("BOOT_TIME").and_then(|text| time::moment(text));
    let up = now.zip(started).map(|(now, started)| now - started);
    site.up_s = up.and_then(|up| u64::try_from(up).ok());
    site.accounting = match config.get("AccountingStorageType") {
        None => AccountingAccess::Unknown,
        // The first is of versions to 20.11, the second of later ones.
        Some(&("accounting_storage/none" | "(null)")) => AccountingAccess::Absent,
        Some(_) => AccountingAccess::Present,
    };
    Ok(())
}

/// One line for each partition, of words `Key=value`.
fn read_partitions(site: &mut Site, text: &str) {
    for line in text.lines() {
        let words = line
            .split_whitespace()
            .filter_map(|word| word.split_once('='));
        let facts: HashMap<&str, &str> = words.collect();
        let Some(name) = facts.get("PartitionName") else {
            continue;
        };
        let Ok(name) = Word::new(name) else {
            site.odd_names += 1;
            continue;
        };
        let number = |key: &str| facts.get(key)?.parse::<u64>().ok();
        let memory = number("MaxMemPerNode").and_then(megabytes);
        site.partitions.push(Partition {
            name,
            is_default: facts.get("Default") == Some(&"YES"),
            is_open: facts.get("State") == Some(&"UP"),
            time_max_s: facts.get("MaxTime").and_then(|text| time::seconds(text)),
            hosts: number("TotalNodes"),
            cpus: number("MaxCPUsPerNode"),
            memory_bytes: memory,
            gpus: Vec::new(),
        });
    }
}

fn megabytes(number: u64) -> Option<u64> {
    number.checked_mul(1 << 20)
}

/// What the hosts of each partition have; a job gets no more than the largest host
/// has, and no more than the partition allows.
fn read_hosts(site: &mut Site, text: &str) {
    let mut largest: HashMap<&str, (u64, u64)> = HashMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [name, _, cpus, memory, resources, _] = fields[..] else {
            continue;
        };
        // `8+` stands for hosts that differ.
        let number = |text: &str| text.trim_end_matches('+').parse::<u64>().unwrap_or(0);
        let most = largest.entry(name).or_default();
        *most = (most.0.max(number(cpus)), most.1.max(number(memory)));
        let partition = site
            .partitions
            .iter_mut()
            .find(|partition| partition.name.as_str() == name);
        let Some(partition) = partition else {
            continue;
        };
        for gpus in gpus(resources) {
            if !partition.gpus.contains(&gpus) {
                partition.gpus.push(gpus);
            }
        }
    }
    for partition in &mut site.partitions {
        let Some((cpus, memory)) = largest.get(partition.name.as_str()) else {
            continue;
        };
        let lesser = |limit: Option<u64>, most: Option<u64>| match (limit, most) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        };
        let known = |number: u64| Some(number).filter(|number| *number > 0);
        partition.cpus = lesser(partition.cpus, known(*cpus));
        let memory = known(*memory).and_then(megabytes);
        partition.memory_bytes = lesser(partition.memory_bytes, memory);
    }
}

/// The GPUs of `gpu:2`, `gpu:a100:4(S:0-1),nvme:1`, `(null)`.
fn gpus(resources: &str) -> Vec<Gpus> {
    let mut depth = 0_usize;
    let plain: String = resources
        .chars()
        .filter(|c| {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect();
    let each = plain.split(',').filter_map(|one| {
        let parts: Vec<&str> = one.split(':').collect();
        let (kind, count) = match parts[..] {
            ["gpu", count] => (None, count),
            ["gpu", kind, count] => (Some(Word::new(kind).ok()?), count),
            _ => return None,
        };
        let count = count.parse().ok().filter(|count| *count > 0)?;
        Some(Gpus { kind, count })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_read_with_type_and_number() {
        let of = |text: &str| {
            let found = gpus(text).into_iter();
            let shown =
                found.map(|one| (one.kind.map_or(String::new(), |k| k.to_string()), one.count));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(of("gpu:2"), [(String::new(), 2)]);
        assert_eq!(of("gpu:a100:4(S:0,2),nvme:1"), [("a100".to_owned(), 4)]);
        assert_eq!(
            of("gpu:v100:2,gpu:p100:1"),
            [("v100".to_owned(), 2), ("p100".to_owned(), 1)]
        );
        for none in ["(null)", "", "nvme:1", "gpu:$(x):1", "gpu:0", "gpu"] {
            assert_eq!(of(none), [], "{none}");
        }
    }

    #[test]
    fn the_version_is_the_second_word() {
        assert_eq!(version("slurm-wlm 22.05.8\n"), "22.05.8");
        assert_eq!(version("slurm 23.02.1"), "23.02.1");
        assert_eq!(version(""), "");
        assert_eq!(version("slurm 23;rm"), "23");
    }
}
