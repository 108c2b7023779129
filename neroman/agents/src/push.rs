//! Sending programs as one compressed stream. neromum, the first of them,
//! unpacks the stream there, checks it and puts the programs into their place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use flate2::Compression;
use flate2::write::GzEncoder;
use nero_model::builds;
use nero_model::ids::{hex, random};
use nero_ssh::{Host, quoted};
use tokio::io::{AsyncRead, ReadBuf};

use crate::facts::Facts;
use crate::fault::{NodeFault, is_full};
use crate::install::refused;
use crate::supply::Supply;
use crate::{AgentError, Progress};

const PUSH: &str = include_str!("push.sh");
/// Larger packs are compressed quickly instead of well: they contain debugging
/// information.
const WELL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Room to leave beside the pack, for ledger and logs of a first run.
const SPARE_BYTES: u64 = 2 * 1024 * 1024;
/// Size of one part of the stream.
const PART_BYTES: usize = 64 * 1024;

/// Room that a push needs for a moment: the pack, and the programs unpacked
/// from it.
pub(crate) fn needed_bytes(supply: &Supply) -> u64 {
    2 * supply.bytes + SPARE_BYTES
}

/// Sends the programs. Returns how many bytes travelled.
///
/// # Errors
/// When there is no room, the stream breaks, or it does not arrive whole. Then
/// no folder has the build's name, and the next push begins anew.
pub(crate) async fn push(
    host: &Host,
    supply: &Supply,
    facts: &Facts,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<u64, AgentError> {
    room(supply, facts)?;
    let pack = pack_of(supply, facts.has_gzip).await?;
    let total_bytes = pack.stream.len() as u64;
    let script = script(supply, facts, pack.bytes);
    let body = ProgressStream {
        pack,
        given: 0,
        progress,
    };
    let said = host.feed(&script, body).await.map_err(AgentError::Ssh)?;
    match said.status {
        0 => Ok(total_bytes),
        status => Err(why(status, &said.err, supply, facts)),
    }
}

fn room(supply: &Supply, facts: &Facts) -> Result<(), NodeFault> {
    let needed_bytes = needed_bytes(supply);
    match facts.free_bytes {
        Some(free) if free < needed_bytes => Err(NodeFault::NoSpace {
            root: facts.root.clone(),
            why: format!("{:.1} MB are free", free as f64 / 1e6),
            needed_bytes,
        }),
        _ => Ok(()),
    }
}

fn script(supply: &Supply, facts: &Facts, bytes: u64) -> String {
    let bin = quoted(&format!("{}/bin", facts.root));
    let unpack = if facts.has_gzip { "'gzip -dc'" } else { "cat" };
    let (token, build) = (hex(&random::<8>()), &supply.build);
    format!(
        "LC_ALL=C; export LC_ALL\nbin={bin} token={token} build={build} bytes={bytes} unpack={unpack}\n{PUSH}"
    )
}

/// Translates a failure of the far side.
fn why(status: i32, errors: &[u8], supply: &Supply, facts: &Facts) -> AgentError {
    let said = String::from_utf8_lossy(errors).trim().to_owned();
    let root = facts.root.clone();
    if is_full(&said) {
        return AgentError::Node(NodeFault::NoSpace {
            root,
            why: said,
            needed_bytes: needed_bytes(supply),
        });
    }
    match status {
        // The shell's message when it may not, or cannot, execute a program.
        126 | 97 if said.contains("Permission denied") => {
            AgentError::Node(NodeFault::NoExec { root, why: said })
        }
        90..=93 => AgentError::Node(NodeFault::Write { root, why: said }),
        _ => AgentError::Push { status, said },
    }
}

/// The stream to send.
struct Pack {
    stream: Vec<u8>,
    /// Length of the uncompressed pack, as it must arrive.
    bytes: u64,
}

/// The packs that are being sent, by build, and whether they are squeezed. Hundreds of nodes that
/// get a new build at once share one.
static PACKS: tokio::sync::Mutex<BTreeMap<(String, bool), Weak<Pack>>> =
    tokio::sync::Mutex::const_new(BTreeMap::new());

async fn pack_of(supply: &Supply, squeeze: bool) -> Result<Arc<Pack>, AgentError> {
    let mut packs = PACKS.lock().await;
    packs.retain(|_, pack| pack.strong_count() > 0);
    let key = (supply.build.clone(), squeeze);
    if let Some(pack) = packs.get(&key).and_then(Weak::upgrade) {
        return Ok(pack);
    }
    let (programs, well) = (supply.programs.clone(), supply.bytes <= WELL_BYTES_MAX);
    let packed = tokio::task::spawn_blocking(move || pack(&programs, squeeze, well));
    let pack = packed
        .await
        .map_err(|error| refused("pack", Path::new("the agents"))(io::Error::other(error)))??;
    let pack = Arc::new(pack);
    packs.insert(key, Arc::downgrade(&pack));
    Ok(pack)
}

/// Packs programs. Blocks.
fn pack(programs: &[std::path::PathBuf; 3], squeeze: bool, well: bool) -> Result<Pack, AgentError> {
    let level = match (squeeze, well) {
        (false, _) => return plain(programs),
        (true, true) => Compression::default(),
        (true, false) => Compression::fast(),
    };
    let mut packed = GzEncoder::new(Vec::new(), level);
    let bytes = write(programs, &mut packed)?;
    let stream = packed
        .finish()
        .map_err(refused("pack", Path::new("the agents")))?;
    Ok(Pack { stream, bytes })
}

fn plain(programs: &[std::path::PathBuf; 3]) -> Result<Pack, AgentError> {
    let mut stream = Vec::new();
    let bytes = write(programs, &mut stream)?;
    Ok(Pack { stream, bytes })
}

fn write(programs: &[std::path::PathBuf; 3], to: &mut impl io::Write) -> Result<u64, AgentError> {
    let mut sizes = [0; 3];
    for (path, size) in programs.iter().zip(&mut sizes) {
        let copied = File::open(path).and_then(|mut file| io::copy(&mut file, to));
        *size = copied.map_err(refused("read", path))?;
    }
    let end = builds::pack_end(sizes);
    to.write_all(&end)
        .map_err(refused("pack", Path::new("the agents")))?;
    Ok(sizes.iter().sum::<u64>() + end.len() as u64)
}

/// Reads the stream and reports progress.
struct ProgressStream<'a> {
    pack: Arc<Pack>,
    given: usize,
    progress: &'a (dyn Fn(Progress) + Send + Sync),
}

