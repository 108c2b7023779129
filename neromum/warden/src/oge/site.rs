//! Version, limits, queues and parallel environments.

use std::collections::HashMap;

use super::xml;
use crate::{AccountingAccess, Call, CallOutput, GpusPer, Partition, Site, Unreadable, Word};

/// Tasks of an array where its limit is not told. A site that changed the limit of
/// 75000 hardly takes less.
const ARRAY_UNTOLD: u64 = 1000;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::new("qstat", ["-help"]),
        Call::new("qconf", ["-sconf"]),
        Call::new("qconf", ["-sq", "*"]),
        Call::new("qconf", ["-spl"]),
        Call::new("qhost", ["-xml"]),
        Call::new("qselect", []),
        Call::new("qconf", ["-sc"]),
    ]
}

pub(super) fn read(said: &[CallOutput]) -> Result<Site, Unreadable> {
    let calls = calls();
    let text = |at: usize| match said.get(at) {
        Some(said) => said.text(&calls[at]),
        None => Err(Unreadable::odd(calls[at].program.clone(), "it is missing")),
    };
    let mut site = Site {
        version: version(&text(0)?),
        // `qacct` reads a file that every installation writes.
        accounting: AccountingAccess::Present,
        // A job that ended is not listed at all.
        ended_kept_s: Some(0),
        ..Site::default()
    };
    // Grid Engine tells its configuration to administrative hosts alone; a login node
    // may only submit. Then the limits are unknown, and a site's queues have but names.
    match said.get(1) {
        Some(said) if said.complaint().contains("is not an admin host") => {
            site.array_index_end = Some(ARRAY_UNTOLD + 1);
            read_names(&mut site, &text(5)?);
        }
        _ => {
            read_config(&mut site, &text(1)?)?;
            read_queues(&mut site, &text(2)?);
        }
    }
    // A site without parallel environments exits with 1.
    if let Ok(text) = text(3) {
        let names = text.split_whitespace().map(Word::new);
        let fit: Vec<Word> = names.flatten().collect();
        site.odd_names += text.split_whitespace().count() - fit.len();
        site.environments = fit;
    }
    // Hosts differ from queue to queue; the largest of all is the least that is
    // known about each.
    if let Ok(text) = text(4) {
        read_hosts(&mut site, &text);
    }
    // Without an answer each slot counts, as Grid Engine's own complexes do.
    if let Ok(text) = text(6) {
        site.gpus_per = gpus_per(&text);
    }
    Ok(site)
}

/// The column `consumable` of the complex that we ask for, as in
/// `gpu  gpu  INT  <=  YES  JOB  0  0`.
fn gpus_per(text: &str) -> GpusPer {
    let rows = text.lines().map(|line| line.split_whitespace());
    let mut rows = rows.filter_map(|mut words| match words.next() {
        Some("gpu") => words.nth(4),
        Some(_) | None => None,
    });
    match rows.next() {
        Some("JOB") => GpusPer::Job,
        Some("HOST") => GpusPer::Host,
        Some(_) | None => GpusPer::Slot,
    }
}

/// `8.1.9` of `SGE 8.1.9`, the first line of any `-help`.
fn version(text: &str) -> String {
    let word = text.lines().next().unwrap_or_default();
    let word = word.split_whitespace().last().unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || ".-_".contains(*c);
    word.chars().take_while(fits).take(40).collect()
}

/// Lines `key value`; a value goes on behind a backslash.
fn pairs(text: &str) -> HashMap<&str, &str> {
    let lines = text.lines();
    let pairs = lines.filter_map(|line| line.split_once(char::is_whitespace));
    pairs.map(|(key, value)| (key, value.trim())).collect()
}

fn read_config(site: &mut Site, text: &str) -> Result<(), Unreadable> {
    let config = pairs(text);
    let limit = |key: &str| -> Option<u64> {
        // 0 stands for no limit.
        config.get(key)?.parse().ok().filter(|number| *number > 0)
    };
    if !config.contains_key("max_aj_tasks") {
        return Err(Unreadable::odd("qconf", "it has no max_aj_tasks"));
    }
    site.array_index_end = limit("max_aj_tasks").map(|tasks| tasks.saturating_add(1));
    site.array_running_max = limit("max_aj_instances");
    site.jobs_max = limit("max_jobs");
    site.own_jobs_max = limit("max_u_jobs");
    Ok(())
}

