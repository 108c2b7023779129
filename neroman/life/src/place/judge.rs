//! Judges whether a node meets an experiment's `requires`.

use std::collections::BTreeMap;

use nero_expr::{NodeFact, NodeScope, ParseContext, Requirement, Value};
use nero_format::NodeProbe;

use super::cluster::Cluster;
use crate::facts::reason::Misfit;
use crate::facts::run_record::RunDemands;

/// A node's own figures, and the resources that our runs take there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Processors that runs may use.
    pub cpus: f64,
    /// Memory that runs may use.
    pub memory_bytes: u64,
    /// Free bytes below the node's root.
    pub disk_free_bytes: u64,
    /// Average number of busy threads, all users together.
    pub load: f64,
    /// Processors that our live runs there take, waiting ones as well.
    pub cores: f64,
    /// The cluster that its scheduler guards; `None`: it starts runs itself.
    pub cluster: Option<Cluster>,
    /// The other facts that expressions use.
    pub facts: Facts,
    /// Its answers to probes, by their lines of shell, as far as they are known now.
    pub probes: BTreeMap<String, ProbeAnswer>,
}

/// What a node answers to a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeAnswer {
    /// What it prints; else why there is no answer.
    pub printed: Result<String, String>,
    /// Since when, as people read it.
    pub since: String,
}

/// The facts of a node for `requires`, besides the other figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The node's name in the configuration.
    pub name: String,
    /// The node's groups, with blanks between.
    pub groups: String,
    pub host: String,
    pub os: String,
    pub arch: String,
    pub kernel: String,
    /// Version of glibc; empty if it has another library.
    pub glibc: String,
    pub cpus_free: f64,
    pub memory_free_bytes: u64,
    /// Average over fifteen minutes.
    pub load_15: f64,
    pub disk_bytes: u64,
    pub gpus: Vec<GpuFacts>,
    pub live: u32,
    pub waiting: u32,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFacts {
    pub name: String,
    pub memory_bytes: u64,
    pub memory_free_bytes: u64,
    /// Share of the time in which it was busy.
    pub used: f64,
}

/// Whether a node meets `requires`.
///
/// # Errors
/// The parts that it does not meet, with their values.
pub fn judge(takes: &RunDemands, figures: &Figures) -> Result<(), Misfit> {
    unmet(takes, figures, |_| true)
}

/// Whether a node may ever meet it: values that change by themselves are
/// ignored.
///
/// # Errors
/// The parts that it does not meet and never will, with their values.
pub fn ever(takes: &RunDemands, figures: &Figures) -> Result<(), Misfit> {
    unmet(takes, figures, |unmet| unmet.for_good)
}

fn unmet(
    takes: &RunDemands,
    figures: &Figures,
    counts: impl Fn(&nero_expr::UnmetRequirement) -> bool,
) -> Result<(), Misfit> {
    // The text was checked when the experiment was added; a later version may
    // know less.
    let probes = takes.probes.iter().map(|probe| &*probe.name);
    let context = ParseContext::utc(0).with_probes(probes);
    let requirement =
        Requirement::parse(&takes.requires, &context).map_err(|error| Misfit::Unreadable {
            requires: takes.requires.clone(),
            error: error.to_string(),
        })?;
    let asked = AskedNode {
        figures,
        probes: &takes.probes,
    };
    let mut unmet = requirement.unmet(&asked);
    unmet.retain(counts);
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Misfit::Unmet(unmet))
    }
}

/// A node with the probes that a run has it asked.
struct AskedNode<'a> {
    figures: &'a Figures,
    probes: &'a [NodeProbe],
}

impl AskedNode<'_> {
    fn answer(&self, name: &str) -> Option<&ProbeAnswer> {
        let probe = self.probes.iter().find(|probe| probe.name == name)?;
        self.figures.probes.get(&probe.command)
    }
}

impl NodeScope for AskedNode<'_> {
    fn fact(&self, fact: NodeFact) -> Value<'_> {
        self.figures.fact(fact)
    }

    fn probe(&self, name: &str) -> Value<'_> {
        match self.answer(name).map(|answer| &answer.printed) {
            Some(Ok(text)) => match text.trim().parse::<f64>() {
                // `nan` and `infinity` are words of a program.
                Ok(number) if number.is_finite() => Value::Number(number, Some(text)),
                Ok(_) | Err(_) => Value::Text(text),
            },
            Some(Err(_)) | None => Value::Unknown,
        }
    }

    fn about_probe(&self, name: &str) -> String {
        match self.answer(name) {
            Some(ProbeAnswer { printed, since }) => match printed {
                Ok(_) => format!(" since {since}"),
                Err(why) => format!(" since {since}: {why}"),
            },
            None => ": the node is being asked".to_owned(),
        }
    }
}

/// A text that agents of older builds leave empty.
fn text_or_unknown(text: &str) -> Value<'_> {
    Value::text_or_unknown(Some(text).filter(|text| !text.is_empty()))
}

