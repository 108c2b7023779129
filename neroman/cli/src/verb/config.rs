//! `config show|set`: the values in force and their origins. The daemon is asked only whether a
//! node has runs, before it gets another root or address.

use nero_config::{Config, Edit, EditError, NODE_VARIABLE, Origin};
use nero_model::safe::Safe;
use nero_views::{json, object};
use serde_json::json;

use crate::args::Config as Args;
use crate::fault::{Fault, Stop, code};
use crate::say::VerbOutput;
use crate::session::{Session, home, read_config};
use crate::verb::node;

pub async fn run(session: &mut Session, args: &Args) -> Result<u8, Stop> {
    match args {
        Args::Show { origin, .. } => show(&session.out, *origin),
        Args::Set { key, value, .. } => {
            leads_to_its_runs(session, key, value).await?;
            set(&session.out, key, value)
        }
    }
}

/// Refuses another root for a node that has runs: the new one would not know them. Another
/// address may lead to the same folder.
async fn leads_to_its_runs(session: &mut Session, key: &str, value: &str) -> Result<(), Stop> {
    let Some((name, field)) = key
        .strip_prefix("nodes.")
        .and_then(|key| key.rsplit_once('.'))
    else {
        return Ok(());
    };
    let home = home()?;
    // A file with mistakes is reported where it is changed.
    let config = Config::read(&home.config).unwrap_or_default();
    let Some(node) = config.nodes.get(name).filter(|_| home.state_db().exists()) else {
        return Ok(());
    };
    let value = value.trim();
    let is_root = match field {
        "root" if node.root.as_deref().unwrap_or_default() != value => true,
        "address" if node.address.as_deref().unwrap_or_default() != value => false,
        _ => return Ok(()),
    };
    let Err(runs) = node::may_forget(session, name).await else {
        return Ok(());
    };
    if is_root {
        return Err(Fault::failed("the configuration was not changed")
            .cause(runs.what)
            .hint(format!(
                "another root knows nothing of them: neroman wait 'node=={name} && live', or neroman abort 'node=={name} && live'"
            ))
            .into());
    }
    session.out.note(&format!(
        "note: {}; if the new address leads to another folder, runs that wait are held until the old one is set back",
        runs.what
    ));
    Ok(())
}

fn show(out: &VerbOutput, with_origin: bool) -> Result<u8, Stop> {
    let home = home()?;
    let config = read_config(&home)?;
    let origins = config.origins(&home, |name| std::env::var(name).ok());
    if let Ok(word) = std::env::var(NODE_VARIABLE)
        && !word.is_empty()
        && let Err(error) = config.resolve(&word)
    {
        out.note(&format!("note: {NODE_VARIABLE}: {error}; {}", error.hint));
    }
    let fields = || {
        let value = |one: &Origin| object!(one => key, value, from: one.from.to_string());
        let values: Vec<_> = origins.iter().map(value).collect();
        json!({"file": home.config.display().to_string(), "values": values})
    };
    out.reply(&[], fields, || as_text(&origins, with_origin))?;
    Ok(code::OK)
}

fn as_text(origins: &[Origin], with_origin: bool) -> String {
    let said = |origin: &Origin| {
        let value = origin.value.as_deref();
        Safe::line(value.unwrap_or(origin.otherwise)).to_string()
    };
    let widest = |length: fn(&(String, String)) -> usize, rows: &[(String, String)]| {
        rows.iter().map(length).max().unwrap_or(0)
    };
    let rows: Vec<(String, String)> = origins
        .iter()
        .map(|origin| (Safe::line(&origin.key).to_string(), said(origin)))
        .collect();
    let keys = widest(|(key, _)| key.chars().count(), &rows);
    let values = widest(|(_, value)| value.chars().count().min(VALUE_CHARS), &rows);
    let mut text = String::new();
    for ((key, value), origin) in rows.iter().zip(origins) {
        let line = if with_origin {
            format!("{key:<keys$}  {value:<values$}  {}", origin.from)
        } else {
            format!("{key:<keys$}  {value}")
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Longer values do not push the last column away.
const VALUE_CHARS: usize = 50;

fn set(out: &VerbOutput, key: &str, value: &str) -> Result<u8, Stop> {
    let path = home()?.config;
    let value = if value.trim() == "null" { "" } else { value };
    let edit = Edit::Set {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    edit.apply(&path).map_err(|error| refused(&error))?;
    let path = path.display().to_string();
    let fields = || json!({"file": path, "key": key, "value": json::some(value.trim())});
    let text = || {
        let (key, file) = (Safe::line(key), Safe::line(&path));
        match value.trim() {
            "" => format!("{key} is not set any more in {file}\n"),
            _ => format!("{key} is {} in {file}\n", Safe::line(value)),
        }
    };
    out.reply(&[], fields, text)?;
    Ok(code::OK)
}

fn refused(error: &EditError) -> Fault {
    let exit_code = match error {
        EditError::Write(_) => code::FAILED,
        EditError::Config(_)
        | EditError::Name { .. }
        | EditError::Exists { .. }
        | EditError::Unknown { .. }
        | EditError::Used { .. }
        | EditError::Value { .. }
        | EditError::Unsafe { .. } => code::USAGE,
    };
    Fault::new(exit_code, "the configuration was not changed")
        .because(error)
        .maybe_hint(error.hint())
}
