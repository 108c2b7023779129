//! Lines of neroman: those that read, each at an address of its own, and those that change
//! something, of which the words are sent.

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use nero_views::json;
use serde_json::{Value, json};

use crate::call::{LineRequest, LineResult, Refusal, ViewCall};
use crate::query::Query;
use crate::reply::{Reply, body, document, fault, refusal, with_status};
use crate::server::{Caller, Site};

/// A line that reads: its name in addresses, its words, and the options that may stand behind them.
/// All other options are refused: `results -o FILE` writes, and `status --abort` is two lines.
struct ReadingLine {
    name: &'static str,
    words: &'static [&'static str],
    options: &'static [&'static str],
}

const fn reading(
    name: &'static str,
    words: &'static [&'static str],
    options: &'static [&'static str],
) -> ReadingLine {
    ReadingLine {
        name,
        words,
        options,
    }
}

const READING: [ReadingLine; 11] = [
    reading("status", &["status"], &["--sort"]),
    reading("show", &["show"], &[]),
    reading("results", &["results"], &["--by", "--best", "--all-runs"]),
    reading("diff", &["diff"], &[]),
    reading("metrics", &["metrics"], &[]),
    reading("path", &["path"], &[]),
    reading("nodes", &["node", "list"], &[]),
    reading("node", &["node", "status"], &[]),
    reading("doctor", &["node", "doctor"], &[]),
    reading("rules", &["rule", "list"], &[]),
    reading("rule-why", &["rule", "why"], &[]),
];

/// Verbs that a page may do.
const CHANGING: [&str; 14] = [
    "add", "start", "restart", "abort", "pause", "resume", "set", "copy", "note", "tag", "rm",
    "fetch", "rule", "node",
];

/// `GET /api/VERB?w=WORD&w=WORD`: what a line prints with `--json`.
pub(crate) async fn read(
    State(site): State<Site>,
    Path(verb): Path<String>,
    RawQuery(raw): RawQuery,
) -> Reply {
    let read = async {
        let words = Query::read(raw.as_deref(), &[], &["w"])?.all("w");
        if verb == "help" {
            let page = help_page(&site.caller, &words).await?;
            return Ok(body("text/plain; charset=utf-8", page));
        }
        let printed = read_bytes(&site.caller, &verb, words).await?;
        Ok(body("application/json", printed))
    };
    read.await.unwrap_or_else(|refused| refusal(&refused))
}

/// What a line that reads prints with `--json`.
///
/// # Errors
/// A line that is none of these; its own error.
pub(crate) async fn read_bytes(
    caller: &Caller,
    verb: &str,
    words: Vec<String>,
) -> Result<Vec<u8>, Refusal> {
    let line = LineRequest {
        words: reading_line(verb, words)?,
        options: vec!["--json"],
        changes: false,
    };
    let result = executed(caller, line).await?;
    match (result.exit_code, read_document(&result.stdout)) {
        (Some(code), Some(said)) if said.get("error").is_some() => Err(Refusal {
            document: said,
            exit_code: code,
        }),
        // A code beside a document tells what was found, as of runs that failed.
        (Some(0), _) | (_, Some(_)) => Ok(result.stdout),
        (code, None) => Err(without_document(code, &result.stderr)),
    }
}

/// A page of help as text; without a topic the overview.
///
/// # Errors
/// Several topics; one that there is not.
pub(crate) async fn help_page(caller: &Caller, topics: &[String]) -> Result<Vec<u8>, Refusal> {
    if topics.len() > 1 || topics.iter().any(|topic| topic.starts_with('-')) {
        return Err(fault("help is about one verb or topic", ""));
    }
    let begin = std::iter::once("help".to_owned());
    let line = LineRequest {
        words: begin.chain(topics.iter().cloned()).collect(),
        options: Vec::new(),
        changes: false,
    };
    let result = executed(caller, line).await?;
    match result.exit_code {
        Some(0) => Ok(result.stdout),
        code => Err(without_document(code, &result.stderr)),
    }
}

/// The words of a line that reads.
fn reading_line(verb: &str, words: Vec<String>) -> Result<Vec<String>, Refusal> {
    let Some(line) = READING.iter().find(|line| line.name == verb) else {
        let known = READING.map(|line| line.name).join("`, `");
        return Err(fault(
            &format!("`{verb}` is nothing that can be read here"),
            &format!("there are `{known}`"),
        ));
    };
    let is_foreign = |word: &&String| {
        let option = word.split('=').next().unwrap_or_default();
        word.starts_with('-') && !line.options.contains(&option)
    };
    if let Some(option) = words.iter().find(is_foreign) {
        let text = format!("`{}` cannot take `{option}` here", line.words.join(" "));
        return Err(fault(&text, "type it in a terminal"));
    }
    let begin = line.words.iter().map(|word| (*word).to_owned());
    Ok(begin.chain(words).collect())
}

/// `POST /do`: a line that changes something.
pub(crate) async fn change(State(site): State<Site>, bytes: Bytes) -> Reply {
    let (words, is_trial) = match line_of(&bytes) {
        Ok(line) => line,
        Err(refused) => return refusal(&refused),
    };
    if let Err(refused) = permit(&site.caller, &words) {
        return with_status(StatusCode::FORBIDDEN, document(&refused.document));
    }
    match execute_change(&site.caller, &words, is_trial).await {
        Ok(done) => document(&done),
        Err(refused) => refusal(&refused),
    }
}

