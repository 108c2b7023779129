//! Responses: commands that run once in the work folder of a start that has ended. Each is
//! supervised by a `nerokid act` of its own, whose folder lies in the run's: it outlives this
//! neromum, and the next one that is asked waits for the same command.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;

use nero_model::paths::{act, make_private, run as names};
use nero_wire::v1::RespondReply;
use tokio::process::Command;

/// Has the command run unless it was begun before, and waits for its end.
///
/// # Errors
/// When the folder of the run cannot be used; nothing was run then, or it is at work.
pub(super) async fn respond(
    nerokid: &Path,
    run_dir: &Path,
    incarnation: u32,
    command: &str,
) -> io::Result<RespondReply> {
    let folder = run_dir.join(names::ACTS);
    let folder = folder.join(format!("response.{incarnation}"));
    if let Some(reply) = end(&folder) {
        return Ok(reply);
    }
    make_private(&folder)?;
    let kept = match std::fs::read(names::reader_environment(run_dir, incarnation)) {
        Ok(kept) => kept,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(RespondReply {
                how: "not run: the environment of its job was not kept".to_owned(),
                output: String::new(),
            });
        }
        Err(error) => return Err(error),
    };
    // One that was killed is followed by one that finds out what became of the command.
    for _ in 0..2 {
        let env = kept.split(|byte| *byte == 0).filter_map(|var| {
            let at = var.iter().position(|byte| *byte == b'=')?;
            let os = OsStr::from_bytes;
            Some((os(&var[..at]), os(&var[at + 1..])))
        });
        let mut supervisor = Command::new(nerokid);
        supervisor
            .arg("act")
            .arg(&folder)
            .arg(act::LIMIT_S.to_string())
            .arg(names::work_folder(run_dir, incarnation))
            .arg(command)
            .env_clear()
            .envs(env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // That is a fault of the node, and passes.
        let mut supervisor = supervisor.spawn().map_err(io::Error::other)?;
        supervisor.wait().await?;
        if let Some(reply) = end(&folder) {
            return Ok(reply);
        }
    }
    Ok(RespondReply {
        how: "its end is not known".to_owned(),
        output: String::new(),
    })
}

/// How the command of this folder ended, if that is known.
fn end(folder: &Path) -> Option<RespondReply> {
    let end = std::fs::read(folder.join(act::END)).ok()?;
    let (how, output) = act::read_end(&end);
    Some(RespondReply { how, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_response_whose_end_is_known_is_not_run_again() {
        let run_dir = tempfile::tempdir().unwrap();
        let folder = run_dir.path().join("acts/response.2");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(act::END), "exit code 3\nno x\n").unwrap();
        let nowhere = Path::new("/no/such/program");
        let reply = respond(nowhere, run_dir.path(), 2, "true").await.unwrap();
        assert_eq!(
            (reply.how.as_str(), reply.output.as_str()),
            ("exit code 3", "no x\n")
        );
        let other = respond(nowhere, run_dir.path(), 1, "true").await.unwrap();
        assert!(other.how.starts_with("not run: "), "{other:?}");
    }
}
