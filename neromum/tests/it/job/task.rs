//! A submission with one task in an allocation, and its starts.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{
    Claimed, JobExited, JobStarted, Plan, PlannedRun, PlannedTask, Process, RecordKind, StopCause,
    TaskLeft,
};
use nero_journal::{Clocks, Segment, Writer};
use nero_model::SubmissionId;
use nero_wire::v1::{Cancel, Pause, RunSpec};

use crate::rig::{Node, kill, mum, wait_for};

/// Short beats, so that a still one is seen soon.
pub(super) const BEAT_MS: u32 = 100;

/// A submission with one task on a node that no neromum serves.
pub(super) struct Submission {
    pub(super) node: Node,
    pub(super) id: SubmissionId,
    pub(super) runs: Vec<RunSpec>,
}

impl Submission {
    pub(super) fn new(lines: &[&str]) -> Self {
        let node = Node::new();
        let runs = lines.iter().zip(1..);
        let runs = runs.map(|(line, number)| node.sh(number, line)).collect();
        Self::of(node, runs)
    }

    pub(super) fn of(node: Node, runs: Vec<RunSpec>) -> Self {
        let submission = Self {
            node,
            id: SubmissionId::random(),
            runs,
        };
        for run in &submission.runs {
            let run_dir = submission.node.run_dir(run);
            nero_model::paths::make_private(&run_dir.join("control")).unwrap();
            // A run that the bare node had before has its spec.
            let _ = frame::create(FrameKind::Spec, &run_dir.join("spec"), run);
        }
        submission.write_plan();
        submission
    }

    pub(super) fn write_plan(&self) {
        nero_model::paths::make_private(&self.folder().join("starts")).unwrap();
        let run = |run: &RunSpec| PlannedRun {
            token: run.token.clone(),
            experiment: run.experiment,
            number: run.number,
        };
        let plan = Plan {
            adopted: None,
            format: 1,
            submission: self.id.to_vec(),
            deployment: self.node.deployment.to_vec(),
            node: "n".to_owned(),
            root: self.node.root.display().to_string(),
            beat_ms: BEAT_MS,
            tasks: vec![PlannedTask {
                task: 0,
                runs: self.runs.iter().map(run).collect(),
            }],
            at_once: 0,
        };
        let path = self.folder().join("plan");
        let _ = fs::remove_file(&path);
        frame::create(FrameKind::Plan, &path, &plan).unwrap();
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.node.paths.submission(&self.id)
    }

    pub(super) fn has(&self, news: &str) -> bool {
        self.folder().join("starts").join(news).exists()
    }

    pub(super) fn left(&self, start: u32) -> TaskLeft {
        let path = self.folder().join(format!("starts/task-0.{start}.left"));
        frame::read(FrameKind::TaskLeft, &path).unwrap()
    }

    /// Begins a start of the task.
    pub(super) fn start(&self, options: &[&str]) -> Start {
        self.start_with(options, &[])
    }

    /// The same with these variables of the scheduler.
    pub(super) fn start_with(&self, options: &[&str], env: &[(&str, String)]) -> Start {
        let child = Command::new(mum())
            .arg("job")
            .arg(self.folder())
            .args(options)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Start(child.unwrap())
    }

    /// A whole start; returns its exit code.
    pub(super) async fn complete(&self) -> i32 {
        self.start(&["--cpus", "2"]).code().await
    }

    pub(super) fn work(&self, run: usize, name: &str) -> PathBuf {
        self.node.run_dir(&self.runs[run]).join("work").join(name)
    }

    pub(super) async fn written(&self, run: usize, incarnation: u32, name: &str) -> String {
        let folder = match incarnation {
            1 => "work".to_owned(),
            later => format!("work.{later}"),
        };
        let path = self.node.run_dir(&self.runs[run]).join(folder).join(name);
        wait_for(name, || {
            fs::read_to_string(&path)
                .ok()
                .filter(|text| text.ends_with('\n'))
        })
        .await
    }

