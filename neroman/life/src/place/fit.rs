//! Chooses the node of a run: compares the run's needs with the nodes' figures,
//! and takes the least loaded of the nodes that fit.

use super::judge;
use super::judge::Figures;
use crate::facts::reason::{Misfit, NoNode, Obstacle};
use crate::facts::run_record::RunDemands;
use crate::step::placement::Choice;

/// Availability of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeAvailability {
    /// The node was described lately.
    Known(Box<Figures>),
    /// Its answer is on its way, and is awaited whatever other nodes have.
    Asked,
    /// Its answer is late and may still come (agents are being sent there): it
    /// is awaited only if no other node fits now.
    Late,
    /// The node cannot be asked, as in "no contact since 14:02 (why)".
    Away(String),
    /// The node refused this run, with the reason.
    Refused(String),
    /// Another run keeps it from the node for now.
    Taken(Obstacle),
}

/// A node that may get the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub name: String,
    pub standing: NodeAvailability,
}

/// Judges an expression over a node.
pub type Judge<'a> = &'a dyn Fn(&RunDemands, &Figures) -> Result<(), Misfit>;

/// Chooses for one run and counts it in, so that the next choice sees it.
pub fn choose(takes: &RunDemands, nodes: &mut [Candidate], judge: Judge<'_>) -> Choice {
    if let Some(choice) = preferred(takes, nodes, judge) {
        return choice;
    }
    let mut reasons = Vec::new();
    let mut refused = false;
    // Whether none of the nodes may take it later.
    let mut for_good = true;
    let mut late = false;
    let mut best: Option<usize> = None;
    for (index, node) in nodes.iter().enumerate() {
        match &node.standing {
            NodeAvailability::Asked => return Choice::Wait,
            NodeAvailability::Late => late = true,
            NodeAvailability::Away(why) => {
                for_good &= has_data(takes, &node.name).is_err();
                reasons.push((node.name.clone(), Obstacle::Away(why.clone())));
            }
            NodeAvailability::Taken(obstacle) => {
                for_good = false;
                reasons.push((node.name.clone(), obstacle.clone()));
            }
            NodeAvailability::Refused(why) => {
                refused = true;
                reasons.push((node.name.clone(), Obstacle::Refused(why.clone())));
            }
            NodeAvailability::Known(figures) => {
                match fits(&takes.on(&node.name), &node.name, figures, judge) {
                    Err(why) => {
                        let there = takes.on(&node.name);
                        let ever = has_data(takes, &node.name).and(ever_fits(&there, figures));
                        for_good &= ever.is_err();
                        reasons.push((node.name.clone(), Obstacle::Misfit(why)));
                    }
                    Ok(()) => {
                        let is_better = |held: usize| {
                            if takes.in_order {
                                starts_first(takes, node, &nodes[held])
                            } else {
                                less(figures, &node.name, &nodes[held])
                            }
                        };
                        if best.is_none_or(is_better) {
                            best = Some(index);
                        }
                    }
                }
            }
        }
    }
    let Some(index) = best else {
        if late {
            return Choice::Wait;
        }
        if reasons.is_empty() {
            return Choice::Nowhere(NoNode::NoneConfigured);
        }
        let reasons = NoNode::Each(reasons);
        return if (refused || takes.grown) && for_good {
            Choice::Never(reasons)
        } else {
            Choice::Nowhere(reasons)
        };
    };
    let Candidate { name, standing } = &mut nodes[index];
    if let NodeAvailability::Known(figures) = standing {
        figures.cores += takes.on(name).cores();
    }
    Choice::On(name.clone())
}

/// The preferred node, if it fits or may do so soon.
fn preferred(takes: &RunDemands, nodes: &mut [Candidate], judge: Judge<'_>) -> Option<Choice> {
    let node = nodes.iter_mut().find(|node| node.name == takes.prefer)?;
    match &mut node.standing {
        NodeAvailability::Asked | NodeAvailability::Late => Some(Choice::Wait),
        NodeAvailability::Away(_) | NodeAvailability::Refused(_) | NodeAvailability::Taken(_) => {
            None
        }
        NodeAvailability::Known(figures) => {
            let there = takes.on(&node.name);
            fits(&there, &node.name, figures, judge).ok()?;
            figures.cores += there.cores();
            Some(Choice::On(node.name.clone()))
        }
    }
}

