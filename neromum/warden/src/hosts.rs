//! The hosts of an allocation, as schedulers name them in it.

use crate::{Kind, Word};

/// Largest number of hosts of one allocation.
const HOSTS_MAX: usize = 10_000;
/// Widest number in a name.
const WIDTH_MAX: usize = 20;
/// Most brackets in a name.
const BRACKETS_MAX: usize = 4;

/// Reads `SLURM_JOB_NODELIST`: names with commas between them, in which brackets hold
/// numbers and ranges of one width (`r[1-2]n[01-16,20]`). `None`: it is another text, or
/// has too many hosts.
pub fn slurm(text: &str) -> Option<Vec<AllocatedHost>> {
    let mut hosts = Vec::new();
    for pattern in outside_brackets(text)? {
        if pattern.matches('[').count() > BRACKETS_MAX {
            return None;
        }
        let room = HOSTS_MAX - hosts.len();
        hosts.extend(expanded(pattern, room)?);
    }
    let host = |name| AllocatedHost { name, slots: 0 };
    checked(hosts.into_iter().map(host).collect())
}

/// Reads the file that `PE_HOSTFILE` of Grid Engine names, with a line for each queue of
/// a host: `n1.example 4 all.q@n1.example UNDEFINED`. Returns each host once, with its
/// slots. `None`: it is another text, or has too many hosts.
pub fn grid_engine(text: &str) -> Option<Vec<AllocatedHost>> {
    let mut hosts: Vec<AllocatedHost> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let (name, slots) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
        let room = HOSTS_MAX - hosts.len();
        match hosts.iter_mut().find(|known| known.name == name) {
            Some(known) => known.slots = known.slots.checked_add(slots)?,
            None if room > 0 => hosts.push(AllocatedHost {
                name: name.to_owned(),
                slots,
            }),
            None => return None,
        }
    }
    checked(hosts)
}

/// A host of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedHost {
    /// Its name at the scheduler.
    pub name: String,
    /// Slots that it gives (Grid Engine); 0: not told.
    pub slots: u32,
}

/// A command that starts the helpers of some hosts, with their standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperCall {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Hosts that get one.
    pub hosts: Vec<String>,
}

/// The commands that start helpers on all hosts, from the first one: there the helper is
/// started without the scheduler. On Grid Engine a helper takes one of the tasks that
/// `qrsh -inherit` may start on its host, which are as many as its slots; so a host with
/// one slot gets none. `helper` is the program with its arguments; the host's name
/// follows where it does not find that out itself.
pub fn helper_calls(kind: Kind, hosts: &[AllocatedHost], helper: &[String]) -> Vec<HelperCall> {
    let Some((first, others)) = hosts.split_first() else {
        return Vec::new();
    };
    let call_of = |front: &[&str], helper: &[String], hosts: &[&str], name: Option<&str>| {
        let front = front.iter().map(|word| (*word).to_owned());
        let words = front.chain(helper.iter().cloned());
        HelperCall {
            argv: words.chain(name.map(str::to_owned)).collect(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        }
    };
    let call = |front: &[&str], hosts: &[&str], name| call_of(front, helper, hosts, name);
    let mut calls = vec![call(&[], &[&first.name], Some(&first.name))];
    let names: Vec<&str> = others.iter().map(|host| host.name.as_str()).collect();
    match kind {
        Kind::Slurm if !names.is_empty() => {
            let count = names.len();
            let (nodes, tasks) = (format!("--nodes={count}"), format!("--ntasks={count}"));
            let list = format!("--nodelist={}", names.join(","));
            // Beside the run's own steps: it takes neither their CPUs nor their memory.
            // One that dies leaves the others alone.
            let front = [
                "srun",
                "--overlap",
                &nodes,
                &tasks,
                "--ntasks-per-node=1",
                "--cpus-per-task=1",
                &list,
                "--mem=0",
                "--gres=none",
                "--kill-on-bad-exit=0",
                "--wait=0",
                "--quiet",
                "--chdir=/",
            ];
            calls.push(call(&front, &names, None));
        }
        Kind::Oge => {
            // It joins its words with blanks, and a shell of the other host reads them.
            let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
            let helper: Vec<String> = helper.iter().map(quoted).collect();
            let spare = others.iter().filter(|host| host.slots > 1);
            let each = spare.map(|host| {
                let name = host.name.as_str();
                call_of(&["qrsh", "-inherit", name], &helper, &[name], Some(name))
            });
            calls.extend(each);
        }
        Kind::Slurm | Kind::None | Kind::Generic => {}
    }
    calls
}

/// The hosts, when there are some and each may stand in a command.
fn checked(hosts: Vec<AllocatedHost>) -> Option<Vec<AllocatedHost>> {
    let fits = |host: &AllocatedHost| Word::new(&host.name).is_ok();
    (!hosts.is_empty() && hosts.iter().all(fits)).then_some(hosts)
}

/// Parts between the commas that stand outside of brackets.
fn outside_brackets(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut begin, mut inside) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return None,
            ',' if !inside => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    (!inside && parts.len() <= HOSTS_MAX).then_some(parts)
}

