//! What real schedulers printed, read by this crate. The recordings lie in
//! `tests/recorded`.

mod adopted;
mod generic;
mod odd;
mod queue;
mod site;
mod submit;

use std::path::PathBuf;

use nero_warden::{CallOutput, End, JobKey, JobName};

/// Submissions of which no number is known.
pub fn known<'a>(names: &[&'a JobName]) -> Vec<JobKey<'a>> {
    let each = names.iter().map(|name| JobKey { name, job: None });
    each.collect()
}

/// A recorded answer: `NAME`, with `NAME.err` and `NAME.rc` where they are not empty
/// and 0.
pub fn recorded(scheduler: &str, name: &str) -> CallOutput {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/recorded")
        .join(scheduler);
    let read = |name: &str| std::fs::read(folder.join(name));
    let code = read(&format!("{name}.rc")).map_or(0, |text| {
        let text = String::from_utf8(text).expect("a number");
        text.trim().parse().expect("a number")
    });
    CallOutput {
        end: End::Code(code),
        out: read(name).unwrap_or_else(|error| panic!("{scheduler}/{name}: {error}")),
        err: read(&format!("{name}.err")).unwrap_or_default(),
    }
}
