//! One file per verb. Each makes its calls, prints, and returns the exit code.

mod abort;
mod add;
mod adopt;
mod annotate;
mod backtest;
mod backup;
mod clean;
mod completions;
mod config;
pub mod daemon;
mod diff;
mod du;
mod edit;
mod exec;
mod export;
mod fetch;
pub mod help;
mod import;
mod infra;
mod listed;
mod logs;
mod mail;
mod mcp;
mod metrics;
mod node;
pub mod noodles;
mod on_node;
mod open;
mod path;
mod pause;
mod plot;
mod restart;
mod results;
mod rm;
mod rule;
mod run;
mod show;
mod start;
mod status;
mod survey;
mod template;
mod top;
mod wait;
mod watch;
mod web;
mod why;

use crate::args::Verb;
use crate::fault::Stop;
use crate::read::TypedVerb;
use crate::session::Session;

/// Runs one verb.
///
/// # Errors
/// The error that is printed instead of a result.
pub async fn run(session: &mut Session, typed: &TypedVerb) -> Result<u8, Stop> {
    match one(session, &typed.verb).await {
        Err(Stop::Fault(fault)) => {
            let fault = on_node::hinted(session, *fault, &typed.picked).await;
            Err(fault.into())
        }
        other => other,
    }
}

async fn one(session: &mut Session, verb: &Verb) -> Result<u8, Stop> {
    match verb {
        Verb::Add(args) => add::run(session, args).await,
        Verb::Run(args) => run::run(session, args).await,
        Verb::Template(args) => template::run(&session.out, args),
        Verb::Status(args) => status::run(session, args).await,
        Verb::Show(args) => show::run(session, args).await,
        Verb::Top(args) => top::run(session, args).await,
        Verb::Web(args) => web::run(session, args).await,
        Verb::Mcp(args) => mcp::run(session, args).await,
        Verb::Start(args) => start::run(session, args).await,
        Verb::Restart(args) => restart::run(session, args).await,
        Verb::Abort(args) => abort::run(session, args).await,
        Verb::Pause(args) => pause::run(session, args, pause::PauseChange::Pause).await,
        Verb::Resume(args) => pause::run(session, args, pause::PauseChange::Resume).await,
        Verb::Adopt(args) => adopt::run(session, args).await,
        Verb::Set(args) => edit::set(session, args).await,
        Verb::Copy(args) => edit::copy(session, args).await,
        Verb::Note(args) => annotate::note(session, args).await,
        Verb::Tag(args) => annotate::tag(session, args).await,
        Verb::Rm(args) => rm::run(session, args).await,
        Verb::Wait(args) => wait::run(session, args).await,
        Verb::Logs(args) => logs::run(session, args).await,
        Verb::Metrics(args) => metrics::run(session, args).await,
        Verb::Plot(args) => plot::run(session, args).await,
        Verb::Results(args) => results::run(session, args).await,
        Verb::Diff(args) => diff::run(session, args).await,
        Verb::Export(args) => export::run(session, args).await,
        Verb::Open(args) => open::run(session, args).await,
        Verb::Path(args) => path::run(session, args).await,
        Verb::Fetch(args) => fetch::run(session, args).await,
        Verb::Infra(args) => infra::run(session, args).await,
        Verb::Node(args) => node::run(session, args).await,
        Verb::Shell(args) => exec::shell(session, args).await,
        Verb::Exec(args) => exec::run(session, args).await,
        Verb::Clean(args) => clean::run(session, args).await,
        Verb::Du(args) => du::run(session, args).await,
        Verb::Backup(args) => backup::run(session, args).await,
        Verb::Rule(args) => rule::run(session, args).await,
        Verb::Noodles(args) => noodles::run(session, args).await,
        Verb::Import(args) => import::run(&session.out, args),
        Verb::Config(args) => config::run(session, args).await,
        Verb::Mail(args) => mail::run(session, args).await,
        Verb::Daemon(args) => daemon::run(session, args).await,
        Verb::Completions { shell } => completions::run(&session.out, *shell),
        Verb::Help {
            man: Some(folder), ..
        } => help::man::run(&session.out, folder),
        Verb::Help { topic, man: None } => help::run(&session.out, topic.as_deref()),
        Verb::Version(args) => help::version::run(session, args),
    }
}
