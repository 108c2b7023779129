//! Identities. Random ones are 128 bits from the kernel and print as 26
//! characters of `a-z2-7`; numbers that people type are plain integers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Alphabet of printed random ids: safe in file names, job names and URLs.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Fills a buffer with random bytes from the kernel.
///
/// # Panics
/// When the kernel returns an error other than `EINTR`. Linux does so only for
/// a call with wrong arguments.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("getrandom refused a plain request: {error}"),
        }
    }
    bytes
}

/// Prints bytes in the id alphabet, five bits a character.
pub fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[((held >> bits) & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(ALPHABET[((held << (5 - bits)) & 31) as usize]));
    }
    text
}

/// Prints bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes any text");
        text
    })
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name([u8; 16]);

        impl $name {
            /// A new one, unlike any other.
            pub fn random() -> Self {
                Self(random())
            }

            /// The 16 bytes as stored and sent.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Parses what came over a wire; none unless it has 16 bytes.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// The bytes to store or send.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// The bytes to store or send, owned.
            pub fn to_vec(self) -> Vec<u8> {
                self.0.to_vec()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&base32(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

random_id! {
    /// One decision to have an experiment executed; no other run ever has it.
    RunToken
}
random_id! {
    /// One neroman with its database.
    DeploymentId
}
random_id! {
    /// One mutating call; a repeat with the same id gets the first answer.
    RequestId
}

random_id! {
    /// The ledger of one neromum; another root has another one.
    LedgerId
}

random_id! {
    /// One submission to a scheduler: a job of it, or an array.
    SubmissionId
}

impl DeploymentId {
    /// Name of this deployment's folder on a node: 8 characters of its id.
    pub fn short(&self) -> String {
        let mut text = base32(&self.0);
        text.truncate(8);
        text
    }
}

/// A numbered experiment: 1, 2, 3 …, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExperimentId(pub u64);

impl fmt::Display for ExperimentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run as people write it: `144.2` is the second run of experiment 144.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId {
    /// The experiment.
    pub experiment: ExperimentId,
    /// 1, 2 … within the experiment.
    pub number: u32,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.experiment, self.number)
    }
}

/// The text is not `144.2`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run: a run is written like 144.2")]
pub struct RunIdError(String);

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        text.split_once('.')
            .filter(|(experiment, number)| plain(experiment) && plain(number))
            .and_then(|(experiment, number)| {
                Some(Self {
                    experiment: ExperimentId(experiment.parse().ok()?),
                    number: number.parse().ok()?,
                })
            })
            .ok_or_else(|| RunIdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_read_back_as_they_print() {
        let run = RunId {
            experiment: ExperimentId(144),
            number: 2,
        };
        assert_eq!(run.to_string().parse(), Ok(run));
        for wrong in ["144", "144.", ".2", "a.1", "1.2.3", "-1.2", "1.99999999999"] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn random_ids_print_in_the_safe_alphabet_and_differ() {
        let (one, other) = (RunToken::random(), RunToken::random());
        assert_ne!(one, other);
        assert_eq!(one.to_string().len(), 26);
        assert!(one.to_string().bytes().all(|b| ALPHABET.contains(&b)));
        assert_eq!(RunToken::from_slice(one.as_bytes()), Some(one));
        assert_eq!(RunToken::from_slice(&[1, 2]), None);
    }
}
