//! The reader beside the original, which answers the same questions.

mod agreement;
mod flows;
mod generate;
mod odd;
mod oracle;
mod patterns;
mod probes;
mod shells;
