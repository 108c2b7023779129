//! Data that stays in its place on the node: its paths, with `~` and `$NAME` as
//! they are here, and the places in arguments and variables that they fill.

use std::io;
use std::path::Path;

use nero_model::data::{self, FillError};
use nero_wire::v1::RunSpec;

use super::environment::{Base, UnsetVariable, Var};

/// Reason why a run cannot have its data here.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A variable of a path is not set on this node.
    #[error("the data `{name}` lies below `${variable}`, which is not set on this node")]
    Variable {
        /// Name of the data.
        name: String,
        /// Name of the variable, without the dollar sign.
        variable: String,
    },
    /// The path is not absolute.
    #[error("`{path}` of the data `{name}` is no absolute path")]
    Relative {
        /// Name of the data.
        name: String,
        /// The expanded path.
        path: String,
    },
    /// The data does not exist.
    #[error("the data `{name}` is not at {path}")]
    Missing {
        /// Name of the data.
        name: String,
        /// The expanded path.
        path: String,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// A text has a place without data.
    #[error(transparent)]
    Place(FillError),
    /// A value of `env:` names a variable that is not set on this node.
    #[error(transparent)]
    Unset(#[from] UnsetVariable),
}

/// Paths of one run's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataPaths {
    /// Name and path.
    paths: Vec<(String, String)>,
}

impl DataPaths {
    /// Expands the paths in the spec with the variables of this process: those
    /// that the node's own start-up files gave it.
    ///
    /// # Errors
    /// A variable that is not set, a path that is not absolute.
    pub fn of(spec: &RunSpec) -> Result<Self, DataError> {
        if spec.data.is_empty() {
            return Ok(Self::default());
        }
        let base = Base::of_node();
        let of_node = |name: &str| {
            let value = base.value(name.as_bytes())?;
            String::from_utf8(value.to_vec()).ok()
        };
        Self::with(spec, |name| {
            std::env::var(name).ok().or_else(|| of_node(name))
        })
    }

    fn with(spec: &RunSpec, variable: impl Fn(&str) -> Option<String>) -> Result<Self, DataError> {
        let mut paths = Vec::with_capacity(spec.data.len());
        for lies in &spec.data {
            let path = expand(&lies.path, &variable).map_err(|variable| DataError::Variable {
                name: lies.name.clone(),
                variable,
            })?;
            if !path.starts_with('/') {
                let name = lies.name.clone();
                return Err(DataError::Relative { name, path });
            }
            paths.push((lies.name.clone(), path));
        }
        Ok(Self { paths })
    }

