//! Versions of what programs for NVIDIA's cards are built with: driver, CUDA, cuDNN.

use std::path::Path;

use nero_node::cards::CardsKnown;
use nero_node::staging::environment::Base;

use super::{Findings, programs};

/// Stands for what is not there.
const ABSENT: &str = "x";
/// Where CUDA lies when its programs are not on the `PATH`.
const NVCC: &str = "/usr/local/cuda/bin/nvcc";
/// Headers that tell the version of cuDNN, by the way it was installed.
const CUDNN: [&str; 5] = [
    "/usr/include/cudnn_version.h",
    "/usr/include/x86_64-linux-gnu/cudnn_version.h",
    "/usr/include/aarch64-linux-gnu/cudnn_version.h",
    "/usr/local/cuda/include/cudnn_version.h",
    "/usr/local/cuda/include/cudnn.h",
];

/// One finding with all three.
pub async fn versions(base: &Base, cards: &CardsKnown) -> Findings {
    let nvcc = base.find("nvcc").unwrap_or_else(|| NVCC.into());
    let said = programs::ask_all(&nvcc.to_string_lossy(), &["--version"]).await;
    let cuda = said.as_deref().and_then(release);
    let mut headers = CUDNN.iter().map(Path::new);
    let cudnn = headers.find_map(|path| cudnn(&std::fs::read_to_string(path).ok()?));
    let mut findings = Findings::default();
    findings.good(
        nero_model::names::TOOLKITS,
        words(driver(cards), cuda, cudnn),
    );
    findings
}

fn words(driver: Option<&str>, cuda: Option<&str>, cudnn: Option<String>) -> String {
    format!(
        "NVDRV:{},CUDA:{},cuDNN:{}",
        driver.unwrap_or(ABSENT),
        cuda.unwrap_or(ABSENT),
        cudnn.as_deref().unwrap_or(ABSENT)
    )
}

fn driver(cards: &CardsKnown) -> Option<&str> {
    match cards {
        CardsKnown::Cards(page) => page.driver.strip_prefix("NVIDIA "),
        CardsKnown::None(_) | CardsKnown::Looking | CardsKnown::Unknown { .. } => None,
    }
}

/// The version in what `nvcc --version` prints: "Cuda compilation tools, release 12.4, V12.4.131".
fn release(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(", release ")?;
    let version = rest.split([',', '\n']).next()?.trim();
    (!version.is_empty()).then_some(version)
}

/// The version in a header of cuDNN.
fn cudnn(text: &str) -> Option<String> {
    let number = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        lines.find_map(|mut words| {
            let is_named = words.next() == Some("#define") && words.next() == Some(name);
            words.next().filter(|_| is_named)?.parse::<u32>().ok()
        })
    };
    let parts = ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"].map(number);
    let [major, minor, patch] = parts;
    Some(format!("{}.{}.{}", major?, minor?, patch?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_toolkit_is_printed_as_an_x() {
        assert_eq!(words(None, None, None), "NVDRV:x,CUDA:x,cuDNN:x");
        let all = words(Some("570.00"), Some("12.4"), Some("9.1.0".to_owned()));
        assert_eq!(all, "NVDRV:570.00,CUDA:12.4,cuDNN:9.1.0");
    }

    #[test]
    fn versions_are_read_from_what_toolkits_tell() {
        let nvcc = "nvcc: NVIDIA (R) Cuda compiler driver\n\
                    Cuda compilation tools, release 12.4, V12.4.131\n";
        assert_eq!(release(nvcc), Some("12.4"));
        assert_eq!(release("no such file"), None);
        let header = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n\
                      #define CUDNN_VERSION (CUDNN_MAJOR * 10000)\n";
        assert_eq!(cudnn(header).as_deref(), Some("9.1.0"));
        assert_eq!(cudnn("#define CUDNN_MAJOR 9\n"), None);
    }
}
