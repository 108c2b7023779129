//! What the scheduler has of jobs that their owner submitted by hand, before they are
//! adopted. Asked on a person's request alone.

use std::path::Path;

use nero_model::safe::Safe;
use nero_warden::{AccountingAccess, FoundJob, JobName, JobRef, NotFound};
use nero_wire::v1::find_jobs_reply::One;
use nero_wire::v1::{AdoptedJob, FindJobsReply, FindJobsRequest};
use tonic::Status;

use super::ServiceState;
use crate::warden::front::Front;

/// Jobs of one call: each costs a command or more.
const JOBS_MAX: usize = 200;

pub(super) async fn find(
    inner: &ServiceState,
    request: FindJobsRequest,
) -> Result<FindJobsReply, Status> {
    if request.jobs.len() > JOBS_MAX {
        let why = format!("more than {JOBS_MAX} jobs in one call");
        return Err(Status::invalid_argument(why));
    }
    let Some(front) = &inner.front else {
        let why = "it has no scheduler whose jobs could be adopted";
        return Err(Status::failed_precondition(why));
    };
    let mut jobs = Vec::new();
    for asked in &request.jobs {
        let one = find_job(front, asked).await;
        jobs.push(one.unwrap_or_else(|(problem, hint)| One {
            problem,
            hint: hint.to_owned(),
            ..One::default()
        }));
    }
    let site = front.site().await;
    Ok(FindJobsReply {
        jobs,
        scheduler: front.warden().name().into_owned(),
        no_accounting: site.is_ok_and(|site| site.accounting == AccountingAccess::Absent),
    })
}

/// Finds one job; the error is the problem, with a hint.
async fn find_job(front: &Front, asked: &str) -> Result<One, (String, &'static str)> {
    let job = JobRef::read(asked).ok_or((
        "that is no number of a job".to_owned(),
        "type it as the scheduler prints it: 12, or 12_3 (12.3) for a task of an array",
    ))?;
    let found = query_job(front, job).await?;
    if found.uid != Some(rustix::process::getuid().as_raw()) {
        let owner = Safe::line(&found.owner);
        return Err((
            format!("it is a job of {owner}"),
            "only your own jobs can be adopted",
        ));
    }
    if JobName::read(&found.name).is_some() {
        return Err((
            "Neronet submitted it, for runs that are in the books".to_owned(),
            "its runs are in `neroman status` of the machine that started them",
        ));
    }
    if found.has_ended {
        return Err((
            "it has ended".to_owned(),
            "only a job that waits or runs can be adopted",
        ));
    }
    let warden = front.warden();
    let text = match found.job.task {
        Some(task) => warden.task_name(found.job.job, task),
        None => found.job.job.to_string(),
    };
    let in_folder = |path: String, at: usize| match &found.names_in_folder {
        Some(names) if Path::new(&path).is_dir() => format!("{path}/{}", names[at]),
        _ => path,
    };
    let (stdout, no_log) = match found.stdout {
        Ok(path) => (in_folder(path, 0), String::new()),
        Err(why) => (String::new(), why),
    };
    let stderr = found.stderr.map(|path| in_folder(path, 1));
    Ok(One {
        job: Some(AdoptedJob {
            job: found.job.job.0,
            task: found.job.task,
            submitted_s: found.submitted_s,
            stderr: stderr.filter(|path| *path != stdout).unwrap_or_default(),
            stdout,
        }),
        text,
        name: found.name,
        folder: found.folder,
        no_log,
        ..One::default()
    })
}

async fn query_job(front: &Front, job: JobRef) -> Result<FoundJob, (String, &'static str)> {
    let name = front.warden().name();
    let away = |why: String| (why, "try again when it answers");
    let mut warden = front.warden().clone();
    let runner = front.runner().await.map_err(away)?;
    let found = loop {
        let mut said = Vec::new();
        for call in warden.find_calls(job) {
            said.push(runner.run(&call).await);
        }
        match warden.without_json(&said) {
            Some(plain) => warden = plain,
            None => break warden.read_found(&said, job),
        }
    };
    found.map_err(|error| match error {
        NotFound::Absent => (
            format!("{name} has no such job, or none any more"),
            "`squeue --me`, or `qstat`, lists yours on that node",
        ),
        NotFound::Array(_) | NotFound::Task(_) => (
            error.to_string(),
            "type it as 12_3 (SLURM) or 12.3 (Grid Engine)",
        ),
        NotFound::Unsupported => (
            error.to_string(),
            "jobs of SLURM and Grid Engine can be adopted",
        ),
        NotFound::Unreadable(error) => away(Safe::line(&error.to_string()).to_string()),
    })
}
