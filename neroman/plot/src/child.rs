//! The process of `neroman-office` that turns a picture into PNG: what it and its caller agree on,
//! and the caller's side.

use nero_child::{ChildError, Office};

/// The word that has `neroman-office` draw (`nero_raster`). The factor of its size follows; SVG is
/// its input, PNG its output.
pub const VERB: &str = "raster-picture";
/// The longest input.
pub const PICTURE_BYTES_MAX: u64 = 64 << 20;

/// Has SVG turned into PNG, so many pixels for each of its units. The process ends when the
/// future is dropped.
///
/// # Errors
/// Why there is no picture.
pub async fn png(svg: &str, factor: f32) -> Result<Vec<u8>, ChildError> {
    let office = Office::own()?;
    let mut call = office.call(VERB);
    call.arg(factor.to_string());
    office.ask(call, [Ok(svg.as_bytes().to_vec())]).await
}
