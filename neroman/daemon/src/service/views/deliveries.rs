//! What a person is told of mail and other deliveries that wait or were refused.

use nero_life::notices::{DeliveryState, DeliveryWay, Post};

use super::view::Sight;

/// `status` tells of refused deliveries for so long.
const TELL_MS: i64 = 24 * 3600 * 1000;

/// The name of a delivery way.
pub(crate) fn delivery_way_name(way: DeliveryWay) -> &'static str {
    match way {
        DeliveryWay::Mail => "mail",
        DeliveryWay::Webhook => "webhook",
        DeliveryWay::Command => "command",
    }
}

/// What a person should know of deliveries; nothing where all goes well.
pub(crate) fn notes(post: &Post, sight: &Sight<'_>, now_ms: i64) -> Vec<String> {
    let mut notes = Vec::new();
    for way in [
        DeliveryWay::Mail,
        DeliveryWay::Webhook,
        DeliveryWay::Command,
    ] {
        let of_way = || post.deliveries.values().filter(move |one| one.way == way);
        let waiting = of_way().filter(|one| !one.state.is_over());
        let (name, count) = (delivery_way_name(way), waiting.count());
        let wait = match count {
            1 => "waits",
            _ => "wait",
        };
        let failing = of_way().rev().find_map(|one| match &one.state {
            DeliveryState::Waiting { next_ms, why } if one.tries > 0 => Some((*next_ms, why)),
            _ => None,
        });
        if let Some(DeliveryState::Blocked { since_ms, why }) =
            post.blocked(way).map(|one| &one.state)
        {
            let since = sight.clock(*since_ms);
            notes.push(format!(
                "{name}: {count} {wait} since {since} for you: {why}; mend it, then `neroman mail retry`"
            ));
        } else if let Some((next_ms, why)) = failing {
            let next = sight.clock(next_ms);
            notes.push(format!("{name}: {count} {wait}, next try {next}: {why}"));
        }
        let since_ms = now_ms - TELL_MS;
        let refused = of_way().rev().find_map(|one| match &one.state {
            DeliveryState::Refused { at_ms, why } | DeliveryState::GivenUp { at_ms, why } => {
                (*at_ms > since_ms).then_some((one, why))
            }
            _ => None,
        });
        if let Some((one, why)) = refused {
            let to = match one.to.as_str() {
                "" => String::new(),
                to => format!(" to {to}"),
            };
            notes.push(format!(
                "{name}{to} was not taken: {why}; `neroman mail list` has all"
            ));
        }
    }
    notes
}