    /// The records of one start of a run, of all its segments.
    pub(super) fn records<M: prost::Message + Default>(
        &self,
        run: usize,
        incarnation: u32,
        kind: RecordKind,
    ) -> Vec<M> {
        let folder = self.node.run_dir(&self.runs[run]);
        let entries = fs::read_dir(folder.join(incarnation.to_string()));
        let mut found = Vec::new();
        for entry in entries.into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name != "claim" && !name.ends_with(".seg") {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let (_, records) = nero_journal::scan(&bytes).unwrap();
            let of_kind = records.filter(|record| record.is(kind));
            found.extend(of_kind.map(|record| record.decode::<M>().unwrap()));
        }
        found
    }

    /// Pauses a run by a request with an odd number, resumes it by the next one.
    pub(super) fn pause(&self, run: usize, number: u32) {
        let control = self.node.run_dir(&self.runs[run]).join("control");
        let request = Pause {
            token: self.runs[run].token.clone(),
            ..Pause::default()
        };
        let path = control.join(format!("pause.{number}"));
        frame::create(FrameKind::Pause, &path, &request).unwrap();
    }

    /// Asks for the end of a run.
    pub(super) fn cancel(&self, run: usize) {
        let control = self.node.run_dir(&self.runs[run]).join("control");
        let request = Cancel {
            token: self.runs[run].token.clone(),
            cause: StopCause::Person as u32,
            ..Cancel::default()
        };
        frame::create(FrameKind::Cancel, &control.join("cancel.1"), &request).unwrap();
    }

    pub(super) fn code(&self, run: usize, incarnation: u32) -> Option<i32> {
        let ends = self.records::<JobExited>(run, incarnation, RecordKind::JobExited);
        ends.first().map(|end| end.code)
    }

    /// Makes the claim of a run that ended as another host leaves it whose power fails
    /// right after the end of the main process: it tells nothing of the other
    /// processes, and names some that nobody here can see.
    pub(super) fn cut_claim(&self, run: usize, incarnation: u32) {
        let folder = self.node.run_dir(&self.runs[run]);
        let claim = folder.join(incarnation.to_string()).join("claim");
        let token = self.runs[run].token.as_slice().try_into().unwrap();
        let bytes = fs::read(&claim).unwrap();
        fs::remove_file(&claim).unwrap();
        let elsewhere = Some(Process {
            boot_id: vec![7; 16],
            pid_namespace: 1,
            pid: 1,
            start_ticks: 1,
        });
        let mut cut = Segment::create(&claim, Writer::Shim, token, incarnation).unwrap();
        let (_, records) = nero_journal::scan(&bytes).unwrap();
        for record in records {
            let clocks = Clocks::now();
            match RecordKind::try_from(i32::from(record.kind)) {
                Ok(RecordKind::Claimed) => {
                    let mut claimed: Claimed = record.decode().unwrap();
                    claimed.shim.clone_from(&elsewhere);
                    claimed.launcher.clone_from(&elsewhere);
                    cut.append(RecordKind::Claimed, clocks, &claimed).unwrap();
                }
                Ok(RecordKind::JobStarted) => {
                    let mut started: JobStarted = record.decode().unwrap();
                    started.job.clone_from(&elsewhere);
                    cut.append(RecordKind::JobStarted, clocks, &started)
                        .unwrap();
                }
                Ok(RecordKind::JobExited) => {
                    let exited: JobExited = record.decode().unwrap();
                    cut.append(RecordKind::JobExited, clocks, &exited).unwrap();
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Kills what lives of an allocation, as a scheduler does: everything.
    pub(super) async fn kill_everything(&self) {
        wait_for("the end of all processes", || {
            let left = self.node.processes();
            for (pid, _) in &left {
                kill(*pid, rustix::process::Signal::KILL);
            }
            left.is_empty().then_some(())
        })
        .await;
    }
}

/// A start of the task; killed when it is dropped.
pub(super) struct Start(pub(super) Child);

impl Start {
    pub(super) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.0;
        wait_for("the end of neromum job", || child.try_wait().unwrap()).await
    }

    pub(super) async fn code(mut self) -> i32 {
        let status = self.ended().await;
        status.code().expect("an exit code")
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        kill(self.0.id() as i32, signal);
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
