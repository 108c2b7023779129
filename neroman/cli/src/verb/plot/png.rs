//! Has a picture turned into PNG by a process of its own, our program again, which limits its
//! memory and its time (`nero_raster`); its answer and the wait for it are bounded here.

use std::process::Stdio;
use std::time::Duration;

use nero_plot::child::{ADDRESS_SPACE_MAX, CPU_SECONDS_MAX, PICTURE_BYTES_MAX, VERB};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::fault::{Fault, code};

/// Pixels of a picture for each of its units: sharp on a screen with small pixels.
const FACTOR: &str = "2";
/// The longest reason why there is no picture.
const WHY_BYTES_MAX: u64 = 4096;
/// The longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Turns SVG into PNG.
///
/// # Errors
/// When the process ends by a limit.
pub(super) async fn of_svg(svg: &str) -> Result<Vec<u8>, Fault> {
    match tokio::time::timeout(PATIENCE, ask(svg)).await {
        Ok(Ok(png)) => png.map_err(|why| match why.is_empty() {
            true => failed(&format!(
                "it needs more than {} MiB or {CPU_SECONDS_MAX} s of processor time",
                ADDRESS_SPACE_MAX >> 20
            )),
            false => failed(&why),
        }),
        Ok(Err(error)) => Err(failed(&error.to_string())),
        Err(_) => Err(failed(&format!(
            "it took longer than {} s",
            PATIENCE.as_secs()
        ))),
    }
}

fn failed(why: &str) -> Fault {
    Fault::new(code::FAILED, "the picture could not be drawn as PNG")
        .cause(why)
        .hint("an .svg is written without that")
}

/// The picture, or what the process wrote about it: nothing if a limit ended it.
async fn ask(svg: &str) -> std::io::Result<Result<Vec<u8>, String>> {
    let mut child = Command::new("/proc/self/exe")
        .args([VERB, FACTOR])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The drawing process reads the whole picture before it prints. If it has ended, the
        // write fails, and its exit status below tells why.
        let _ = stdin.write_all(svg.as_bytes()).await;
    }
    let mut png = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(PICTURE_BYTES_MAX).read_to_end(&mut png).await?;
    }
    let mut why = String::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(WHY_BYTES_MAX).read_to_string(&mut why).await?;
    }
    let ended = child.wait().await?;
    Ok(match ended.code() {
        Some(0) => Ok(png),
        Some(_) => Err(why.trim().to_owned()),
        None => Err(String::new()),
    })
}