/// Refuses what is not done from a page or by an agent.
///
/// # Errors
/// A line that is none of these, or any where nothing may be changed.
pub(crate) fn permit(caller: &Caller, words: &[String]) -> Result<(), Refusal> {
    if caller.settings.is_read_only {
        return Err(fault(
            "nothing is changed from here",
            "start it without --read-only",
        ));
    }
    if !is_changing(words) {
        let verb = words.first().map_or("", String::as_str);
        return Err(fault(
            &format!("`{verb}` is not done from here"),
            &format!(
                "type it in a terminal; done from here are {}",
                CHANGING.join(" ")
            ),
        ));
    }
    Ok(())
}

/// Executes a line that is permitted, or tries it out.
///
/// # Errors
/// When it cannot be executed; what it answers itself is in the document.
pub(crate) async fn execute_change(
    caller: &Caller,
    words: &[String],
    is_trial: bool,
) -> Result<Value, Refusal> {
    let confirmed = if is_trial { "--dry-run" } else { "--yes" };
    let line = LineRequest {
        words: words.to_vec(),
        options: vec!["--json", confirmed],
        changes: true,
    };
    let result = executed(caller, line).await?;
    Ok(done(words, &result))
}

/// Whether a line is one of those. `node join` and its other end go on for as long as a node is joined.
fn is_changing(words: &[String]) -> bool {
    let Some((verb, rest)) = words.split_first() else {
        return false;
    };
    let second = rest.iter().find(|word| !word.starts_with('-'));
    let is_joining = second.is_some_and(|word| ["join", "welcome"].contains(&word.as_str()));
    CHANGING.contains(&verb.as_str()) && !(verb == "node" && is_joining)
}

/// The words of a body, and whether they are to be tried out only.
fn line_of(bytes: &[u8]) -> Result<(Vec<String>, bool), Refusal> {
    let wrong = || fault("the body is not {\"words\":[…],\"dry_run\":false}", "");
    let body: Value = serde_json::from_slice(bytes).map_err(|_| wrong())?;
    let fields = body.as_object().ok_or_else(wrong)?;
    if fields
        .keys()
        .any(|name| name != "words" && name != "dry_run")
    {
        return Err(wrong());
    }
    let is_trial = match fields.get("dry_run") {
        None => false,
        Some(value) => value.as_bool().ok_or_else(wrong)?,
    };
    let words = fields
        .get("words")
        .and_then(Value::as_array)
        .ok_or_else(wrong)?;
    let words = words.iter().map(|word| word.as_str().map(str::to_owned));
    let words: Vec<String> = words.collect::<Option<_>>().ok_or_else(wrong)?;
    if words.is_empty() {
        return Err(fault("the line is empty", ""));
    }
    Ok((words, is_trial))
}

async fn executed(caller: &Caller, line: LineRequest) -> Result<LineResult, Refusal> {
    let result = caller.ask(|answer| ViewCall::Line(line, answer)).await?;
    if result.is_cut {
        return Err(fault("the answer is too long", "pick fewer experiments"));
    }
    Ok(result)
}

/// What a line did: its documents, else its text.
fn done(words: &[String], result: &LineResult) -> Value {
    let said = read_documents(&result.stdout);
    let (errors, documents): (Vec<Value>, Vec<Value>) =
        said.into_iter().partition(|one| one.get("error").is_some());
    let mut text = String::from_utf8_lossy(&result.stderr).into_owned();
    if documents.is_empty() && errors.is_empty() {
        text.insert_str(0, &String::from_utf8_lossy(&result.stdout));
    }
    let failure = errors.into_iter().next().or_else(|| {
        let failed = result.exit_code != Some(0) && documents.is_empty();
        failed.then(|| without_document(result.exit_code, &result.stderr).document)
    });
    let ask = failure.as_ref().and_then(line_to_type);
    json::document(json!({
        "line": typed_line(words),
        "exit_code": result.exit_code,
        "documents": documents,
        "error": failure,
        "text": text,
        "ask": ask,
    }))
}

/// The line of a hint that opens the way to a node: passwords are asked in a terminal alone.
fn line_to_type(failure: &Value) -> Option<String> {
    let hint = failure["error"]["hint"].as_str()?;
    let quoted = hint.split('`').skip(1).step_by(2);
    let mut lines = quoted.filter(|line| line.starts_with("neroman node connect"));
    lines.next().map(str::to_owned)
}

/// A line as it is typed into a shell.
fn typed_line(words: &[String]) -> String {
    let all = std::iter::once("neroman").chain(words.iter().map(String::as_str));
    // A word with NUL has no form there.
    shlex::try_join(all).unwrap_or_default()
}

/// The only document.
pub(crate) fn read_document(bytes: &[u8]) -> Option<Value> {
    let mut all = read_documents(bytes);
    (all.len() == 1).then(|| all.remove(0))
}

/// Documents, one a line; nothing where any line is none.
fn read_documents(bytes: &[u8]) -> Vec<Value> {
    let all: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(bytes)
        .into_iter()
        .collect();
    all.unwrap_or_default()
}

/// A failure of a line that printed no document: its text.
fn without_document(code: Option<u8>, stderr: &[u8]) -> Refusal {
    let text = String::from_utf8_lossy(stderr);
    let mut refused = fault(text.trim(), "");
    refused.exit_code = code.unwrap_or(1);
    refused.document["error"]["exit_code"] = json!(code);
    refused
}
