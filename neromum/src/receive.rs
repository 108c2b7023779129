//! The receiving end of a push: neromum arrives as the beginning of a pack with
//! all programs, unpacks it, checks it and puts the programs into their place.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nero_model::builds;

use crate::args::Receive;

/// Reason why programs were not put into their place, or cannot be named.
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

/// Unpacks the pack beside itself, checks that it is the expected build, and
/// gives the folder that build's name. A sound build of that name stays.
///
/// # Errors
/// When the pack is incomplete, or the disk refuses.
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
