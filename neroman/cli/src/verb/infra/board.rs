//! What becomes of each host: a line for each that changes on a terminal, and one when it is done
//! elsewhere.

use nero_model::safe::Safe;
use nero_views::{json, text};
use nero_wire::v1::finding::Level;
use nero_wire::v1::node_event::Event;
use nero_wire::v1::{Finding, NodeEvent, NodeView};
use serde_json::{Value, json};

use super::Member;
use crate::fault::{Fault, Stop};
use crate::say::VerbOutput;
use crate::verb::node::{finding_as_json, finding_text};
use crate::verb::watch::redrawn;

/// One host on its way.
pub struct HostProgress {
    member: Member,
    state: String,
    findings: Vec<Finding>,
    node: Option<NodeView>,
    /// Why it failed.
    pub failed: Option<Fault>,
}

/// All hosts.
pub struct Board {
    pub out: VerbOutput,
    done: &'static str,
    pub hosts: Vec<HostProgress>,
    drawn: String,
}

impl Board {
    /// A board of these hosts. `done` is the word behind a host whose call succeeded.
    pub fn new(out: VerbOutput, done: &'static str, members: &[Member]) -> Self {
        let host = |member: &Member| HostProgress {
            member: member.clone(),
            state: "connecting".to_owned(),
            findings: Vec::new(),
            node: None,
            failed: None,
        };
        Self {
            out,
            done,
            hosts: members.iter().map(host).collect(),
            drawn: String::new(),
        }
    }

    /// Takes an event of one host.
    pub fn take(&mut self, index: usize, event: NodeEvent) -> Result<(), Stop> {
        let host = &mut self.hosts[index];
        match event.event {
            Some(Event::Progress(progress)) => {
                let share = match progress.total_bytes {
                    0 => String::new(),
                    total => {
                        let done = text::bytes(progress.done_bytes);
                        format!(": {done} of {}", text::bytes(total))
                    }
                };
                host.state = format!("{}{share}", progress.what);
            }
            Some(Event::Line(line)) => host.state = line,
            Some(Event::Finding(finding)) => {
                host.state = format!("{}: {}", finding.what, finding.text);
                host.findings.push(finding);
            }
            Some(Event::Node(node)) => host.node = Some(node),
            Some(Event::Failed(failure)) => host.failed = Some(Fault::from_failure(failure)),
            None => {}
        }
        self.draw()
    }

    /// Takes the end of one host.
    pub fn end(&mut self, index: usize, failed: Option<Fault>) -> Result<(), Stop> {
        let done = self.done;
        let host = &mut self.hosts[index];
        host.failed = failed.or_else(|| host.failed.take());
        host.state = match (&host.failed, &host.node) {
            (Some(fault), _) => format!("failed: {}", fault.what),
            (None, Some(node)) => format!("{done}: {}", has(node, &host.findings)),
            (None, None) => done.to_owned(),
        };
        if self.out.screen.tty || self.out.as_json {
            return self.draw();
        }
        let width = self.width();
        self.out.line(&self.hosts[index].line(width))
    }

    /// Draws all lines anew on a terminal.
    fn draw(&mut self) -> Result<(), Stop> {
        if !self.out.screen.tty || self.out.as_json {
            return Ok(());
        }
        let width = self.width();
        let lines = self.hosts.iter().map(|host| host.line(width) + "\n");
        let drawn: String = lines.collect();
        if drawn == self.drawn {
            return Ok(());
        }
        let text = redrawn(self.drawn.lines().count(), &drawn);
        self.drawn = drawn;
        self.out.text(&text)
    }

    fn width(&self) -> usize {
        let labels = self.hosts.iter().map(HostProgress::label);
        labels.map(|label| label.chars().count()).max().unwrap_or(0)
    }

    /// Why hosts failed, what to read about the others, and the counts.
    pub fn summary(&self, name: &str) -> String {
        let hosts = self.hosts.iter();
        let told = text::grouped(hosts.map(|host| (host.remarks(), host.member.node.as_str())));
        let mut text = String::new();
        for (remarks, nodes) in told.iter().filter(|(remarks, _)| !remarks.is_empty()) {
            let nodes = nodes.join(", ");
            text.push_str(&format!("{}:\n{remarks}", Safe::line(&nodes)));
        }
        let done = self.hosts.iter().filter(|host| host.failed.is_none());
        let (name, done, word) = (Safe::line(name), done.count(), self.done);
        let hosts = text::plural(self.hosts.len(), "host");
        text + &format!("{name}: {done} of {hosts} {word}\n")
    }

    /// What became of the hosts.
    pub fn as_json(&self) -> Vec<Value> {
        let host = |host: &HostProgress| {
            json!({
                "name": host.member.node,
                "address": json::some(&host.member.address),
                "done": host.failed.is_none(),
                "findings": host.findings.iter().map(finding_as_json).collect::<Vec<_>>(),
                "node": host.node.as_ref().map(json::node),
                "error": host.failed.as_ref().map(|fault| fault.json()["error"].clone()),
            })
        };
        self.hosts.iter().map(host).collect()
    }
}

impl HostProgress {
    fn label(&self) -> String {
        let Member { node, address, .. } = &self.member;
        format!("{node}  {address}").trim_end().to_owned()
    }

    fn line(&self, width: usize) -> String {
        let line = format!("{:width$}  {}", self.label(), self.state);
        Safe::line(&line).to_string()
    }

    /// What the line of the host leaves out.
    fn remarks(&self) -> String {
        let troubles = self.findings.iter();
        let troubles = troubles.filter(|one| one.level() != Level::Good);
        let mut said: String = troubles.map(finding_text).collect();
        if let Some(fault) = &self.failed {
            for cause in &fault.causes {
                said.push_str(&format!("  caused by: {}\n", Safe::line(cause)));
            }
            if !fault.hint.is_empty() {
                said.push_str(&format!("  hint: {}\n", Safe::line(&fault.hint)));
            }
        }
        said
    }
}

/// `16 CPUs, 62G memory, 2 × A100, python:3.12 (podman)`.
fn has(node: &NodeView, findings: &[Finding]) -> String {
    let mut has = vec![
        format!("{} CPUs", text::number(node.cpus)),
        format!("{} memory", text::bytes(node.memory_bytes)),
    ];
    let mut cards = text::count(node.gpus.iter().map(|gpu| gpu.name.as_str()));
    cards.sort();
    has.extend(cards.into_iter().map(|(count, name)| match count {
        1 => name,
        count => format!("{count} × {name}"),
    }));
    let image = findings.iter().rfind(|one| one.what == "image");
    has.extend(image.map(|image| image.text.clone()));
    has.join(", ")
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::Gpu;

    use super::*;

    #[test]
    fn a_ready_host_is_told_in_one_line() {
        let gpu = || Gpu {
            name: "A100".to_owned(),
            ..Gpu::default()
        };
        let node = NodeView {
            cpus: 16.0,
            memory_bytes: 62 << 30,
            gpus: vec![gpu(), gpu()],
            ..NodeView::default()
        };
        let image = Finding {
            what: "image".to_owned(),
            text: "python:3.12 (podman)".to_owned(),
            ..Finding::default()
        };
        assert_eq!(
            has(&node, &[image]),
            "16 CPUs, 62G memory, 2 × A100, python:3.12 (podman)"
        );
    }
}
