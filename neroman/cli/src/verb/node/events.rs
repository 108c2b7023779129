//! Following a verb that works on a node: its steps, findings and transfers.

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::finding::Level;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::node_event::Event;
use nero_wire::v1::{Finding, NodeEvent, NodeView};
use serde_json::Value;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;
use crate::say::progress::Meter;
use crate::session::Session;

/// How much is printed, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Every finding, one line each.
    Everything,
    /// Only the findings that a person should read.
    Troubles,
    /// Only the text of the finding of this name.
    Only(&'static str),
    /// One document.
    Json,
}

/// The events so far, for `--json`.
#[derive(Default)]
struct NodeEvents {
    lines: Vec<String>,
    findings: Vec<Finding>,
    node: Option<NodeView>,
}

/// Makes the call and prints its events. After a lost connection the call is
/// made once more with the same request.
pub async fn follow<Q: Clone>(
    session: &mut Session,
    how: OutputMode,
    asked: Q,
    send: impl AsyncFn(
        &mut ManClient<Channel>,
        Request<Q>,
    ) -> Result<Response<Streaming<NodeEvent>>, Status>,
) -> Result<u8, Stop> {
    let out = session.out;
    let how = if out.as_json { OutputMode::Json } else { how };
    let (mut meter, mut heard) = (Meter::new(), NodeEvents::default());
    let take = async |event: Option<NodeEvent>| {
        match event {
            Some(NodeEvent { event: Some(event) }) => {
                take(&out, how, &mut meter, &mut heard, event)?;
            }
            Some(NodeEvent { event: None }) => {}
            None => (meter, heard) = (Meter::new(), NodeEvents::default()),
        }
        Ok::<_, Stop>(true)
    };
    session.each(CHANGE_DEADLINE, asked, send, take).await?;
    if how == OutputMode::Json {
        out.json(&document(&heard))?;
    }
    let bad = heard.findings.iter().any(|one| one.level() == Level::Bad);
    Ok(code::ok_if(!bad))
}

fn take(
    out: &VerbOutput,
    how: OutputMode,
    meter: &mut Meter,
    heard: &mut NodeEvents,
    event: Event,
) -> Result<(), Stop> {
    match event {
        Event::Progress(progress) => {
            meter.show(&progress);
            return Ok(());
        }
        Event::Failed(failure) => {
            meter.clear();
            return Err(Fault::from_failure(failure).into());
        }
        Event::Finding(finding) if let OutputMode::Only(what) = how => {
            meter.clear();
            if finding.what == what {
                out.line(&Safe::line(&finding.text).to_string())?;
            }
        }
        Event::Line(_) | Event::Node(_) if matches!(how, OutputMode::Only(_)) => {}
        Event::Line(line) => {
            meter.clear();
            if how != OutputMode::Json {
                out.line(&format!("  {}", Safe::line(&line)))?;
            }
            heard.lines.push(line);
        }
        Event::Finding(finding) => {
            meter.clear();
            let telling = how == OutputMode::Everything || finding.level() != Level::Good;
            if how != OutputMode::Json && telling {
                out.text(&finding_text(&finding))?;
            }
            heard.findings.push(finding);
        }
        Event::Node(node) => {
            meter.clear();
            if how != OutputMode::Json {
                let is_bad = |one: &Finding| one.level() == Level::Bad;
                out.line(&ready(&node, heard.findings.iter().any(is_bad)))?;
            }
            heard.node = Some(node);
        }
    }
    Ok(())
}

/// `  good     clock: 3 ms ahead of ours`, and a hint below.
pub fn finding_text(finding: &Finding) -> String {
    let level = level_name(finding.level());
    let what = Safe::line(&finding.what);
    let mut said = format!("  {level:<8} {what}: {}\n", Safe::line(&finding.text));
    if !finding.hint.is_empty() {
        said.push_str(&format!("           hint: {}\n", Safe::line(&finding.hint)));
    }
    said
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Warning => "warning",
        Level::Bad => "bad",
        Level::Unspecified => "",
    }
}

/// What neromum reports where a scheduler tells no number: more than any host has.
const UNTOLD_CPUS: f64 = 100_000.0;

/// The last line: what the node has. With a bad finding it is not called ready.
fn ready(node: &NodeView, has_bad: bool) -> String {
    let name = Safe::line(&node.name);
    if !node.connected {
        let why = match node.why_not.as_str() {
            "" => "not connected",
            why => why,
        };
        return format!("{name}: {}", Safe::line(why));
    }
    let mut has = if node.cpus < UNTOLD_CPUS {
        vec![
            format!("{} CPUs", text::number(node.cpus)),
            format!("{} memory", text::bytes(node.memory_bytes)),
        ]
    } else {
        vec!["its scheduler tells no limit of CPUs".to_owned()]
    };
    has.push(format!("{} disk free", text::bytes(node.disk_free_bytes)));
    for gpu in &node.gpus {
        has.push(Safe::line(&gpu.name).to_string());
    }
    let state = if has_bad { "answers" } else { "is ready" };
    format!("{name} {state}: {}", has.join(", "))
}

/// A finding for `--json`.
pub fn finding_as_json(one: &Finding) -> Value {
    object!(one => level: level_name(one.level()), what, text, hint?)
}

fn document(heard: &NodeEvents) -> Value {
    json::document(object!(heard =>
        lines,
        findings: heard.findings.iter().map(finding_as_json).collect::<Vec<_>>(),
        node: heard.node.as_ref().map(json::node),
    ))
}
