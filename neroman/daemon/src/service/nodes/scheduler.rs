//! The scheduler that an examination finds on a node, and the one that is configured.

use nero_config::Warden;
use nero_wire::v1;
use nero_wire::v1::finding::Level;

use nero_home::failure::Failure;

/// The word of the configuration for a scheduler that can be a node's.
pub(crate) fn config_word(found: v1::Warden) -> Option<Warden> {
    match found {
        v1::Warden::Slurm => Some(Warden::Slurm),
        v1::Warden::Oge => Some(Warden::Oge),
        v1::Warden::Unspecified | v1::Warden::Generic => None,
    }
}

/// Whether a finding is still one beside what the configuration has of the node: `warden: none` and
/// `shared: false` answer those about schedulers and about a root that other machines see.
pub(crate) fn is_open(finding: &v1::Finding, node: &nero_config::Node) -> bool {
    let is_bare = node.fields.contains_key("warden") && node.warden == Warden::None;
    match finding.what.as_str() {
        "scheduler" => !is_bare,
        // A good one is about other machines, the warning about hosts of a scheduler.
        "shared root" if finding.level() == Level::Good => node.shared != Some(false),
        "shared root" => !is_bare,
        _ => true,
    }
}

/// Makes a finding about a scheduler a warning where runs go past it.
pub(crate) fn compare(finding: &mut v1::Finding, configured: Warden) {
    let Some(found) = config_word(finding.warden()) else {
        return;
    };
    if found == configured {
        finding.hint = String::new();
        return;
    }
    finding.set_level(Level::Warning);
    match configured {
        Warden::None => finding.text.push_str(
            "; without `warden:` in the configuration runs go to this machine itself, past the \
             scheduler",
        ),
        other => finding.text.push_str(&format!(
            "; runs go to the other scheduler: `warden: {}`",
            other.as_str()
        )),
    }
}

/// A scheduler that was found on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundScheduler {
    pub warden: v1::Warden,
    /// Whether it answered what it was asked.
    pub answered: bool,
}

/// The `warden:` of a node that is added without one, as word and as line for people;
/// `None`: it has none. Of several schedulers those that answered count: a silent scheduler
/// may be the remains of an installation.
///
/// # Errors
/// When the node has several schedulers.
pub(crate) fn chosen(
    request: &v1::NodeAddRequest,
    found: &[FoundScheduler],
) -> Result<Option<(&'static str, String)>, Failure> {
    if !request.warden.is_empty() {
        return Ok(None);
    }
    let name = &request.name;
    let does_one_answer = found.iter().any(|one| one.answered);
    let count = found.iter().filter(|one| one.answered == does_one_answer);
    let mut words: Vec<&str> = count
        .filter_map(|one| Some(config_word(one.warden)?.as_str()))
        .collect();
    words.dedup();
    match words.as_slice() {
        [] => Ok(None),
        [word] => {
            let line = format!(
                "runs of {name} go to its scheduler: `warden: {word}` (`--warden none` starts \
                 them on {name} itself)"
            );
            Ok(Some((word, line)))
        }
        several => Err(
            Failure::usage(format!("{name} has several schedulers")).hint(format!(
                "--warden names the one for its runs: {}, or none",
                several.join(", ")
            )),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(warden: &str) -> v1::NodeAddRequest {
        v1::NodeAddRequest {
            name: "triton".to_owned(),
            warden: warden.to_owned(),
            ..v1::NodeAddRequest::default()
        }
    }

    fn finding(warden: v1::Warden) -> v1::Finding {
        v1::Finding {
            level: Level::Good.into(),
            text: "SLURM is here".to_owned(),
            hint: "small things only".to_owned(),
            warden: warden.into(),
            ..v1::Finding::default()
        }
    }

    #[test]
    fn the_one_scheduler_that_is_found_becomes_the_nodes_and_of_two_one_is_asked_for() {
        let found = |warden, answered| FoundScheduler { warden, answered };
        let slurm = found(v1::Warden::Slurm, true);
        let (word, line) = chosen(&asked(""), &[slurm]).unwrap().unwrap();
        assert_eq!(word, "slurm");
        assert!(line.contains("`--warden none`"), "{line}");
        assert_eq!(chosen(&asked(""), &[]).unwrap(), None);
        assert_eq!(chosen(&asked("none"), &[slurm]).unwrap(), None);
        let silent = found(v1::Warden::Oge, false);
        let (word, _) = chosen(&asked(""), &[silent, slurm]).unwrap().unwrap();
        assert_eq!(word, "slurm", "it answered");
        let (word, _) = chosen(&asked(""), &[silent]).unwrap().unwrap();
        assert_eq!(word, "oge", "no run starts on a login node");
        let oge = found(v1::Warden::Oge, true);
        let refused = chosen(&asked(""), &[slurm, oge]).unwrap_err();
        assert!(refused.hint_text().contains("slurm, oge"), "{refused}");
    }

    #[test]
    fn a_finding_that_the_configuration_settles_is_left_out() {
        let read = |fields: &str| {
            let text = format!("nodes: {{box: {{address: box{fields}}}}}\n");
            let path = std::path::Path::new("/c/config.yaml");
            let config = nero_config::Config::parse(path, &text).unwrap();
            config.node("box").unwrap().clone()
        };
        let here = finding(v1::Warden::Slurm);
        let root = |level: Level| v1::Finding {
            level: level.into(),
            what: "shared root".to_owned(),
            ..v1::Finding::default()
        };
        let here = v1::Finding {
            what: "scheduler".to_owned(),
            ..here
        };
        let all = [here, root(Level::Warning), root(Level::Good)];
        for (fields, open) in [
            ("", [true, true, true]),
            (", warden: none", [false, false, true]),
            (", shared: false", [true, true, false]),
            (", warden: slurm", [true, true, true]),
        ] {
            let node = read(fields);
            assert_eq!(
                all.clone().map(|one| is_open(&one, &node)),
                open,
                "{fields}"
            );
        }
    }

    #[test]
    fn a_scheduler_past_which_runs_go_is_a_warning() {
        let mut here = finding(v1::Warden::Slurm);
        compare(&mut here, Warden::Slurm);
        assert_eq!((here.level(), &*here.hint), (Level::Good, ""));
        let mut past = finding(v1::Warden::Slurm);
        compare(&mut past, Warden::None);
        assert_eq!(past.level(), Level::Warning);
        assert!(past.text.contains("past the scheduler"), "{}", past.text);
        let mut other = finding(v1::Warden::Slurm);
        compare(&mut other, Warden::Oge);
        assert!(other.text.contains("`warden: oge`"), "{}", other.text);
        let mut disk = finding(v1::Warden::Unspecified);
        compare(&mut disk, Warden::None);
        assert_eq!(disk, finding(v1::Warden::Unspecified));
    }
}