/// The names of one pattern, `room` at most; the last bracket counts fastest.
fn expanded(pattern: &str, room: usize) -> Option<Vec<String>> {
    let Some((head, rest)) = pattern.split_once('[') else {
        return (room > 0).then(|| vec![pattern.to_owned()]);
    };
    let (ranges, tail) = rest.split_once(']')?;
    let mut middles = Vec::new();
    for range in ranges.split(',') {
        middles.extend(numbers(range, room - middles.len())?);
    }
    let tails = expanded(tail, room)?;
    let fits = middles.len().checked_mul(tails.len())? <= room;
    let each = middles.iter().flat_map(|middle| {
        let join = move |tail: &String| format!("{head}{middle}{tail}");
        tails.iter().map(join)
    });
    fits.then(|| each.collect())
}

/// The numbers of `7` or `01-16`, as wide as the first one.
fn numbers(range: &str, room: usize) -> Option<Vec<String>> {
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (from, to, width) = (number(first)?, number(last)?, first.len());
    let fits = from <= to && to - from < room as u64 && width <= WIDTH_MAX;
    fits.then(|| (from..=to).map(|n| format!("{n:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn brackets_of_slurm_stand_for_numbers_of_one_width() {
        let of = |text: &str| {
            let hosts = slurm(text)?;
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            Some(names.join(" "))
        };
        for (text, hosts) in [
            ("n1", "n1"),
            ("n[1-3,5],gpu", "n1 n2 n3 n5 gpu"),
            ("a[08-11]", "a08 a09 a10 a11"),
            ("r[1-2]n[1,3]-ib", "r1n1-ib r1n3-ib r2n1-ib r2n3-ib"),
            ("x.example,y[007]", "x.example y007"),
        ] {
            assert_eq!(of(text).as_deref(), Some(hosts), "{text}");
        }
        for odd in [
            "",
            ",",
            "a,",
            "n[",
            "n]",
            "n[]",
            "n[1",
            "n[[1]]",
            "n[2-1]",
            "n[a]",
            "n[1-]",
            "n[-2]",
            "n[+1-2]",
            "n[1-99999]",
            "n[1-9999][1-9999]",
            "n[0-18446744073709551615]",
            "n[000000000000000000000000001-2]",
            "a[1][1][1][1][1]",
            "$(id)",
            "a b",
            "-w",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[test]
    fn one_step_of_slurm_starts_all_helpers_and_grid_engine_is_asked_for_each() {
        let helper = ["/b/nerokid", "host", "/it's r"].map(str::to_owned);
        let hosts = [("a", 4), ("b", 1), ("c", 2)].map(|(name, slots)| AllocatedHost {
            name: name.to_owned(),
            slots,
        });
        let said = |kind, hosts: &[AllocatedHost]| {
            let calls = helper_calls(kind, hosts, &helper).into_iter();
            let said = calls.map(|call| (call.argv.join(" "), call.hosts.join(" ")));
            said.collect::<Vec<_>>()
        };
        let own = ("/b/nerokid host /it's r a".to_owned(), "a".to_owned());
        let slurm = said(Kind::Slurm, &hosts);
        assert_eq!(slurm[0], own);
        let (command, helped) = &slurm[1];
        assert!(
            command.starts_with("srun --overlap --nodes=2 --ntasks=2 "),
            "{command}"
        );
        assert!(command.contains(" --nodelist=b,c "), "{command}");
        assert!(command.ends_with(" /b/nerokid host /it's r"), "{command}");
        assert_eq!(helped, "b c");
        let engine = "qrsh -inherit c '/b/nerokid' 'host' '/it'\\''s r' c".to_owned();
        let expected = [own.clone(), (engine, "c".to_owned())];
        assert_eq!(said(Kind::Oge, &hosts), expected);
        assert_eq!(said(Kind::Slurm, &hosts[..1]), [own]);
        assert_eq!(said(Kind::Slurm, &[]), []);
    }

    #[test]
    fn hosts_of_grid_engine_are_counted_once_with_all_their_slots() {
        let text = "n1.x 4 all.q@n1.x UNDEFINED\nn2.x 2 all.q@n2.x <NULL>\nn1.x 1 b.q@n1.x 0,1\n";
        let hosts = grid_engine(text).unwrap();
        let hosts: Vec<(&str, u32)> = (hosts.iter())
            .map(|host| (host.name.as_str(), host.slots))
            .collect();
        assert_eq!(hosts, [("n1.x", 5), ("n2.x", 2)]);
        for odd in ["", "n1\n", "n1 x q\n", "$(id) 1 q\n", "n1 1 q\n\n"] {
            assert_eq!(grid_engine(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r"[a-c0-9\[\],\-. ]{0,40}") {
            if let Some(hosts) = slurm(&text) {
                prop_assert!((1..=HOSTS_MAX).contains(&hosts.len()));
                prop_assert!(hosts.iter().all(|host| !host.name.contains(['[', ']', ',', ' '])));
            }
            let _ = grid_engine(&text);
        }

        #[test]
        fn written_ranges_read_back(
            first in 0..500_u64,
            count in 1..50_u64,
            width in 1..6_usize,
        ) {
            let last = first + count - 1;
            let hosts = slurm(&format!("n[{first:0width$}-{last:0width$}]")).unwrap();
            prop_assert_eq!(hosts.len() as u64, count);
            prop_assert_eq!(&hosts[0].name, &format!("n{first:0width$}"));
            prop_assert_eq!(&hosts[hosts.len() - 1].name, &format!("n{last:0width$}"));
        }
    }
}
