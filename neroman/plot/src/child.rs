//! The process that turns a picture into PNG, our program again: what it and its caller agree on,
//! and the caller's side. The process limits its memory and its time (`nero_raster`); its answer
//! and the wait for it are bounded here.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// The word of our program's command line that begins such a process; no verb for people.
/// The factor of its size follows; SVG is its input, PNG its output.
pub const VERB: &str = "raster-picture";
/// The address space of the process.
pub const ADDRESS_SPACE_MAX: u64 = 768 << 20;
/// Its time on a processor.
pub const CPU_SECONDS_MAX: u64 = 20;
/// The longest input and the longest output.
pub const PICTURE_BYTES_MAX: u64 = 64 << 20;

/// The longest reason why there is no picture.
const WHY_BYTES_MAX: u64 = 4096;
/// The longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first bytes of every PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Has SVG turned into PNG, so many pixels for each of its units. The process ends when the
/// future is dropped.
///
/// # Errors
/// Why there is no picture, in words for people.
pub async fn png(svg: &str, factor: f32) -> Result<Vec<u8>, String> {
    match tokio::time::timeout(PATIENCE, ask(svg, factor)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it took longer than {} s", PATIENCE.as_secs())),
    }
}

async fn ask(svg: &str, factor: f32) -> std::io::Result<Result<Vec<u8>, String>> {
    let mut child = Command::new("/proc/self/exe")
        .args([VERB, &factor.to_string()])
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
        Some(0) if png.starts_with(PNG) => Ok(png),
        Some(0) => Err("the process that draws printed no PNG".to_owned()),
        Some(_) if !why.trim().is_empty() => Err(why.trim().to_owned()),
        Some(_) | None => Err(format!(
            "it needs more than {} MiB or {CPU_SECONDS_MAX} s of processor time",
            ADDRESS_SPACE_MAX >> 20
        )),
    })
}
