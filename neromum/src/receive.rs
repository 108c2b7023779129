//! The receiving end of a push: neromum arrives as the beginning of a pack that
//! holds all programs, takes it apart, checks it and puts it into its place.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nero_model::builds;

use crate::args::Receive;

/// Why programs were not put into their place, or cannot be named.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}")]
pub struct ReceiveError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ReceiveError {
    let path = path.to_path_buf();
    move |source| ReceiveError { what, path, source }
}

/// Takes the pack apart beside itself, checks that it is the build it should
/// be, and gives that its name. What lies there already and is sound stays.
///
/// # Errors
/// When the pack is not whole, or the disk refuses.
pub fn receive(receive: &Receive) -> Result<(), ReceiveError> {
    let private = receive.pack.with_extension("apart");
    builds::unpack(&receive.pack, &private).map_err(at("take apart", &receive.pack))?;
    builds::place(&private, &receive.bin, &receive.build)
        .map_err(at("put programs into", &receive.bin))
}

/// Prints the name of the build in `folder`.
///
/// # Errors
/// When a program cannot be read.
pub fn verify(folder: &Path) -> Result<(), ReceiveError> {
    let name = builds::name_of(&builds::inside(folder))
        .map_err(|(path, source)| at("read", &path)(source))?;
    writeln!(io::stdout(), "{name}").map_err(at("print the name of", folder))
}
