//! The user's own options of a scheduler. Those that would break a submission are
//! refused with the field to use; the rest goes into the script, never into a
//! command line.

/// An option that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// One that Neronet sets itself.
    #[error("{option} is set by Neronet: {instead}")]
    Ours {
        /// The option, without its value.
        option: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// No option at all, or with characters that a script line cannot carry.
    #[error("{0:?} is no option: write it as --name=value, without spaces or quotes")]
    Odd(String),
}

/// The spellings of an option that is not for users, with blanks between them, and what to do
/// instead.
pub(crate) type RefusedOption = (&'static str, &'static str);

/// What to do in the place of options about the time of a start.
pub(crate) const WHEN: &str = "a run begins when `neroman start` starts it and there is room";
/// What to do in the place of options about jobs that come first.
pub(crate) const AFTER: &str =
    "the run waits for no job of the scheduler; `depends_on:` names experiments that come first";

/// Checks options of which each stands in a word of its own.
pub(crate) fn check(options: &[String], refused: &[RefusedOption]) -> Result<(), OptionError> {
    for option in options {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:;=+@%/*[]()&|~^!".contains(c);
        if !option.starts_with('-') || option.len() < 2 {
            return Err(OptionError::Odd(option.clone()));
        }
        let name = option.split('=').next().unwrap_or_default();
        let is = |known: &str| match known.strip_prefix("--") {
            // Both parsers take any beginning of a long name that is unambiguous.
            Some(_) => name.len() > 2 && known.starts_with(name),
            // A short option carries its value with it.
            None => !name.starts_with("--") && name.starts_with(known),
        };
        let found = refused.iter().find(|(names, _)| names.split(' ').any(is));
        if let Some((_, instead)) = found {
            return Err(OptionError::Ours {
                option: name.to_owned(),
                instead,
            });
        }
        if !option.chars().all(plain) {
            return Err(OptionError::Odd(option.clone()));
        }
    }
    Ok(())
}
