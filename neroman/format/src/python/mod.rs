//! Values as Python has them: its literals, and what PyYAML makes of a plain scalar.

mod literal;
mod object;
mod scalar;

pub use literal::{Literal, literal};
pub use object::{Item, Object, float_text, list_text};
pub use scalar::{Plain, resolve};
