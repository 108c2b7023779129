//! The C library of a machine, as the machine names it.

use std::fmt;

use nero_model::safe::Safe;

use crate::elf::Glibc;

/// The C library of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libc {
    /// GNU's.
    Glibc(Glibc),
    /// musl.
    Musl,
    /// Another text, which we do not know.
    Unknown(String),
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glibc(version) => write!(f, "glibc {version}"),
            Self::Musl => f.write_str("musl"),
            Self::Unknown(said) if said.is_empty() => f.write_str("unknown"),
            Self::Unknown(said) => write!(f, "{}", Safe::line(said)),
        }
    }
}

impl Libc {
    /// Reads the output of `getconf GNU_LIBC_VERSION` or the first line of `ldd
    /// --version`.
    pub(crate) fn parse(said: &str) -> Self {
        let lower = said.to_ascii_lowercase();
        if lower.contains("musl") {
            return Self::Musl;
        }
        // "glibc 2.36", "ldd (Debian GLIBC 2.36-9+deb12u4) 2.36", "ldd (GNU libc) 2.17"
        let last = said.split_whitespace().next_back().and_then(Glibc::parse);
        match last {
            Some(version) if lower.contains("glibc") || lower.contains("gnu") => {
                Self::Glibc(version)
            }
            _ => Self::Unknown(said.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_apart() {
        for (said, libc) in [
            ("glibc 2.36", Libc::Glibc(Glibc(2, 36))),
            ("ldd (GNU libc) 2.17", Libc::Glibc(Glibc(2, 17))),
            (
                "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35",
                Libc::Glibc(Glibc(2, 35)),
            ),
            ("musl libc (x86_64)", Libc::Musl),
            ("uClibc", Libc::Unknown("uClibc".to_owned())),
            ("", Libc::Unknown(String::new())),
        ] {
            assert_eq!(Libc::parse(said), libc, "{said}");
        }
    }
}
