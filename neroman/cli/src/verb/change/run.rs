//! `run -p lr=0.1,0.01 -- CMD {lr}`: an experiment for each combination in the present folder,
//! started and followed. They are rows of parameters, kept in a file as those of `add -`; the
//! same ones typed again are further runs of the same experiments.

use std::collections::BTreeMap;

use nero_format::{
    COMBINATIONS_MAX, ParameterValues, ValuesError, parameter_rows, parameter_values, shell_word,
    with_places,
};
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{AddRequest, StartReply, StartRequest};

use super::{add, start};
use crate::args::RunCommand;
use crate::connect::{Change, for_jobs};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, absolute, exactly, request, selection};
use crate::verb::wait;

pub async fn run(session: &mut Session, args: &RunCommand) -> Result<u8, Stop> {
    session.goes_by_ssh();
    let mut params: Vec<ParameterValues> = Vec::new();
    for given in &args.params {
        let (name, values) = parameter_values(given).map_err(|ValuesError { why, hint }| {
            Fault::usage(format!("`-p {given}` {why}")).hint(hint)
        })?;
        if params.iter().any(|(known, _)| *known == name) {
            return Err(Fault::usage(format!("`-p {name}=…` is given twice")).into());
        }
        params.push((name, values));
    }
    let asked = AddRequest {
        request: request(),
        shell: for_jobs(),
        dry_run: args.trial.dry_run,
        command: command(&args.command, !params.is_empty()),
        rows: parameter_rows(&params).ok_or_else(|| {
            let what = format!("these are more than {COMBINATIONS_MAX} combinations");
            Fault::usage(what).hint("take coarser ranges")
        })?,
        rows_folder: absolute(".")?,
        node: args.node.clone().unwrap_or_default(),
        ..AddRequest::default()
    };
    let client = session.client().await?;
    let added = client.change(Change::Last, asked, ManClient::add).await?;
    session.out.notes(&added.notes);
    if args.trial.dry_run {
        let text = add::as_text(&session.out.screen, &added, true);
        session.out.text(&text)?;
        return Ok(code::OK);
    }
    let asked = StartRequest {
        request: request(),
        // An expression picks only those that are not live already.
        selection: Some(selection(&[format!("({}) && !live", any_of(&added.rows))])),
        node: args.node.clone().unwrap_or_default(),
        shell: for_jobs(),
        big: args.big,
        restart: true,
        ..StartRequest::default()
    };
    let reply = start::send(session, asked).await?;
    let as_json = session.out.as_json;
    if args.detach || !as_json {
        start::print(session, &reply, false, "start")?;
    }
    let live = added.rows.len() - start::started(&reply).count().min(added.rows.len());
    if live > 0 {
        let those = text::plural(live, "experiment");
        let note = format!("note: {those} of these runs already");
        session.out.note(&note);
    }
    if args.detach {
        return Ok(code::OK);
    }
    let picked = exactly(text::ids(&added.rows));
    if !as_json {
        let runs = runs(&added.rows, &reply);
        return wait::until_ended_with_logs(session, picked, &runs).await;
    }
    wait::until_ended(session, picked, &reply.notes).await
}

/// The runs of these experiments: those that were made just now, else the newest.
fn runs(ids: &[u64], reply: &StartReply) -> BTreeMap<u64, String> {
    let mut runs: BTreeMap<u64, String> = ids.iter().map(|id| (*id, id.to_string())).collect();
    for one in start::started(reply) {
        let (id, run) = (one.experiment, one.run);
        runs.insert(id, format!("{id}.{run}"));
    }
    runs
}

/// An expression for these experiments.
fn any_of(ids: &[u64]) -> String {
    let ranges = text::ranges(ids).into_iter();
    let each = ranges.map(|(first, last)| format!("(id>={first} && id<={last})"));
    text::join(each, " || ")
}

/// The command as one line. Without parameters braces are braces.
fn command(words: &[String], has_places: bool) -> String {
    let words = words.iter().map(|word| {
        if has_places {
            with_places(word, &mut Vec::new())
        } else {
            word.replace('{', "{{").replace('}', "}}")
        }
    });
    text::join(words.map(|word| shell_word(&word)), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words_and_braces_are_places_with_parameters_alone() {
        let words = ["awk".to_owned(), "{print $1}".to_owned()];
        assert_eq!(command(&words, false), "awk '{{print $1}}'");
        let words = ["sh".to_owned(), "a b {lr} ${HOME}".to_owned()];
        let line = command(&words, true);
        assert!(line.contains("{lr}"), "{line}");
    }
}