/// Whether a later node in the list comes before an earlier one, since it can start the run now.
fn starts_first(takes: &RunDemands, later: &Candidate, earlier: &Candidate) -> bool {
    let has_room = |one: &Candidate| match &one.standing {
        NodeAvailability::Known(figures) => {
            let cores = figures.cores + takes.on(&one.name).cores();
            figures.cluster.is_some() || cores <= figures.cpus
        }
        NodeAvailability::Asked
        | NodeAvailability::Late
        | NodeAvailability::Away(_)
        | NodeAvailability::Refused(_)
        | NodeAvailability::Taken(_) => false,
    };
    has_room(later) && !has_room(earlier)
}

/// Whether the first node comes before the second.
fn less(figures: &Figures, name: &str, other: &Candidate) -> bool {
    let NodeAvailability::Known(held) = &other.standing else {
        return true;
    };
    share(figures)
        .total_cmp(&share(held))
        .then(busy(figures).total_cmp(&busy(held)))
        .then(name.cmp(&other.name))
        .is_lt()
}

/// The share of the node's processors that our own runs take.
fn share(figures: &Figures) -> f64 {
    figures.cores / figures.cpus.max(0.01)
}

/// Share of the processors that all users together keep busy.
fn busy(figures: &Figures) -> f64 {
    figures.load / figures.cpus.max(0.01)
}

/// Whether a node can take the run now.
fn fits(takes: &RunDemands, node: &str, figures: &Figures, judge: Judge<'_>) -> Result<(), Misfit> {
    has_data(takes, node)?;
    ever_fits(takes, figures)?;
    if takes.disk_bytes > figures.disk_free_bytes {
        return Err(Misfit::Disk {
            free_bytes: figures.disk_free_bytes,
            asks_bytes: takes.disk_bytes,
        });
    }
    if takes.requires.is_empty() {
        return Ok(());
    }
    judge(takes, figures)
}

/// Whether the configuration has a path for the run's data on a node.
pub fn has_data(takes: &RunDemands, node: &str) -> Result<(), Misfit> {
    match takes.data.iter().find(|data| data.path_on(node).is_none()) {
        Some(data) => Err(Misfit::NoData(data.name.clone())),
        None => Ok(()),
    }
}

/// Whether a node can ever take the run, by what it takes there ([`RunDemands::on`]).
pub fn ever_fits(takes: &RunDemands, figures: &Figures) -> Result<(), Misfit> {
    match &figures.cluster {
        Some(cluster) => {
            let fits = cluster.ever_fits(takes, &figures.facts.name);
            fits.map_err(Misfit::Cluster)?;
        }
        None => has_room(takes, figures)?,
    }
    match takes.requires.as_str() {
        "" => Ok(()),
        _ => judge::ever(takes, figures),
    }
}

