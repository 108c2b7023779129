//! `Adopt`: jobs that their owner submitted to a node's scheduler by hand become
//! experiments with one run each, which the node takes as it takes any other.

use std::sync::Arc;
use std::time::Duration;

use nero_format::Definition;
use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::adopt_reply::One;
use nero_wire::v1::find_jobs_reply::One as Found;
use prost::Message as _;
use tonic::Code;

use crate::service::Man;
use nero_home::adopt;
use nero_home::failure::Failure;
use nero_home::ledger::{self, Decision};
use nero_life::change::{Change, ExperimentRecord, NewRun};
use nero_life::now::Moment;
use nero_life::run::{Dispatch, RunRecord};
use nero_life::state::State;
use nero_life::{take_over, taken_over};
use nero_link::connect::mum_client;

/// How long a node may take to connect, and to ask its scheduler about all jobs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Collection of the experiments that stand for adopted jobs.
const COLLECTION: &str = "adopted";
/// Note on their definitions, for people.
const NOTE: &str = "its job was submitted by hand: there is nothing to start again";
/// Longest name of an experiment, in characters.
const NAME_CHARS_MAX: usize = 60;

/// What is the same for all jobs of a call.
struct Call {
    node: String,
    scheduler: String,
    /// The placeholder source.
    folder: std::path::PathBuf,
    deployment: Vec<u8>,
    results_max_bytes: u64,
    at: Moment,
}

impl Man {
    /// Asks the node about the jobs, then makes experiments and runs of them in one
    /// transaction.
    pub(crate) async fn adopt(&self, request: v1::AdoptRequest) -> Result<v1::AdoptReply, Failure> {
        self.configured(&request.node)?;
        if !request.log.is_empty() && request.jobs.len() != 1 {
            return Err(Failure::usage("--log is the log of one job"));
        }
        let found = self.find(&request).await?;
        let call = Call {
            node: request.node.clone(),
            scheduler: found.scheduler.clone(),
            folder: self.home.data.join(taken_over::ADOPTED),
            deployment: self.deployment.as_bytes().to_vec(),
            results_max_bytes: self.nodes.config()?.results_max_bytes(),
            at: self.clock.moment(),
        };
        let jobs: Vec<(String, Found)> = request.jobs.into_iter().zip(found.jobs).collect();
        let (log, no_accounting) = (request.log, found.no_accounting);
        self.ledger
            .ask(&[], move |state, now_ms| {
                let mut changes = Vec::new();
                let mut work = state.clone();
                let mut ones = Vec::new();
                for (asked, found) in &jobs {
                    let job = (asked.as_str(), found, log.as_str());
                    ones.push(call.adopt(&mut work, &mut changes, job, now_ms));
                }
                let made = ones.iter().filter(|one| one.problem.is_empty());
                let made: Vec<_> = made.map(|one| ExperimentId(one.experiment)).collect();
                if !changes.is_empty() {
                    changes.push(ledger::last(made));
                }
                Ok(Decision {
                    answer: v1::AdoptReply {
                        jobs: ones,
                        scheduler: call.scheduler.clone(),
                        no_accounting,
                    },
                    changes,
                })
            })
            .await
    }

    async fn find(&self, request: &v1::AdoptRequest) -> Result<v1::FindJobsReply, Failure> {
        let node = &request.node;
        let channel = self.nodes.channel(node, PATIENCE).await?;
        let mut asked = tonic::Request::new(v1::FindJobsRequest {
            jobs: request.jobs.clone(),
        });
        asked.set_timeout(PATIENCE);
        let reply = mum_client(channel).find_jobs(asked).await;
        let reply = reply.map_err(|status| match status.code() {
            Code::Unimplemented => Failure::node(format!(
                "the agent on {node} is of an earlier version and cannot adopt jobs"
            )),
            Code::FailedPrecondition | Code::InvalidArgument => {
                Failure::usage(format!("{node}: {}", status.message()))
            }
            _ => Failure::node(format!("node {node} does not look for jobs")).status(&status),
        });
        Ok(reply?.into_inner())
    }
}