impl AsyncRead for ProgressStream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.pack.stream[self.given..];
        let length = rest.len().min(into.remaining()).min(PART_BYTES);
        into.put_slice(&rest[..length]);
        self.given += length;
        (self.progress)(Progress {
            what: "sending the agents".to_owned(),
            done_bytes: self.given as u64,
            total_bytes: self.pack.stream.len() as u64,
        });
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::*;

    /// A far side: its `bin`, and programs whose `neromum` is a script that
    /// records its arguments.
    struct FarSide {
        temp: tempfile::TempDir,
        supply: Supply,
    }

    impl FarSide {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let programs = builds::inside(&temp.path().join("programs"));
            std::fs::create_dir_all(programs[0].parent().unwrap()).unwrap();
            std::fs::create_dir_all(temp.path().join("bin")).unwrap();
            // The script ends with `exit`, so `sh` does not read the rest of
            // the pack.
            std::fs::write(&programs[0], "#!/bin/sh\necho \"$@\" >>placed\nexit 0\n").unwrap();
            std::fs::write(&programs[1], "b").unwrap();
            std::fs::write(&programs[2], "c").unwrap();
            let supply = Supply {
                build: builds::name_of(&programs).unwrap(),
                programs,
                arch: "x86_64",
                glibc: None,
                bytes: 0,
                mum: String::new(),
            };
            Self { temp, supply }
        }

        fn bin(&self) -> PathBuf {
            self.temp.path().join("bin")
        }

        fn facts(&self, gzip: bool) -> Facts {
            let root = self.temp.path().display();
            let gzip = if gzip { "gzip=yes\n" } else { "" };
            let printed = format!("os=Linux\nroot={root}\n{gzip}end=yes\n");
            crate::facts::read(printed.as_bytes(), b"", 0).unwrap()
        }

        /// Runs the far side's part on the first `length` bytes of the stream.
        fn receive(&self, facts: &Facts, pack: &Pack, length: usize) -> (i32, Vec<u8>) {
            let mut sh = Command::new("sh")
                .arg("-c")
                .arg(script(&self.supply, facts, pack.bytes))
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // A far side that has given up does not read on, so writing may
            // fail.
            let _ = io::Write::write_all(&mut sh.stdin.take().unwrap(), &pack.stream[..length]);
            let done = sh.wait_with_output().unwrap();
            (done.status.code().unwrap(), done.stderr)
        }

        fn left(&self) -> Vec<std::ffi::OsString> {
            let entries = std::fs::read_dir(self.bin()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        }
    }

    #[tokio::test]
    async fn nodes_that_get_one_build_at_once_share_its_pack() {
        let far = FarSide::new();
        let (first, second) = tokio::join!(pack_of(&far.supply, true), pack_of(&far.supply, true));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        let plain = pack_of(&far.supply, false).await.unwrap();
        assert_ne!(plain.stream, first.stream);
        drop((first, second));
        // The squeezed pack has no sender any more, so it is packed anew, and a program is missing.
        std::fs::remove_file(&far.supply.programs[0]).unwrap();
        assert!(pack_of(&far.supply, true).await.is_err());
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_leaves_nothing() {
        let far = FarSide::new();
        for gzip in [true, false] {
            let facts = far.facts(gzip);
            let pack = pack(&far.supply.programs, gzip, true).unwrap();
            for length in 0..pack.stream.len() {
                let (status, errors) = far.receive(&facts, &pack, length);
                assert!(matches!(status, 94 | 95), "{length}: {status}");
                let error = why(status, &errors, &far.supply, &facts);
                assert!(matches!(error, AgentError::Push { .. }), "{error}");
                assert!(far.left().is_empty(), "{length}: {:?}", far.left());
            }
            assert_eq!(far.receive(&facts, &pack, pack.stream.len()).0, 0);
            let placed = std::fs::read_to_string(far.bin().join("placed")).unwrap();
            let expected = format!("--bin . --build {}\n", far.supply.build);
            assert!(placed.starts_with("receive --pack .push-") && placed.ends_with(&expected));
            std::fs::remove_file(far.bin().join("placed")).unwrap();
            assert!(far.left().is_empty());
        }
    }

    #[test]
    fn the_status_of_the_far_side_is_told_in_words() {
        let far = FarSide::new();
        let facts = far.facts(true);
        let told = |status, said: &str| why(status, said.as_bytes(), &far.supply, &facts);
        for full in [
            "gzip: stdout: No space left on device",
            "sh: write error: Disk quota exceeded",
            "cannot take apart x: File too large (os error 27)",
        ] {
            let error = told(94, full);
            assert!(
                matches!(error, AgentError::Node(NodeFault::NoSpace { .. })),
                "{error}"
            );
        }
        let noexec = told(97, "sh: ./.push-1/pack: Permission denied");
        assert!(matches!(noexec, AgentError::Node(NodeFault::NoExec { .. })));
        let unwritable = told(91, "mkdir: cannot create directory: Read-only file system");
        assert!(matches!(
            unwritable,
            AgentError::Node(NodeFault::Write { .. })
        ));
        let other = told(95, "17 of 40 bytes came\x1b[2J");
        assert!(
            other.to_string().contains("17 of 40 bytes came\\u{1b}"),
            "{other}"
        );
    }
}
