//! The process that turns a picture in SVG into PNG: of `neroman-office`, with limits of its
//! memory and its time, so that neither a library that draws nor its fonts stay in a
//! daemon, and a picture that asks for too much ends nothing else.
//!
//! The only font is the one of this crate: pictures are the same on every machine.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use nero_plot::child::PICTURE_BYTES_MAX;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

const FONT: &[u8] = include_bytes!("../font/DejaVuSans.ttf");
/// The longest side of a picture.
const PIXELS_MAX: f32 = 16_384.0;

/// Reads SVG, and prints the PNG of the size times the factor that the command line has
/// behind its verb.
pub fn answer(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let factor = arguments
        .next()
        .and_then(|word| word.to_str()?.parse().ok());
    let Some(factor) = factor else {
        return ExitCode::from(2);
    };
    match of_input(factor) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Turns SVG into PNG.
///
/// # Errors
/// What is no picture, or too large.
pub fn png(svg: &str, factor: f32) -> Result<Vec<u8>, String> {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "DejaVu Sans".into(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size();
    let (width, height) = (size.width() * factor, size.height() * factor);
    if !(width <= PIXELS_MAX && height <= PIXELS_MAX) {
        return Err(format!("{width:.0} × {height:.0} pixels are too many"));
    }
    let pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32);
    let mut pixels = pixels.ok_or("the picture has no size")?;
    let scaled = Transform::from_scale(factor, factor);
    resvg::render(&tree, scaled, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}

fn of_input(factor: f32) -> Result<(), String> {
    let mut svg = String::new();
    std::io::stdin()
        .lock()
        .take(PICTURE_BYTES_MAX)
        .read_to_string(&mut svg)
        .map_err(|error| format!("the picture cannot be read: {error}"))?;
    let png = png(&svg, factor)?;
    std::io::stdout()
        .lock()
        .write_all(&png)
        .map_err(|error| format!("the picture cannot be written: {error}"))
}
