//! Texts with names in braces, such as `#PBS -N {name}`, and what the names stand for.

/// A text of which each `{name}` is replaced by a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(&'static str),
}

/// A name in braces that stands for nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchName(pub String);

impl Template {
    /// Reads a text. Braces around anything but small letters, digits and `_`, and
    /// braces behind a `$`, are text.
    ///
    /// # Errors
    /// The first name that is none of `known`.
    pub fn read(text: &str, known: &[&'static str]) -> Result<Self, NoSuchName> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut plain = String::new();
        while let Some((before, behind)) = rest.split_once('{') {
            plain.push_str(before);
            let is_of_shell = before.ends_with('$');
            let name = behind.split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, behind_name)) = name.filter(|_| !is_of_shell) else {
                plain.push('{');
                rest = behind;
                continue;
            };
            let known = known.iter().find(|known| **known == name);
            let name = known.ok_or_else(|| NoSuchName(name.to_owned()))?;
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Name(name));
            rest = behind_name;
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Self(parts))
    }

    /// Whether the text contains this name.
    pub fn has(&self, name: &str) -> bool {
        let mut parts = self.0.iter();
        parts.any(|part| matches!(part, Part::Name(one) if *one == name))
    }

    /// The text with its values; `None` when a name has none.
    pub fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Option<String> {
        let each = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Name(name) => value(name),
        });
        each.collect()
    }
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_the_shells_own_braces_stay() {
        let read = |text| Template::read(text, &["name", "cpus"]);
        let text = "#PBS -N {name}:{cpus} ${HOME} {} {A b} }";
        let template = read(text).unwrap();
        assert!(template.has("cpus") && !template.has("HOME"));
        let all = template.fill(|name| Some(name.to_uppercase()));
        assert_eq!(all.as_deref(), Some("#PBS -N NAME:CPUS ${HOME} {} {A b} }"));
        assert_eq!(
            template.fill(|name| (name == "name").then(String::new)),
            None
        );
        assert_eq!(read("{walltime}"), Err(NoSuchName("walltime".to_owned())));
    }
}
