//! Runtimes of containers: which are here, whether they work, and whether they can give GPUs.

use futures_util::future::join_all;
use nero_model::safe::Safe;
use nero_node::cards::CardsKnown;
use nero_node::containers::version;
use nero_node::staging::container::{Runtime, has_init};
use nero_node::staging::environment::Base;

use super::{Findings, programs};

/// Folders with descriptions of devices, by which podman gives cards.
const DEVICES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// One finding for each runtime that is here, and one more for each that cannot give the cards
/// that this node has.
pub async fn examine(base: &Base, cards: &CardsKnown) -> Findings {
    let each = Runtime::ALL.into_iter().map(|runtime| async move {
        let program = base.find(runtime.program())?;
        Some((runtime, version(base, runtime, &program).await))
    });
    let has_cards = matches!(cards, CardsKnown::Cards(page) if page.driver.starts_with("NVIDIA"));
    let mut findings = Findings::default();
    for (runtime, answer) in join_all(each).await.into_iter().flatten() {
        let what = format!("container runtime {}", runtime.name());
        let works = answer.is_ok();
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
        if works
            && has_cards
            && let Some(hint) = lacks_cards(runtime).await
        {
            findings.warning(&what, "its containers see no GPU", hint);
        }
    }
    findings
}

/// What to do where a runtime cannot give a card to a container; `None`: it can, or needs nothing.
async fn lacks_cards(runtime: Runtime) -> Option<&'static str> {
    let (can, hint) = match runtime {
        Runtime::Podman => (
            DEVICES.iter().any(|folder| describes_cards(folder)),
            "as root: nvidia-ctk cdi generate --device-name-strategy=uuid \
             --output=/etc/cdi/nvidia.yaml",
        ),
        Runtime::Docker => {
            let words = ["info", "--format", "{{json .Runtimes}}"];
            let said = programs::ask_all("docker", &words).await;
            (
                said.is_none_or(|said| said.contains("nvidia")),
                "install the NVIDIA Container Toolkit, then as root: nvidia-ctk runtime configure",
            )
        }
        Runtime::Apptainer | Runtime::Singularity | Runtime::Charliecloud => return None,
    };
    (!can).then_some(hint)
}

/// Whether a folder has a description of NVIDIA's cards.
fn describes_cards(folder: &str) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts.any(|text| text.contains("nvidia.com/gpu"))
}
