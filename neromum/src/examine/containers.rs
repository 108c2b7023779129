//! Runtimes of containers: which are here, and whether they work.

use futures_util::future::join_all;
use nero_model::safe::Safe;

use super::Findings;
use crate::containers::version;
use crate::staging::container::{Runtime, has_init};
use crate::staging::environment::Base;

/// One finding for each runtime that is here.
pub async fn look(base: &Base) -> Findings {
    let each = Runtime::ALL.into_iter().map(|runtime| async move {
        let program = base.find(runtime.program())?;
        Some((runtime, version(base, runtime, &program).await))
    });
    let mut findings = Findings::default();
    for (runtime, answer) in join_all(each).await.into_iter().flatten() {
        let what = format!("container runtime {}", runtime.name());
        match answer {
            Ok(version) if runtime == Runtime::Podman && !has_init(runtime) => findings.warning(
                &what,
                format!("{version}; nothing passes signals on"),
                "an abort lasts the whole grace: install catatonit",
            ),
            Ok(version) => findings.good(&what, Safe::line(&version).to_string()),
            Err(why) => findings.warning(
                &what,
                format!("it does not work: {why}"),
                "runs whose container names no runtime get another one",
            ),
        }
    }
    findings
}
