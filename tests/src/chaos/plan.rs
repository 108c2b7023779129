//! Experiments of the chaos: their files, and the result that each must have.

use std::fs;
use std::path::Path;

use super::random::Random;
use super::script::{End, Script, TOO_HIGH};

/// An experiment as the chaos made it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Name of the experiment, unique, so that it is a selector.
    pub name: String,
    /// Script of its job.
    pub script: Script,
    /// Its end when no client interferes.
    pub fate: Fate,
    /// Whether a client asked for its end, or for another run of it.
    pub touched: bool,
    /// Runs that a reply named.
    pub told: Vec<String>,
    /// Number of commands without a reply that may have made runs.
    pub unsure: usize,
}

/// End of an experiment when no client interferes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// By itself, as in its script.
    Alone,
    /// By its rule.
    Rule,
    /// By its time limit.
    Limit,
    /// Only a person ends it.
    Person,
}

/// What all jobs have in common.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Their program.
    pub program: String,
    /// The file of their notes.
    pub notes: String,
    /// The nodes that they may be sent to by name.
    pub nodes: Vec<String>,
    /// Number of cards of `local`.
    pub cards: u64,
    /// Their container; empty: none.
    pub container: String,
}

/// The rule that compares a run with its peers: all experiments of the chaos.
pub const PEERS_RULE: &str = "loss > median(peers.loss)";

/// Writes the folder of a collection; returns its experiments.
///
/// # Errors
/// When the files cannot be written.
pub fn write(
    folder: &Path,
    collection: &str,
    seed: u64,
    count: u64,
    jobs: &Jobs,
) -> std::io::Result<Vec<Planned>> {
    let Jobs {
        program: job,
        notes,
        nodes,
        cards,
        container,
    } = jobs;
    let mut random = Random::new(seed);
    let mut yaml = format!("collection: {collection}\nmonitor: {{grace: 1s}}\n");
    let mut all = Vec::new();
    for number in 0..count {
        let (script, fate) = draw(&mut random);
        yaml.push_str(&format!(
            "+{collection}n{number}:\n  command: [{job}, chaos, {notes}, '{script}']\n"
        ));
        let node = random.pick(nodes);
        if let Some(node) = &node {
            yaml.push_str(&format!("  node: {node}\n"));
        }
        // Neither is drawn, so that a seed keeps its steps.
        yaml.push_str(&format!("  priority: {}\n", number as i64 % 3 - 1));
        if !container.is_empty() {
            yaml.push_str(&format!("  container: {container}\n"));
        }
        let is_local = node.is_none_or(|node| node == "local");
        let gpus = match (is_local && *cards > 0, number % 4) {
            (true, 1) => 1,
            (true, 3) => *cards,
            _ => 0,
        };
        let outputs = if script.file_bytes > 0 {
            "[stdout, out.bin]"
        } else {
            "[stdout]"
        };
        yaml.push_str(&format!("  outputs: {outputs}\n"));
        let mut rules = Vec::new();
        if fate == Fate::Rule {
            rules.push(format!("{{abort: loss > {TOO_HIGH}}}"));
        }
        if number % 4 != 2 {
            rules.push(format!("{{warn: {PEERS_RULE}}}"));
        }
        yaml.push_str(&format!(
            "  cohort: chaos\n  rules: [{}]\n",
            rules.join(", ")
        ));
        let time = (fate == Fate::Limit).then(|| "time: 2s".to_owned());
        let gpus = (gpus > 0).then(|| format!("gpus: {gpus}"));
        let resources: Vec<String> = time.into_iter().chain(gpus).collect();
        if !resources.is_empty() {
            yaml.push_str(&format!("  resources: {{{}}}\n", resources.join(", ")));
        }
        all.push(Planned {
            name: format!("{collection}n{number}"),
            script,
            fate,
            touched: false,
            told: Vec::new(),
            unsure: 0,
        });
    }
    fs::create_dir_all(folder)?;
    let mut data = Vec::new();
    for _ in 0..random.between(0, 20_000) {
        data.extend(random.bits().to_le_bytes());
    }
    fs::write(folder.join("data.bin"), data)?;
    fs::write(folder.join("neronet.yaml"), yaml)?;
    Ok(all)
}

fn draw(random: &mut Random) -> (Script, Fate) {
    let mut script = Script {
        seed: random.bits(),
        lines: random.between(0, 40),
        metric_every: random.between(1, 4),
        pause_ms: 0,
        file_bytes: 0,
        stray: random.percent(2),
        stubborn: random.percent(5),
        end: End::Exit(0),
    };
    if random.percent(30) {
        script.file_bytes = random.between(1, 200_000);
    }
    match random.between(1, 100) {
        1..=40 => {}
        41..=70 => {
            script.lines = random.between(10, 200);
            script.pause_ms = random.between(5, 60);
        }
        71..=80 => {
            script.lines = random.between(2000, 20_000);
            script.metric_every = 50;
        }
        81..=86 => return held(script, random, Fate::Rule),
        87..=91 => return held(script, random, Fate::Limit),
        92..=96 => return held(script, random, Fate::Person),
        _ => script.end = End::Signal(random.weighted(&[(1, 11), (1, 6), (1, 9), (1, 15)])),
    }
    if script.end == End::Exit(0) && random.percent(40) {
        script.end = End::Exit(random.between(1, 255) as u8);
    }
    // Only a job that ends by itself leaves a stray: ending that takes ten
    // seconds.
    if script.end != End::Exit(0) {
        script.stray = false;
    }
    (script, Fate::Alone)
}

fn held(mut script: Script, random: &mut Random, fate: Fate) -> (Script, Fate) {
    script.stray = false;
    script.end = End::Hold;
    script.lines = random.between(0, 20);
    script.pause_ms = random.between(0, 40);
    (script, fate)
}