impl Call {
    /// Adopts one job, unless it is in the books or cannot be adopted.
    fn adopt(
        &self,
        work: &mut State,
        changes: &mut Vec<Change>,
        (asked, found, log): (&str, &Found, &str),
        now_ms: i64,
    ) -> One {
        let reply = One {
            asked: asked.to_owned(),
            ..One::default()
        };
        let Some(job) = found.job.as_ref().filter(|_| found.problem.is_empty()) else {
            return One {
                problem: found.problem.clone(),
                hint: found.hint.clone(),
                ..reply
            };
        };
        let job = with_log(job, &found.folder, log);
        let command = self.command(&job, &found.text);
        let same = |definition: &Definition| {
            definition.folder == self.folder && definition.command_text == command
        };
        let reply = One {
            run: 1,
            job: found.text.clone(),
            ..reply
        };
        if let Some(known) = work.experiments.iter().find(|one| same(&one.definition)) {
            return One {
                experiment: known.id.0,
                name: known.definition.name.clone(),
                known: true,
                no_log: found.no_log.clone(),
                ..reply
            };
        }
        let id = RunId {
            experiment: ExperimentId(work.highest + 1),
            number: 1,
        };
        let (name, log) = (name(&found.name), job.stdout.clone());
        let token = RunToken::random();
        let spec = self.spec((id, token), &name, job);
        let mut new = self.experiment_and_run(work, (id, token), &spec, command, now_ms);
        new.push(Change::Event {
            experiment: id.experiment,
            run: Some(id.number),
            at_ms: now_ms,
            text: format!("adopted: {} job {}", self.scheduler, found.text),
        });
        for change in new {
            work.apply(&change);
            changes.push(change);
        }
        One {
            experiment: id.experiment.0,
            name,
            no_log: if log.is_empty() {
                found.no_log.clone()
            } else {
                String::new()
            },
            log,
            ..reply
        }
    }

    /// The spec of the run that stands for a job.
    fn spec(&self, (id, token): (RunId, RunToken), name: &str, job: v1::AdoptedJob) -> v1::RunSpec {
        v1::RunSpec {
            token: token.to_vec(),
            experiment: id.experiment.0,
            number: id.number,
            attempt: id.number,
            deployment: self.deployment.clone(),
            name: name.to_owned(),
            collection: COLLECTION.to_owned(),
            collections: vec![COLLECTION.to_owned()],
            resources: Some(v1::Resources::default()),
            node: self.node.clone(),
            results_max_bytes: self.results_max_bytes,
            adopted: Some(job),
            ..v1::RunSpec::default()
        }
    }

    /// The changes that make the experiment and the run of this spec.
    fn experiment_and_run(
        &self,
        work: &State,
        (id, token): (RunId, RunToken),
        spec: &v1::RunSpec,
        command: String,
        now_ms: i64,
    ) -> Vec<Change> {
        let (source, new) = take_over::placeholder(work, &self.folder);
        let definition = Definition {
            command_text: command,
            results_max_bytes: None,
            notes: vec![NOTE.to_owned()].into(),
            ..adopt::definition(spec, &self.folder)
        };
        let made = RunRecord {
            created: Some(self.at.tick.clone()),
            fingerprint: definition.fingerprint(),
            // Its job has no work folder of ours.
            all_made: false,
            batch: Some(id),
            ..adopt::made(id, token, &self.node, spec, now_ms)
        };
        let described = ExperimentRecord {
            modified: Some(self.at.tick.clone()),
            ..ExperimentRecord::new(id.experiment, definition, source, now_ms)
        };
        let run = NewRun {
            made: Arc::new(made),
            dispatch: Dispatch::planned(Some(self.node.clone()), None),
            rules: Arc::from([]),
            spec: spec.encode_to_vec().into(),
        };
        let mut changes: Vec<Change> = new.into_iter().collect();
        changes.push(Change::Experiment(Arc::new(described)));
        changes.push(Change::Run(Arc::new(run)));
        changes
    }

    /// Stands in the place of a command, and names the job: its number is used again.
    fn command(&self, job: &v1::AdoptedJob, text: &str) -> String {
        let at = jiff::Timestamp::from_second(job.submitted_s);
        let at = at.map_or_else(|_| job.submitted_s.to_string(), |at| at.to_string());
        format!(
            "{} job {text} of {}, submitted {at}",
            self.scheduler, self.node
        )
    }
}

/// A job whose output is in the log that was named, if any was: absolute, or in the job's folder.
fn with_log(job: &v1::AdoptedJob, folder: &str, log: &str) -> v1::AdoptedJob {
    let mut job = job.clone();
    if !log.is_empty() {
        job.stdout = if log.starts_with('/') {
            log.to_owned()
        } else {
            format!("{}/{log}", folder.trim_end_matches('/'))
        };
        job.stderr.clear();
    }
    job
}

/// The name of a job as the name of an experiment: one word that no selector reads
/// otherwise.
fn name(job: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
    let word = (job.chars()).take(NAME_CHARS_MAX);
    let word: String = word.map(|c| if fits(c) { c } else { '_' }).collect();
    if word.starts_with(|c: char| c.is_alphabetic()) {
        word
    } else {
        format!("job_{word}")
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_jobs_name_becomes_one_word() {
        assert_eq!(name("train"), "train");
        assert_eq!(name("my job;\n1"), "my_job__1");
        assert_eq!(name("12-14"), "job_12-14");
        assert_eq!(name(""), "job_");
    }
}
