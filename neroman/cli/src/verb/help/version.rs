//! `version`: answered without a daemon.

use nero_model::VERSION;
use nero_model::safe::Safe;
use serde_json::json;

use crate::args::Version;
use crate::facts::BuildFact;
use crate::fault::{Stop, code};
use crate::say::page;
use crate::session::Session;

/// Width of the column of names.
const NAMES_WIDTH: usize = 16;

/// `--version`.
pub fn run(session: &Session, args: &Version) -> Result<u8, Stop> {
    let out = &session.out;
    let facts = args.verbose.then(session.facts);
    let fields = || {
        let mut fields = json!({"version": VERSION});
        if let Some(facts) = &facts {
            let facts = facts.iter().map(|fact| json!([fact.name, fact.value]));
            fields["facts"] = facts.collect();
        }
        fields
    };
    let line = |fact: &BuildFact| {
        let begin = format!("{:<NAMES_WIDTH$}", fact.name);
        let value = Safe::line(&fact.value).to_string();
        page::folded(&begin, &value, out.screen.width)
    };
    let lines = || facts.iter().flatten().map(line).collect::<String>();
    out.reply(&[], fields, || format!("neroman {VERSION}\n{}", lines()))?;
    Ok(code::OK)
}
