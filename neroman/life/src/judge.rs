//! Judges whether a node meets an experiment's `requires`.

use nero_expr::{NodeFact, NodeScope, ParseContext, Requirement, Value};

use super::cluster::Cluster;
use super::reason::Misfit;

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
pub fn judge(requires: &str, figures: &Figures) -> Result<(), Misfit> {
    unmet(requires, figures, |_| true)
}

/// Whether a node may ever meet it: values that change by themselves are
/// ignored.
///
/// # Errors
/// The parts that it does not meet and never will, with their values.
pub fn ever(requires: &str, figures: &Figures) -> Result<(), Misfit> {
    unmet(requires, figures, |unmet| unmet.for_good)
}

fn unmet(
    requires: &str,
    figures: &Figures,
    counts: impl Fn(&nero_expr::Unmet) -> bool,
) -> Result<(), Misfit> {
    // The text was checked when the experiment was added; a later version may
    // know less.
    let requirement = Requirement::parse(requires, &ParseContext::utc(0)).map_err(|error| {
        Misfit::Unreadable {
            requires: requires.to_owned(),
            error: error.to_string(),
        }
    })?;
    let mut unmet = requirement.unmet(figures);
    unmet.retain(counts);
    match unmet.is_empty() {
        true => Ok(()),
        false => Err(Misfit::Unmet(unmet)),
    }
}

/// A text that agents of older builds leave empty.
fn told(text: &str) -> Value<'_> {
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
            NodeFact::Os => told(os),
            NodeFact::Arch => told(arch),
            NodeFact::Kernel => told(kernel),
            NodeFact::Glibc => told(glibc),
            NodeFact::Host => told(host),
            NodeFact::Name => Value::Text(name),
            NodeFact::Group => Value::Text(groups),
            NodeFact::Live => Value::number(f64::from(*live)),
            NodeFact::Waiting => Value::number(f64::from(*waiting)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::GpuFacts;
    use super::*;

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
        assert_eq!(judge(met, &lab), Ok(()));
        let unmet = judge("gpumem > 20G && load < 4 && arch == x86_64", &lab);
        let said = "gpumem > 20G (gpumem is 8G), load < 4 (load is 7.5), \
                    arch == 'x86_64' (arch is unknown)";
        assert_eq!(unmet.unwrap_err().to_string(), said);
    }

    #[test]
    fn only_what_lasts_is_missing_for_good() {
        let lab = lab();
        assert_eq!(
            ever("load < 4 && gpus >= 1 && arch == x86_64", &lab),
            Ok(())
        );
        let said = "gpumem > 20G (gpumem is 8G)";
        let unmet = ever("gpumem > 20G && load < 4", &lab);
        assert_eq!(unmet.unwrap_err().to_string(), said);
    }

    #[test]
    fn a_requirement_of_a_later_version_is_not_met() {
        let said = judge("colour == 'red'", &lab()).unwrap_err();
        assert!(matches!(said, Misfit::Unreadable { .. }), "{said}");
    }
}
