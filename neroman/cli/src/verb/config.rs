//! `config show|set`: the values in force and their origins. The daemon is asked only whether a
//! node has runs, before it gets another root or address.

use nero_config::{Config, Edit, EditError, NODE_VARIABLE, Origin};
use nero_model::safe::Safe;
use nero_views::{json, object};
use serde_json::{Value, json};

use crate::args::Config as Args;
use crate::fault::{Fault, Stop, code};
use crate::say::Out;
use crate::session::{Session, home};
use crate::verb::node;

/// Runs the verb.
pub async fn run(session: &mut Session, args: &Args) -> Result<u8, Stop> {
    match args {
        Args::Show { origin, json } => show(&session.out, *origin, json.json),
        Args::Set { key, value, json } => {
            leads_to_its_runs(session, key, value).await?;
            set(&session.out, key, value, json.json)
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
        return Err(Fault::new(code::FAILED, "the configuration was not changed")
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

fn show(out: &Out, with_origin: bool, as_json: bool) -> Result<u8, Stop> {
    let home = home()?;
    let config = Config::read(&home.config).map_err(|error| {
        let fault = Fault::usage("the configuration cannot be used").because(&error);
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    })?;
    let origins = config.origins(&home, |name| std::env::var(name).ok());
    if let Ok(word) = std::env::var(NODE_VARIABLE)
        && !word.is_empty()
        && let Err(error) = config.resolve(&word)
    {
        out.note(&format!("note: {NODE_VARIABLE}: {error}; {}", error.hint));
    }
    if as_json {
        let file = home.config.display().to_string();
        out.json(&json::document(
            json!({"file": file, "values": values(&origins)}),
        ))?;
    } else {
        out.text(&as_text(&origins, with_origin))?;
    }
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

fn values(origins: &[Origin]) -> Vec<Value> {
    let one = |origin: &Origin| object!(origin => key, value, from: origin.from.to_string());
    origins.iter().map(one).collect()
}

fn set(out: &Out, key: &str, value: &str, as_json: bool) -> Result<u8, Stop> {
    let path = home()?.config;
    let value = if value.trim() == "null" { "" } else { value };
    let edit = Edit::Set {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    edit.apply(&path).map_err(|error| refused(&error))?;
    if as_json {
        let file = path.display().to_string();
        out.json(&json::document(
            json!({"file": file, "key": key, "value": json::some(value.trim())}),
        ))?;
    } else {
        let shown = path.display().to_string();
        let (key, file) = (Safe::line(key), Safe::line(&shown));
        out.line(&match value.trim() {
            "" => format!("{key} is not set any more in {file}"),
            _ => format!("{key} is {} in {file}", Safe::line(value)),
        })?;
    }
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
    let fault = Fault::new(exit_code, "the configuration was not changed").because(error);
    match error.hint() {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}
