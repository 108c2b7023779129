//! A node's root as its user wrote it, put into lines of `sh`: `~` and `$NAME`
//! are expanded on the node, everything else is taken literally.

use nero_ssh::quoted;

/// Root of a node without a configured one.
pub(crate) const DEFAULT: &str = "~/.neronet";

/// Reason why a text cannot name a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// Neither absolute nor below something that is expanded.
    #[error("it must begin with /, ~ or $NAME")]
    Relative,
    /// Another user's home.
    #[error("the home of another user cannot be named with ~")]
    OtherHome,
    /// A dollar sign without a name.
    #[error("`$` needs the name of a variable")]
    Name,
    /// Control characters.
    #[error("it holds control characters")]
    Control,
    /// `..` somewhere.
    #[error("it holds `..`")]
    Up,
}

/// The lines of `sh` that set `root`. They use the functions of
/// [`super::probe`]'s preamble.
///
/// # Errors
/// When the text cannot name a folder.
pub(crate) fn script(text: &str) -> Result<String, RootError> {
    let text = match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/",
        text => text,
    };
    if text.chars().any(char::is_control) {
        return Err(RootError::Control);
    }
    if text.split('/').any(|part| part == "..") {
        return Err(RootError::Up);
    }
    let (mut lines, mut rest) = (String::from("root=\n"), text);
    if let Some(below) = text.strip_prefix('~') {
        if !below.is_empty() && !below.starts_with('/') {
            return Err(RootError::OtherHome);
        }
        lines.push_str("expand HOME\n");
        rest = below;
    } else if !text.starts_with(['/', '$']) {
        return Err(RootError::Relative);
    }
    while !rest.is_empty() {
        let literal = rest.find('$').unwrap_or(rest.len());
        if literal > 0 {
            lines.push_str(&format!("root=${{root}}{}\n", quoted(&rest[..literal])));
        }
        rest = &rest[literal..];
        if let Some(after) = rest.strip_prefix('$') {
            let (name, after) = variable(after).ok_or(RootError::Name)?;
            lines.push_str(&format!("expand {name}\n"));
            rest = after;
        }
    }
    lines.push_str("whole\n");
    Ok(lines)
}

/// The name behind a dollar sign, in braces or not, and the text behind it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let in_braces = text.strip_prefix('{').and_then(|text| text.split_once('}'));
    let (name, rest) = match in_braces {
        Some(split) => split,
        None => {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            text.split_at(text.find(|c| !part(c)).unwrap_or(text.len()))
        }
    };
    let named = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    named.then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_on_the_node_and_other_text_is_literal() {
        let lines = |text| script(text).unwrap();
        assert_eq!(
            lines("~/.neronet"),
            "root=\nexpand HOME\nroot=${root}/.neronet\nwhole\n"
        );
        assert_eq!(
            lines("/data/a b/"),
            "root=\nroot=${root}'/data/a b'\nwhole\n"
        );
        assert_eq!(
            lines("$WORK/it's/${USER}x"),
            "root=\nexpand WORK\nroot=${root}'/it'\\''s/'\nexpand USER\nroot=${root}x\nwhole\n"
        );
    }

    #[test]
    fn a_text_that_cannot_name_a_folder_is_refused() {
        for (text, error) in [
            ("", RootError::Relative),
            ("work/x", RootError::Relative),
            ("~other/x", RootError::OtherHome),
            ("/a/../b", RootError::Up),
            ("/a\nb", RootError::Control),
            ("$/x", RootError::Name),
            ("${A-b}/x", RootError::Name),
            ("$(id)/x", RootError::Name),
            ("/a$1", RootError::Name),
        ] {
            assert_eq!(script(text), Err(error), "{text}");
        }
    }
}
