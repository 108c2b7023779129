//! Answers of schedulers: no row is ours but by our name, whatever other people call their jobs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use nero_warden::generic::{Generic, Recipe};
use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{AdoptedJobRef, End, JobId, JobName, JobRef, Kind, JobKey, CallOutput, Warden};

use crate::Choices;

const OURS: &str = "nero-abcdefghijklmnopqrstuvwxyz";

/// Each scheduler of the recipes that we bring along.
static GENERIC: LazyLock<Vec<Generic>> = LazyLock::new(|| {
    let recipes = Recipe::names().filter_map(Recipe::named);
    recipes
        .filter_map(|recipe| Generic::new(&recipe).ok())
        .collect()
});

pub fn law(bytes: &[u8]) {
    let (bytes, choices) = crate::parts(bytes);
    let name = JobName::read(OURS).expect("a name of ours");
    let plain = Slurm { is_plain: true };
    let (slurm, oge) = (Slurm::default(), Oge::default());
    let mut wardens: Vec<&dyn Warden> = vec![&slurm, &plain, &oge];
    wardens.extend(GENERIC.iter().map(|one| one as &dyn Warden));
    let warden = wardens[Choices(choices).below(wardens.len())];
    let read = read_names(warden, bytes, &name);
    // JSON and XML may write a letter as an escape, and other schedulers shorten names.
    let has_escape = bytes.iter().any(|byte| matches!(byte, b'\\' | b'&'));
    if !has_escape && warden.kind() != Kind::Generic {
        let there = names(bytes);
        assert!(read.iter().all(|name| there.contains(name)), "a row is invented");
    }
    // A name is short.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]);
    for (warden, listing) in [(&slurm as &dyn Warden, in_json(&text)), (&oge, in_xml(&text))] {
        let names = read_names(warden, listing.as_bytes(), &name);
        assert!(text == OURS || !names.contains(&name), "a foreign name makes a row of ours");
    }
}

/// Reads the bytes as each of the answers; returns the names in listings and accounts.
fn read_names(warden: &dyn Warden, bytes: &[u8], name: &JobName) -> Vec<JobName> {
    let answer = CallOutput {
        end: End::Code(0),
        out: bytes.to_vec(),
        err: Vec::new(),
    };
    let each = |count: usize| vec![answer.clone(); count];
    let _ = warden.read_site(&each(warden.site_calls().len()));
    let _ = warden.read_submit(&answer);
    let _ = warden.read_count(&each(warden.count_calls().len()));
    let _ = warden.cancellers(&each(1));
    let job = JobRef {
        job: JobId(12),
        task: None,
    };
    let adopted = [AdoptedJobRef {
        name,
        job,
        submitted_s: 1_795_502_856,
    }];
    let _ = warden.read_found(&each(warden.find_calls(job).len()), job);
    let _ = warden.read_adopted(&each(1), &each(1), &adopted);
    let _ = warden.read_adopted_ends(&each(1), &adopted);
    let known = [JobKey { name, job: None }];
    let queue = warden.read_queue(&each(warden.queue_calls(&[name]).len()), &known);
    let ends = warden.read_ends(&each(warden.ends_calls(&[name], 60).len()), &[name]);
    let ours = queue.unwrap_or_default().ours.into_iter().map(|row| row.name);
    let ended = ends.unwrap_or_default().into_iter().map(|row| row.name);
    ours.chain(ended).collect()
}

/// The names of ours in an answer.
fn names(bytes: &[u8]) -> BTreeSet<JobName> {
    let named = |part: &[u8]| JobName::read(str::from_utf8(part).ok()?);
    bytes.windows(OURS.len()).filter_map(named).collect()
}

fn in_json(name: &str) -> String {
    let job = serde_json::json!({
        "name": name, "comment": name, "job_id": 1, "job_state": "RUNNING", "state_reason": name,
    });
    serde_json::json!({ "jobs": [job] }).to_string()
}

fn in_xml(name: &str) -> String {
    let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let head = "<job_info><queue_info><job_list state=\"running\"><JB_job_number>1</JB_job_number>";
    let tail = "<state>r</state><slots>1</slots></job_list></queue_info></job_info>";
    format!("{head}\n<JB_name>{name}</JB_name>\n<JB_owner>{name}</JB_owner>\n{tail}\n")
}