impl NodeScope for Figures {
    fn fact(&self, fact: NodeFact) -> Value<'_> {
        let Facts {
            name,
            groups,
            host,
            os,
            arch,
            kernel,
            glibc,
            cpus_free,
            memory_free_bytes,
            load_15,
            disk_bytes,
            gpus,
            live,
            waiting,
        } = &self.facts;
        let bytes = |bytes: u64| Value::number(bytes as f64);
        match fact {
            NodeFact::Cpus => Value::number(self.cpus),
            NodeFact::CpusFree => Value::number(*cpus_free),
            NodeFact::Memory => bytes(self.memory_bytes),
            NodeFact::MemoryFree => bytes(*memory_free_bytes),
            NodeFact::Load => Value::number(*load_15),
            NodeFact::Load1 => Value::number(self.load),
            NodeFact::Gpus => Value::number(gpus.len() as f64),
            NodeFact::Gpumem => bytes(gpus.iter().map(|gpu| gpu.memory_bytes).max().unwrap_or(0)),
            NodeFact::GpumemFree => bytes(
                gpus.iter()
                    .map(|gpu| gpu.memory_free_bytes)
                    .max()
                    .unwrap_or(0),
            ),
            NodeFact::Disk => bytes(*disk_bytes),
            NodeFact::DiskFree => bytes(self.disk_free_bytes),
            NodeFact::Os => text_or_unknown(os),
            NodeFact::Arch => text_or_unknown(arch),
            NodeFact::Kernel => text_or_unknown(kernel),
            NodeFact::Glibc => text_or_unknown(glibc),
            NodeFact::Host => text_or_unknown(host),
            NodeFact::Name => Value::Text(name),
            NodeFact::Group => Value::Text(groups),
            NodeFact::Live => Value::number(f64::from(*live)),
            NodeFact::Waiting => Value::number(f64::from(*waiting)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(requires: &str) -> RunDemands {
        RunDemands {
            requires: requires.to_owned(),
            ..RunDemands::default()
        }
    }

    fn lab() -> Figures {
        Figures {
            cpus: 16.0,
            memory_bytes: 64 << 30,
            load: 1.5,
            facts: Facts {
                name: "box".to_owned(),
                groups: "gpus lab".to_owned(),
                load_15: 7.5,
                glibc: "2.34".to_owned(),
                gpus: vec![GpuFacts {
                    memory_bytes: 8 << 30,
                    ..GpuFacts::default()
                }],
                ..Facts::default()
            },
            ..Figures::default()
        }
    }

    #[test]
    fn a_missing_resource_is_reported_with_its_value() {
        let lab = lab();
        let met = "gpumem >= 8G && group == gpus && glibc >= 2.17 && load1 < 2 && name == box";
        assert_eq!(judge(&asks(met), &lab), Ok(()));
        let unmet = judge(&asks("gpumem > 20G && load < 4 && arch == x86_64"), &lab);
        let said = "gpumem > 20G (gpumem is 8G), load < 4 (load is 7.5), \
                    arch == 'x86_64' (arch is unknown)";
        assert_eq!(unmet.unwrap_err().to_string(), said);
    }

    #[test]
    fn only_what_lasts_is_missing_for_good() {
        let lab = lab();
        assert_eq!(
            ever(&asks("load < 4 && gpus >= 1 && arch == x86_64"), &lab),
            Ok(())
        );
        let said = "gpumem > 20G (gpumem is 8G)";
        let unmet = ever(&asks("gpumem > 20G && load < 4"), &lab);
        assert_eq!(unmet.unwrap_err().to_string(), said);
    }

    #[test]
    fn a_requirement_of_a_later_version_is_not_met() {
        let said = judge(&asks("colour == 'red'"), &lab()).unwrap_err();
        assert!(matches!(said, Misfit::Unreadable { .. }), "{said}");
    }

    #[test]
    fn a_probe_is_judged_by_its_last_answer_and_without_one_nothing_is_met() {
        let probe = |name: &str, command: &str| NodeProbe {
            name: name.to_owned(),
            command: command.to_owned(),
        };
        let asks = |requires: &str| RunDemands {
            probes: vec![
                probe("has_env", "test -d env"),
                probe("users", "who | wc -l"),
            ]
            .into(),
            ..asks(requires)
        };
        let mut lab = lab();
        let unknown = judge(&asks("has_env != 'no'"), &lab).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "has_env != 'no' (has_env is unknown: the node is being asked)"
        );
        assert_eq!(
            ever(&asks("has_env == 'yes'"), &lab),
            Ok(()),
            "it may change"
        );
        let mut answers = |command: &str, printed: Result<&str, &str>| {
            let printed = printed.map(str::to_owned).map_err(str::to_owned);
            let since = "14:02".to_owned();
            let answer = ProbeAnswer { printed, since };
            lab.probes.insert(command.to_owned(), answer);
        };
        answers("test -d env", Ok("no"));
        answers("who | wc -l", Ok(" 12"));
        assert_eq!(
            judge(&asks("users == 12 && has_env != 'yes'"), &lab),
            Ok(())
        );
        let unmet = judge(&asks("has_env == 'yes' && users < 4"), &lab).unwrap_err();
        assert_eq!(
            unmet.to_string(),
            "has_env == 'yes' (has_env is 'no' since 14:02), users < 4 (users is  12 since 14:02)"
        );
        lab.probes.get_mut("test -d env").unwrap().printed = Err("it hangs".to_owned());
        let unmet = judge(&asks("has_env != 'yes'"), &lab).unwrap_err();
        assert_eq!(
            unmet.to_string(),
            "has_env != 'yes' (has_env is unknown since 14:02: it hangs)"
        );
    }
}
