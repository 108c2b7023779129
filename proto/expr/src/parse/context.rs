//! What the meaning of a text depends on.

use jiff::tz::TimeZone;

/// The context that the meaning of a text depends on.
#[derive(Clone, Debug)]
pub struct ParseContext {
    /// The moment for `today` and `yesterday`: Unix milliseconds.
    pub now_ms: i64,
    /// The zone of the person who typed the text; dates are read in it.
    pub zone: TimeZone,
    /// Whether the expression is a standing one. Then `today`, `yesterday` and
    /// `changed` are refused, and a name not seen yet is unknown instead of a mistake.
    pub standing: bool,
    /// Names of probes, which a requirement may use beside the facts of nodes.
    pub probes: Vec<String>,
}

impl ParseContext {
    /// For an expression that is used at once.
    pub fn new(now_ms: i64, zone: TimeZone) -> ParseContext {
        ParseContext {
            now_ms,
            zone,
            standing: false,
            probes: Vec::new(),
        }
    }

    /// The same, with dates read as UTC; right for canonical texts, whose dates
    /// name their zone.
    pub fn utc(now_ms: i64) -> ParseContext {
        ParseContext::new(now_ms, TimeZone::UTC)
    }

    /// With these names of probes, for a requirement.
    #[must_use]
    pub fn with_probes<'n>(mut self, names: impl Iterator<Item = &'n str>) -> ParseContext {
        self.probes = names.map(str::to_owned).collect();
        self
    }

    /// For a standing rule.
    #[must_use]
    pub fn standing(mut self) -> ParseContext {
        self.standing = true;
        self
    }
}
