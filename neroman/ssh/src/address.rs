//! Checks addresses before `ssh` gets them.

/// Longest address; no host name, user and options of a URI need more.
const BYTES_MAX: usize = 1024;

/// Returns what is wrong with an address. Everything else is for `ssh` to
/// judge: aliases, `user@host`, `ssh://` URIs.
pub(crate) fn fault(address: &str) -> Option<&'static str> {
    if address.is_empty() {
        Some("it is empty")
    } else if address.starts_with('-') {
        // `--` keeps ssh from reading it as an option, but not a ProxyCommand
        // of the user's that holds `%h`.
        Some("it begins with `-`")
    } else if address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        Some("it holds a space or a control character")
    } else if address.len() > BYTES_MAX {
        Some("it is longer than 1024 bytes")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_like_an_option_or_with_a_line_break_is_refused() {
        for bad in ["", "-oProxyCommand=x", "a\nb", "a b", "a\0", "\u{7f}x", "-"] {
            assert!(fault(bad).is_some(), "{bad:?}");
        }
        for good in [
            "h",
            "me@h",
            "me@[::1]",
            "ssh://me@h:2222",
            "a-b.c_d",
            "ünï.example",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
    }
}
