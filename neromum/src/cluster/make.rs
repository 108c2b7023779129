//! Submissions are made of runs that wait: folders with plan and script, synced. Called
//! off the reactor; nothing of it is in the ledger yet.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nero_cluster::request::{Shape, TaskRequest};
use nero_cluster::submission::{self, Files, Plan, TaskRun};
use nero_model::paths::NodePaths;
use nero_model::{DeploymentId, RunId, RunToken, SubmissionId};
use nero_node::agent::recover::remove_submission;
use nero_node::launch::orders::grace_ms;
use nero_node::runs::spec;
use nero_warden::group::{Room, WaitingRun, group};
use nero_warden::{Order, Warden};

/// Specs that are read before the next look whether there is room for more.
const READ_AT_ONCE: usize = 500;

/// Submissions whose folders are made.
#[derive(Debug, Default)]
pub struct Folders {
    pub(super) groups: Vec<Group>,
    /// Runs that cannot be submitted, with the reason.
    pub(super) refused: Vec<(RunToken, String)>,
    /// The disk's word when it refused.
    pub(super) failed: Option<String>,
}

/// A submission in its folder.
#[derive(Debug)]
pub struct Group {
    pub(super) plan: Plan,
    pub(super) order: Order,
    pub(super) script: String,
}

/// What makes submissions, off the reactor.
pub(super) struct Maker {
    pub paths: NodePaths,
    pub deployment: DeploymentId,
    pub node: String,
    pub program: PathBuf,
    pub min_free: u64,
    pub warden: Arc<dyn Warden>,
    pub room: Room,
    /// Tasks of these that may run beside those that are at the scheduler, 1 or more;
    /// `None`: the node has no limit.
    pub running_left: Option<u32>,
}

impl Maker {
    /// Makes submissions of these runs, as far as there is room.
    pub fn make(&self, runs: &[(RunToken, RunId)]) -> Folders {
        let mut made = Folders::default();
        let mut groups = Vec::new();
        let mut waiting = Vec::new();
        for some in runs.chunks(READ_AT_ONCE) {
            waiting.extend(self.read(some, &mut made));
            groups = group(waiting.clone(), self.room);
            let taken = groups.iter().flat_map(|group| &group.tasks);
            if taken.map(Vec::len).sum::<usize>() < waiting.len() {
                // There is room for no more of them.
                break;
            }
        }
        let mut left = self.running_left;
        for mut group in groups {
            if left == Some(0) {
                // The others wait until tasks of these have ended.
                break;
            }
            let limit = left;
            if let Some(left) = &mut left {
                if !self.warden.limits_arrays() {
                    group.tasks.truncate(*left as usize);
                }
                let tasks = u32::try_from(group.tasks.len()).unwrap_or(u32::MAX);
                *left -= tasks
                    .min(group.like.at_once.unwrap_or(tasks).max(1))
                    .min(*left);
            }
            match self.make_one(&group.like, &group.tasks, limit) {
                Ok(Ok(group)) => made.groups.push(group),
                Ok(Err(why)) => {
                    let runs = group.tasks.iter().flatten();
                    made.refused
                        .extend(runs.map(|run| (run.token, why.clone())));
                }
                Err(error) => {
                    made.failed = Some(not_written(&error));
                    break;
                }
            }
        }
        made
    }

    /// What these runs ask for; those that cannot be submitted go to `made`.
    fn read(&self, runs: &[(RunToken, RunId)], made: &mut Folders) -> Vec<WaitingRun<TaskRun>> {
        let mut waiting = Vec::new();
        for (token, id) in runs {
            let planned = TaskRun {
                token: *token,
                id: *id,
            };
            match spec::read(&self.paths, *id, *token) {
                // The scheduler has its job already.
                Ok(spec) if spec.adopted.is_some() => {}
                Ok(spec) => match TaskRequest::of(&spec, grace_ms(&spec), &*self.warden) {
                    Ok(asked) => waiting.push(WaitingRun {
                        run: planned,
                        resources: asked.resources,
                        fields: asked.fields,
                        setup: asked.setup,
                        pack: asked.pack,
                        at_once: asked.at_once,
                    }),
                    Err(why) => made.refused.push((*token, why.to_string())),
                },
                Err(error) if error.may_pass => {}
                Err(error) => made.refused.push((*token, error.file.to_string())),
            }
        }
        waiting
    }

    fn make_one(
        &self,
        like: &WaitingRun<TaskRun>,
        tasks: &[Vec<TaskRun>],
        limit: Option<u32>,
    ) -> io::Result<Result<Group, String>> {
        let id = SubmissionId::random();
        let asked = TaskRequest {
            resources: like.resources.clone(),
            fields: like.fields.clone(),
            setup: like.setup.clone(),
            pack: like.pack,
            at_once: like.at_once,
        };
        let shape = shape(tasks.iter().map(Vec::len), limit);
        let job = (&*self.program, self.min_free);
        let order = ordered(&asked, &id, shape, &self.paths, job);
        let order = order.ok_or_else(|| io::Error::other("its id is no name of a job"))?;
        let script = match self.warden.script(&order) {
            Ok(script) => script,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let first = match tasks.len() {
            1 => 0,
            _ => self.warden.first_index(),
        };
        let tasks = (first..).zip(tasks);
        let plan = Plan {
            submission: id,
            deployment: self.deployment,
            node: self.node.clone(),
            root: self.paths.root().to_path_buf(),
            beat: nero_node::lease::BEAT,
            tasks: tasks
                .map(|(index, runs)| submission::Task {
                    index,
                    runs: runs.clone(),
                })
                .collect(),
            at_once: order.at_once,
            adopted: None,
        };
        let files = Files::at(&self.paths.submission(&id));
        // Each try on a full disk would leave another folder.
        let made = files.make(&plan, &script);
        made.inspect_err(|_| remove_submission(files.folder()))?;
        Ok(Ok(Group {
            plan,
            order,
            script,
        }))
    }
}

/// Why a submission waits for the disk, for people.
fn not_written(error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::StorageFull => "the node's disk is full",
        io::ErrorKind::QuotaExceeded => "your quota on the node is used up",
        _ => return format!("a submission cannot be written: {error}"),
    };
    format!("{what}: nothing is submitted until there is room (make room there, or: neroman clean)")
}

/// The shape of a submission whose tasks have so many runs.
pub(super) fn shape(runs: impl ExactSizeIterator<Item = usize>, limit: Option<u32>) -> Shape {
    let tasks = runs.len();
    Shape::of(tasks, runs.max().unwrap_or(1)).with_limit(limit)
}

/// The order of a submission whose runs ask the same.
pub(super) fn ordered(
    asked: &TaskRequest,
    id: &SubmissionId,
    shape: Shape,
    paths: &NodePaths,
    (program, min_free): (&Path, u64),
) -> Option<Order> {
    let name = nero_warden::JobName::of(&id.to_string())?;
    let job = nero_warden::Job {
        program: program.to_path_buf(),
        folder: paths.submission(id),
        min_free,
    };
    Some(asked.order(name, shape, job))
}
