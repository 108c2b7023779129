//! Aggregates over the peers of a run.

use serde::{Deserialize, Serialize};

/// An aggregate over the peers of a run, as its node has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersNumber {
    /// The aggregate as it stands in rules.
    pub text: String,
    /// `None`: no peer has a value.
    #[serde(with = "maybe_float", default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Number of peers that have one.
    pub peers: u64,
    pub at_ms: i64,
}

impl PeersNumber {
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.text == other.text && self.value == other.value && self.peers == other.peers
    }
}

/// As [`nero_format::float_text`], for a number that may be missing.
mod maybe_float {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize, Serialize)]
    struct StoredFloat(#[serde(with = "nero_format::float_text")] f64);

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(super) fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        value.map(StoredFloat).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<StoredFloat>::deserialize(from)?.map(|StoredFloat(value)| value))
    }
}