/// One block of pairs for each queue, with an empty line between them.
fn read_queues(site: &mut Site, text: &str) {
    for block in text.split("\n\n") {
        let queue = pairs(block);
        let Some(name) = queue.get("qname") else {
            continue;
        };
        let Ok(name) = Word::new(name) else {
            site.odd_names += 1;
            continue;
        };
        // `1,[a=8]`: most hosts have one slot, the host a has eight.
        let slots = queue.get("slots").into_iter().flat_map(|text| {
            let numbers = text.split(|c: char| !c.is_ascii_digit());
            numbers.filter_map(|number| number.parse::<u64>().ok())
        });
        let first = |key: &str| queue.get(key).and_then(|text| text.split(',').next());
        site.partitions.push(Partition {
            name,
            is_default: false,
            is_open: queue.get("qtype").is_none_or(|text| text.contains("BATCH")),
            time_max_s: first("h_rt").and_then(seconds),
            hosts: None,
            cpus: slots.max(),
            memory_bytes: first("h_vmem").and_then(bytes),
            gpus: Vec::new(),
        });
    }
}

/// A line `all.q@host` for each queue and host.
fn read_names(site: &mut Site, text: &str) {
    let names = text
        .lines()
        .filter_map(|line| line.trim().split('@').next());
    for name in names {
        match Word::new(name) {
            Ok(name) if site.partitions.iter().any(|known| known.name == name) => {}
            Ok(name) => site.partitions.push(Partition {
                name,
                is_default: false,
                is_open: true,
                time_max_s: None,
                hosts: None,
                cpus: None,
                memory_bytes: None,
                gpus: Vec::new(),
            }),
            Err(_) => site.odd_names += 1,
        }
    }
}

fn read_hosts(site: &mut Site, text: &str) {
    let hosts = xml::records(text, "host");
    let most = |name: &str, read: fn(&str) -> Option<u64>| {
        let each = hosts.iter().filter_map(|host| read(host.leaf(name)?));
        each.max()
    };
    let cpus = most("num_proc", |text| text.parse().ok());
    let memory = most("mem_total", bytes);
    for queue in &mut site.partitions {
        queue.cpus = queue.cpus.or(cpus);
        queue.memory_bytes = match (queue.memory_bytes, memory) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        };
    }
}

/// Seconds of `48:00:00` or `3600`; `None` for `INFINITY` and anything else.
fn seconds(text: &str) -> Option<u64> {
    let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
    let parts: Vec<u64> = text.split(':').map(number).collect::<Option<_>>()?;
    match parts[..] {
        [seconds] => Some(seconds),
        [hours, minutes, seconds] => Some((hours * 60 + minutes) * 60 + seconds),
        _ => None,
    }
}

/// Bytes of `23.5G`; `None` for `INFINITY` and anything else. `K`, `M`, `G`, `T`
/// count in 1024, `k`, `m`, `g`, `t` in 1000.
fn bytes(text: &str) -> Option<u64> {
    let last = text.chars().last()?;
    let (number, unit) = match "KMGTkmgt".find(last) {
        Some(at) => {
            let power = i32::try_from(at % 4).ok()? + 1;
            let base: f64 = if at < 4 { 1024.0 } else { 1000.0 };
            (&text[..text.len() - 1], base.powi(power))
        }
        None => (text, 1.0),
    };
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let number: f64 = Some(number)
        .filter(|n| n.chars().all(digits))?
        .parse()
        .ok()?;
    Some((number * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_and_infinity_is_no_limit() {
        assert_eq!(bytes("1.5K"), Some(1536));
        assert_eq!(bytes("4G"), Some(4 << 30));
        assert_eq!(bytes("2k"), Some(2000));
        assert_eq!(bytes("7"), Some(7));
        for odd in ["INFINITY", "NONE", "-", "", "-4G", "inf", "1e9"] {
            assert_eq!(bytes(odd), None, "{odd}");
        }
        assert_eq!(seconds("48:00:00"), Some(172_800));
        assert_eq!(seconds("600"), Some(600));
        for odd in ["INFINITY", "", "1:2", "-1", "x"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_version_ends_the_first_line() {
        assert_eq!(version("SGE 8.1.9\nusage: qstat [options]\n"), "8.1.9");
        assert_eq!(version("UGE 8.6.4"), "8.6.4");
        assert_eq!(version(""), "");
    }
}