    /// Checks that all data exists. This asks the disk, which may be far away.
    ///
    /// # Errors
    /// The first path that does not exist.
    pub fn check(&self) -> Result<(), DataError> {
        for (name, path) in &self.paths {
            std::fs::metadata(Path::new(path)).map_err(|source| DataError::Missing {
                name: name.clone(),
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Names and absolute paths.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        let paths = self.paths.iter();
        paths.map(|(name, path)| (&**name, &**path))
    }

    /// Writes the absolute paths into the spec, so that a later start with other
    /// variables finds the same data. Paths that would be expanded once more stay
    /// as they were.
    pub fn settle(&self, spec: &mut RunSpec) {
        for (lies, (_, path)) in spec.data.iter_mut().zip(&self.paths) {
            if !path.contains('$') {
                lies.path.clone_from(path);
            }
        }
    }

    /// The arguments with every place filled.
    ///
    /// # Errors
    /// A place without data.
    pub fn argv(&self, argv: &[String]) -> Result<Vec<String>, DataError> {
        argv.iter().map(|text| self.fill(text)).collect()
    }

    /// The variables with every place filled. Paths are not expanded again.
    ///
    /// # Errors
    /// A place without data.
    pub fn vars(&self, vars: Vec<Var>) -> Result<Vec<Var>, DataError> {
        let filled = |(name, value): Var| match std::str::from_utf8(&value) {
            Ok(text) if data::has_mark(text) => Ok((name, self.fill(text)?.into_bytes())),
            _ => Ok((name, value)),
        };
        vars.into_iter().map(filled).collect()
    }

    /// A text with every place filled.
    ///
    /// # Errors
    /// A place without data.
    pub fn fill(&self, text: &str) -> Result<String, DataError> {
        let path = |name: &str| {
            let found = self.paths.iter().find(|(known, _)| known == name);
            found.map(|(_, path)| path.as_str())
        };
        data::fill(text, path).map_err(DataError::Place)
    }
}

/// Expands `~/x`, `$NAME/x` and `${NAME}/x`; the error is the variable that is
/// not set.
fn expand(path: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let set = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| name.to_owned())
    };
    let mut out = String::new();
    let mut rest = path;
    if path == "~" || path.starts_with("~/") {
        out.push_str(&set("HOME")?);
        rest = &path[1..];
    }
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, behind) = named(after);
        if name.is_empty() {
            out.push('$');
        } else {
            out.push_str(&set(name)?);
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// The name behind a dollar sign, and the text behind it; an empty name where
/// there is none.
fn named(text: &str) -> (&str, &str) {
    let length = |text: &str| {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return 0;
        }
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.find(|c| !part(c)).unwrap_or(text.len())
    };
    if let Some(inner) = text.strip_prefix('{') {
        let (name, behind) = inner.split_at(length(inner));
        return match behind.strip_prefix('}') {
            Some(behind) if !name.is_empty() => (name, behind),
            _ => ("", text),
        };
    }
    text.split_at(length(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_wire::v1::DataPath;

    fn spec(paths: &[(&str, &str)]) -> RunSpec {
        RunSpec {
            data: paths
                .iter()
                .map(|(name, path)| DataPath {
                    name: (*name).to_owned(),
                    path: (*path).to_owned(),
                })
                .collect(),
            ..RunSpec::default()
        }
    }

    fn variable(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/me".to_owned()),
            "WRK" => Some("/scratch/$me".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn paths_are_expanded_once() {
        for (path, expected) in [
            ("/a b/c", "/a b/c"),
            ("~/corpus", "/home/me/corpus"),
            ("~", "/home/me"),
            ("$WRK/c", "/scratch/$me/c"),
            ("${WRK}x/$HOME", "/scratch/$mex//home/me"),
            ("/cost$/5$ 1", "/cost$/5$ 1"),
            ("/a${b", "/a${b"),
        ] {
            let lying = DataPaths::with(&spec(&[("d", path)]), variable).unwrap();
            assert_eq!(lying.paths[0].1, expected, "{path}");
        }
    }

    #[test]
    fn data_that_cannot_be_found_is_named() {
        for (path, said) in [
            (
                "$WORK/c",
                "the data `d` lies below `$WORK`, which is not set on this node",
            ),
            (
                "$EMPTY/c",
                "the data `d` lies below `$EMPTY`, which is not set on this node",
            ),
            ("~you/c", "`~you/c` of the data `d` is no absolute path"),
        ] {
            let error = DataPaths::with(&spec(&[("d", path)]), variable).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
        let lying =
            DataPaths::with(&spec(&[("a", "/"), ("d", "/nowhere/at all")]), variable).unwrap();
        let error = lying.check().unwrap_err();
        assert_eq!(error.to_string(), "the data `d` is not at /nowhere/at all");
    }

    #[test]
    fn places_are_filled_in_arguments_and_variables() {
        let lying = DataPaths::with(&spec(&[("d", "$WRK/c"), ("e", "/e e")]), variable).unwrap();
        let argv = [
            format!("--in={}/x", data::place("d")),
            "{data.d}".to_owned(),
        ];
        assert_eq!(
            lying.argv(&argv).unwrap(),
            ["--in=/scratch/$me/c/x", "{data.d}"]
        );
        let vars = vec![
            (
                b"A".to_vec(),
                format!("{}:b", data::place("e")).into_bytes(),
            ),
            (b"B".to_vec(), vec![0xff, 0xfe]),
        ];
        assert_eq!(
            lying.vars(vars).unwrap(),
            [
                (b"A".to_vec(), b"/e e:b".to_vec()),
                (b"B".to_vec(), vec![0xff, 0xfe])
            ]
        );
        let error = lying.argv(&[data::place("f")]).unwrap_err();
        assert_eq!(error.to_string(), "no path is given for the data `f`");
    }
}
