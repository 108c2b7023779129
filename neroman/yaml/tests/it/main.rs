//! Texts, the trees that they make, and what is wrong with them.

mod mistakes;
mod trees;

use std::rc::Rc;

use nero_yaml::{Limits, Node, Wrong};

const LIMITS: Limits = Limits {
    depth: 8,
    key_chars: 64,
    values: 100,
    repeated: 50,
};

/// The tree, and what went wrong without ending the reading.
fn read(text: &str) -> Result<(Option<Rc<Node>>, Vec<Wrong>), Wrong> {
    let mut wrongs = Vec::new();
    let root = nero_yaml::parse(text, &LIMITS, &mut |wrong| wrongs.push(wrong))?;
    Ok((root, wrongs))
}
