//! `Clean`: frees space on nodes.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// In words, that a run's folder is gone.
pub(super) fn cleaned(at_ms: i64) -> String {
    let day = Timestamp::from_millisecond(at_ms).map_or_else(
        |_| at_ms.to_string(),
        |at| {
            at.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        },
    );
    format!("its folder on the node was cleaned on {day}; what came home is kept")
}
