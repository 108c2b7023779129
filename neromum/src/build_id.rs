//! What this build is called: version and content.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The first characters of a program's hash.
///
/// # Errors
/// When it cannot be read.
pub fn content(program: &Path) -> io::Result<String> {
    let mut file = File::open(program)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(nero_model::ids::base32(&hasher.finalize().as_bytes()[..5])),
            length => hasher.update(&buffer[..length]),
        };
    }
}

/// "0.1.0+abcdefgh".
pub fn build(program: &Path) -> String {
    match content(program) {
        Ok(content) => format!("{}+{content}", nero_model::VERSION),
        Err(_) => nero_model::VERSION.to_owned(),
    }
}
