//! What this build is called: version and content.

use std::path::Path;

pub use nero_model::builds::content;

/// "0.1.0+abcdefgh".
pub fn build(program: &Path) -> String {
    nero_model::builds::program(program).unwrap_or_else(|_| nero_model::VERSION.to_owned())
}
