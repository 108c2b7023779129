//! `version`: answered without a daemon.

use nero_model::VERSION;
use nero_model::safe::Safe;
use nero_views::json;
use serde_json::json;

use crate::args::Version;
use crate::fault::{Stop, code};
use crate::say::page;
use crate::session::Session;

/// Width of the column of names.
const NAMES_WIDTH: usize = 16;

/// `--version`.
pub fn run(session: &Session, args: &Version) -> Result<u8, Stop> {
    let out = &session.out;
    let facts = if args.verbose {
        (session.facts)()
    } else {
        Vec::new()
    };
    if args.json.json {
        let mut document = json!({"version": VERSION});
        if args.verbose {
            let facts = facts.iter().map(|fact| json!([fact.name, fact.value]));
            document["facts"] = facts.collect();
        }
        out.json(&json::document(document))?;
        return Ok(code::OK);
    }
    out.line(&format!("neroman {VERSION}"))?;
    for fact in facts {
        let begin = format!("{:<NAMES_WIDTH$}", fact.name);
        let value = Safe::line(&fact.value).to_string();
        out.text(&page::folded(&begin, &value, out.screen.width))?;
    }
    Ok(code::OK)
}
