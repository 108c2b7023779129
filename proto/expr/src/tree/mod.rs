//! The tree of an expression, the texts and numbers in it, and its canonical print.

pub(crate) mod ast;
pub(crate) mod cohort;
pub(crate) mod expr;
pub(crate) mod lex;
pub(crate) mod number;
pub(crate) mod print;
