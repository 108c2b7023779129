//! Plays stories, each once for every chosen point at which a program dies or a call fails.
//! `cargo xtask steps` builds everything and runs this program.
//!
//! `nero-steps STORY|all POINTS SEED [PART]`: PART of the text of a point leaves the others out.
//! `nero-steps STORY|all CUTS SEED --cuts` cuts the power instead.

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use nero_tests::steps::{self, STORIES, Story};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |which: usize| words.get(which).and_then(|word| word.parse().ok());
    let (Some(story), Some(most), Some(seed)) = (words.first(), number(1), number(2)) else {
        eprintln!("error: nero-steps STORY|all POINTS SEED [PART]");
        return ExitCode::from(2);
    };
    let is_wanted = |one: &&Story| story == "all" || story == one.name;
    let stories: Vec<Story> = STORIES.iter().filter(is_wanted).copied().collect();
    let only = words.get(3).map(String::as_str);
    let began = Instant::now();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let is_cut = only == Some("--cuts");
    let outcome = if is_cut {
        steps::cut(&stories, most, seed)
    } else {
        steps::run(&stories, most, seed, only)
    };
    let Some(outcome) = outcome else {
        return ExitCode::SUCCESS;
    };
    let ((calls, kinds), (tried, missed)) = (outcome.calls, outcome.tried);
    let (count, took_s) = (stories.len(), began.elapsed().as_secs_f64());
    let what = if is_cut {
        format!("{calls} moments; {tried} power cuts in {took_s:.0} s")
    } else {
        format!(
            "{calls} calls of {kinds} kinds; {tried} points in {took_s:.0} s, of which {missed} \
             were not reached"
        )
    };
    println!("{count} stories, {what}; {} broken", outcome.broken.len());
    if outcome.broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
