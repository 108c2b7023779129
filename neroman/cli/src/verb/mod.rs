//! One file per verb. Each makes its calls, prints, and returns the exit code. Verbs that share code
//! stand in one folder.

mod backup;
mod change;
mod completions;
mod config;
pub mod daemon;
mod diff;
mod exec;
mod export;
mod files;
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
mod plot;
mod results;
mod rule;
mod show;
mod status;
mod survey;
mod top;
mod wait;
mod watch;
mod web;

use crate::args::Verb;
use crate::fault::Stop;
use crate::read::TypedVerb;
use crate::session::Session;

/// Runs one verb.
///
/// # Errors
/// The error that is printed instead of a result.
pub async fn run(session: &mut Session, typed: &TypedVerb) -> Result<u8, Stop> {
    match run_verb(session, &typed.verb).await {
        Err(Stop::Fault(fault)) => {
            let fault = on_node::hinted(session, *fault, &typed.picked).await;
            Err(fault.into())
        }
        other => other,
    }
}

async fn run_verb(session: &mut Session, verb: &Verb) -> Result<u8, Stop> {
    match verb {
        Verb::Add(args) => change::add::run(session, args).await,
        Verb::Run(args) => change::run::run(session, args).await,
        Verb::Template(args) => change::template::run(&session.out, args),
        Verb::Status(args) => status::run(session, args).await,
        Verb::Show(args) => show::run(session, args).await,
        Verb::Top(args) => top::run(session, args).await,
        Verb::Web(args) => web::run(session, args).await,
        Verb::Mcp(args) => mcp::run(session, args).await,
        Verb::Start(args) => change::start::run(session, args).await,
        Verb::Restart(args) => change::restart::run(session, args).await,
        Verb::Abort(args) => change::abort::run(session, args).await,
        Verb::Pause(args) => {
            change::pause::run(session, args, change::pause::PauseChange::Pause).await
        }
        Verb::Resume(args) => {
            change::pause::run(session, args, change::pause::PauseChange::Resume).await
        }
        Verb::Adopt(args) => change::adopt::run(session, args).await,
        Verb::Set(args) => change::edit::set(session, args).await,
        Verb::Copy(args) => change::edit::copy(session, args).await,
        Verb::Note(args) => change::annotate::note(session, args).await,
        Verb::Tag(args) => change::annotate::tag(session, args).await,
        Verb::Rm(args) => change::rm::run(session, args).await,
        Verb::Wait(args) => wait::run(session, args).await,
        Verb::Logs(args) => logs::run(session, args).await,
        Verb::Metrics(args) => metrics::run(session, args).await,
        Verb::Plot(args) => plot::run(session, args).await,
        Verb::Results(args) => results::run(session, args).await,
        Verb::Diff(args) => diff::run(session, args).await,
        Verb::Export(args) => export::run(session, args).await,
        Verb::Open(args) => files::open::run(session, args).await,
        Verb::Path(args) => files::path::run(session, args).await,
        Verb::Fetch(args) => files::fetch::run(session, args).await,
        Verb::Infra(args) => infra::run(session, args).await,
        Verb::Node(args) => node::run(session, args).await,
        Verb::Shell(args) => exec::shell(session, args).await,
        Verb::Exec(args) => exec::run(session, args).await,
        Verb::Clean(args) => files::clean::run(session, args).await,
        Verb::Du(args) => files::du::run(session, args).await,
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
