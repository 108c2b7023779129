//! Groups of fields: each module reads those that belong together.

pub(crate) mod again;
pub(crate) mod conditions;
pub(crate) mod expression;
pub(crate) mod outputs;
pub(crate) mod placing;
pub(crate) mod precedence;
pub(crate) mod processing;
pub(crate) mod rules;
pub(crate) mod scheduling;
pub(crate) mod settings;