/// Whether a node that starts runs itself has what the run takes.
fn has_room(takes: &RunDemands, figures: &Figures) -> Result<(), Misfit> {
    if takes.cores() > figures.cpus {
        return Err(Misfit::Cpus {
            has: figures.cpus,
            asks: takes.cores(),
        });
    }
    if takes.memory_bytes > figures.memory_bytes {
        return Err(Misfit::Memory {
            has_bytes: figures.memory_bytes,
            asks_bytes: takes.memory_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(name: &str, cpus: f64, cores: f64) -> Candidate {
        Candidate {
            name: name.to_owned(),
            standing: NodeAvailability::Known(Box::new(Figures {
                cpus,
                cores,
                memory_bytes: 16 << 30,
                disk_free_bytes: 1 << 40,
                ..Figures::default()
            })),
        }
    }

    /// What no node has for the run, as text.
    fn said(choice: &Choice) -> String {
        match choice {
            Choice::Nowhere(why) => why.to_string(),
            Choice::Never(why) => format!("never: {why}"),
            Choice::On(_) | Choice::Wait | Choice::Later { .. } => format!("{choice:?}"),
        }
    }

    fn unmet() -> Misfit {
        Misfit::Unmet(Vec::new())
    }

    fn any(_: &RunDemands, _: &Figures) -> Result<(), Misfit> {
        Ok(())
    }

    fn takes(cpus: f64, memory: u64) -> RunDemands {
        RunDemands {
            cpus,
            memory_bytes: memory,
            ..RunDemands::default()
        }
    }

    #[test]
    fn a_batch_is_spread_over_nodes_by_their_size() {
        let mut nodes = [known("small", 2.0, 0.0), known("big", 6.0, 0.0)];
        let mut got = [0, 0];
        for _ in 0..8 {
            match choose(&takes(1.0, 0), &mut nodes, &any) {
                Choice::On(name) => got[usize::from(name == "big")] += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got, [2, 6]);
    }

    #[test]
    fn in_the_order_of_the_list_a_node_gets_what_it_can_start_and_then_the_next_one() {
        let mut nodes = [known("small", 2.0, 1.0), known("big", 6.0, 5.0)];
        let run = RunDemands {
            in_order: true,
            ..takes(1.0, 0)
        };
        let mut goes_to = || match choose(&run, &mut nodes, &any) {
            Choice::On(name) => name,
            other => panic!("{other:?}"),
        };
        let went = [goes_to(), goes_to(), goes_to()];
        assert_eq!(went, ["small", "big", "small"]);
    }

    #[test]
    fn load_then_name_decide_between_equals() {
        let mut nodes = [known("b", 4.0, 0.0), known("a", 4.0, 0.0)];
        let first = choose(&takes(1.0, 0), &mut nodes.clone(), &any);
        assert_eq!(first, Choice::On("a".to_owned()));
        if let NodeAvailability::Known(figures) = &mut nodes[1].standing {
            figures.load = 3.0;
        }
        let second = choose(&takes(1.0, 0), &mut nodes, &any);
        assert_eq!(second, Choice::On("b".to_owned()));
    }

    #[test]
    fn every_node_says_why_it_does_not_take_it() {
        let mut nodes = [
            known("alpha", 4.0, 0.0),
            Candidate {
                name: "beta".to_owned(),
                standing: NodeAvailability::Away("no contact since 14:02".to_owned()),
            },
            known("gamma", 1.0, 0.0),
        ];
        let choice = choose(&takes(2.0, 64 << 30), &mut nodes, &any);
        assert_eq!(
            said(&choice),
            "alpha: memory 16G < 64G; beta: no contact since 14:02; gamma: cpus 1 < 2"
        );
    }

    #[test]
    fn an_answer_on_its_way_is_waited_for() {
        let mut nodes = [
            known("alpha", 4.0, 0.0),
            Candidate {
                name: "beta".to_owned(),
                standing: NodeAvailability::Asked,
            },
        ];
        assert_eq!(choose(&takes(1.0, 0), &mut nodes, &any), Choice::Wait);
    }

    #[test]
    fn a_late_answer_is_waited_for_only_where_no_other_node_fits() {
        let late = |other| {
            let late = standing("beta", NodeAvailability::Late);
            let mut nodes = [known("alpha", other, 0.0), late];
            choose(&takes(2.0, 0), &mut nodes, &any)
        };
        assert_eq!(late(4.0), Choice::On("alpha".to_owned()));
        assert_eq!(late(1.0), Choice::Wait);
    }

    fn standing(name: &str, standing: NodeAvailability) -> Candidate {
        Candidate {
            name: name.to_owned(),
            standing,
        }
    }

    #[test]
    fn a_node_that_refused_is_passed_over_and_only_all_refusals_end_a_run() {
        let refused = |name| standing(name, NodeAvailability::Refused("no data".to_owned()));
        let away = |name| standing(name, NodeAvailability::Away("no contact".to_owned()));
        let run = takes(2.0, 0);
        let mut nodes = [refused("a"), known("b", 4.0, 3.0)];
        assert_eq!(choose(&run, &mut nodes, &any), Choice::On("b".to_owned()));
        let mut nodes = [refused("a"), away("b")];
        assert_eq!(
            said(&choose(&run, &mut nodes, &any)),
            "a: refused: no data; b: no contact"
        );
        // A node that is too small for ever is no candidate.
        let mut nodes = [refused("a"), known("b", 1.0, 0.0)];
        assert_eq!(
            said(&choose(&run, &mut nodes, &any)),
            "never: a: refused: no data; b: cpus 1 < 2"
        );
        // A busy node is a candidate, and no run ends before each has refused
        // it.
        let busy = |_: &RunDemands, _: &Figures| Err(unmet());
        let asks = RunDemands {
            requires: "load < 4".to_owned(),
            ..run.clone()
        };
        let mut nodes = [refused("a"), known("b", 4.0, 0.0)];
        assert!(matches!(
            choose(&asks, &mut nodes, &busy),
            Choice::Nowhere(_)
        ));
        let mut nodes = [known("b", 1.0, 0.0)];
        assert!(matches!(choose(&run, &mut nodes, &any), Choice::Nowhere(_)));
    }

    #[test]
    fn a_node_counts_what_the_run_takes_there() {
        fn on<T>(node: &str, value: T) -> nero_format::OnNode<T> {
            let node = Some(node.to_owned());
            nero_format::OnNode { node, value }
        }
        let mut run = takes(4.0, 1 << 40);
        run.limit_s = 100;
        run.on_nodes.cpus.0.push(on("a", 1.0));
        run.on_nodes.memory_bytes.0.push(on("a", 1 << 30));
        run.on_nodes.time_ms.0.push(on("a", 3_600_000));
        assert!(run.on("a").limit_s > 3600 && run.on("b").limit_s == 100);
        let mut nodes = [known("a", 2.0, 0.0), known("b", 64.0, 0.0)];
        for cores in [1.0, 2.0] {
            let choice = choose(&run, &mut nodes, &any);
            assert_eq!(choice, Choice::On("a".to_owned()));
            let NodeAvailability::Known(figures) = &nodes[0].standing else {
                panic!("{nodes:?}");
            };
            assert_eq!(figures.cores, cores);
        }
        let mut other = [known("b", 64.0, 0.0)];
        let choice = choose(&run, &mut other, &any);
        assert!(said(&choice).contains("memory"), "{choice:?}");
    }

    #[test]
    fn the_node_that_is_preferred_is_not_once_it_refused() {
        let run = RunDemands {
            prefer: "a".to_owned(),
            ..takes(1.0, 0)
        };
        let mut nodes = [
            standing("a", NodeAvailability::Refused("no data".to_owned())),
            known("b", 1.0, 0.0),
        ];
        assert_eq!(choose(&run, &mut nodes, &any), Choice::On("b".to_owned()));
    }

    #[test]
    fn an_expression_has_the_last_word() {
        let asked = RunDemands {
            requires: "load < 4".to_owned(),
            ..RunDemands::default()
        };
        let judge = |_: &RunDemands, figures: &Figures| {
            if figures.cpus > 4.0 {
                Ok(())
            } else {
                Err(unmet())
            }
        };
        let mut nodes = [known("a", 4.0, 0.0), known("b", 8.0, 7.0)];
        let choice = choose(&asked, &mut nodes, &judge);
        assert_eq!(choice, Choice::On("b".to_owned()));
    }

    proptest! {
        /// Whatever the nodes are, a run never goes where it does not fit, and
        /// always finds a node if one fits.
        #[test]
        fn a_run_goes_where_it_fits(
            sizes in proptest::collection::vec((1u32..64, 0u32..64), 1..8),
            cpus in 1u32..64,
        ) {
            let mut nodes: Vec<Candidate> = sizes
                .iter()
                .enumerate()
                .map(|(at, (cpus, cores))| {
                    known(&format!("n{at}"), f64::from(*cpus), f64::from(*cores))
                })
                .collect();
            let fitting = sizes.iter().any(|(has, _)| *has >= cpus);
            match choose(&takes(f64::from(cpus), 0), &mut nodes, &any) {
                Choice::On(name) => {
                    let at: usize = name[1..].parse().unwrap();
                    prop_assert!(sizes[at].0 >= cpus);
                }
                Choice::Nowhere(why) => {
                    prop_assert!(!fitting);
                    let NoNode::Each(nodes) = why else {
                        return Err(TestCaseError::fail("nodes are configured"));
                    };
                    prop_assert_eq!(nodes.len(), sizes.len());
                }
                Choice::Wait | Choice::Later { .. } | Choice::Never(_) => {
                    prop_assert!(false, "nobody was asked, nobody refused");
                }
            }
        }
    }
}
