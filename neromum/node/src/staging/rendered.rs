//! Files that are made in a work folder of a run's parameters: templates of its code with
//! their places filled, and a file of all parameters. They are made before any link, so
//! that no path leads out of the folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_wire::v1::{Param, RunSpec};

use super::typed::{self, TypedFormat};
use super::{PrepareError, data};

/// Whether a run has such files.
pub(super) fn is_asked(spec: &RunSpec) -> bool {
    !spec.render.is_empty() || !spec.params_file.is_empty()
}

/// Makes them. A file of the code with the same name gives way.
///
/// # Errors
/// A template that is missing; a file that cannot be made.
pub(super) fn make(
    spec: &RunSpec,
    data: &data::DataPaths,
    work: &Path,
) -> Result<(), PrepareError> {
    for one in &spec.render {
        let template = work.join(&one.template);
        let failed = |source| PrepareError::Io {
            path: template.clone(),
            source,
        };
        let text = fs::read(&template).map_err(failed)?;
        let mode = fs::metadata(&template).map_err(failed)?.permissions();
        let path = write(work, &one.path, &filled(&text, spec, data))?;
        // A script stays one.
        fs::set_permissions(&path, mode).map_err(|source| PrepareError::Io { path, source })?;
    }
    if !spec.params_file.is_empty() {
        let text = params_file(spec, data)?;
        write(work, &spec.params_file, text.as_bytes())?;
    }
    Ok(())
}

/// Replaces `{NAME}`, `{data.NAME}` and `{params_file}`. Every other brace stays, since configurations have
/// braces of their own.
fn filled(template: &[u8], spec: &RunSpec, data: &data::DataPaths) -> Vec<u8> {
    let mut filled = Vec::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
        let behind = &rest[at + 1..];
        let end = behind.iter().position(|byte| *byte == b'}');
        let name = end.and_then(|end| std::str::from_utf8(&behind[..end]).ok());
        let Some((name, value)) = name.and_then(|name| Some((name, value(name, spec, data)?)))
        else {
            filled.extend_from_slice(&rest[..=at]);
            rest = behind;
            continue;
        };
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(value.as_bytes());
        rest = &behind[name.len() + 1..];
    }
    filled.extend_from_slice(rest);
    filled
}

fn value<'a>(name: &str, spec: &'a RunSpec, data: &'a data::DataPaths) -> Option<&'a str> {
    let param = spec.params.iter().find(|param| param.name == name);
    if let Some(param) = param
        .or_else(|| grouped(name, spec))
        .or_else(|| blank(name, spec))
    {
        return Some(&param.text);
    }
    if name == "params_file" && !spec.params_file.is_empty() {
        return Some(&spec.params_file);
    }
    let wanted = name.strip_prefix("data.")?;
    let mut paths = data.paths();
    paths.find_map(|(name, path)| (name == wanted).then_some(path))
}

/// The only parameter with this name in a group of columns: `Params/lr` for `lr`.
fn grouped<'a>(name: &str, spec: &'a RunSpec) -> Option<&'a Param> {
    let is_named = |param: &&Param| {
        let split = param.name.split_once('/');
        split.is_some_and(|(_, own)| own == name)
    };
    let mut params = spec.params.iter().filter(is_named);
    let only = params.next()?;
    params.next().is_none().then_some(only)
}

/// The parameter whose name has blanks where this one has `_` or `-`: `learning rate`. Other
/// spellings are braces of the template's own.
fn blank<'a>(name: &str, spec: &'a RunSpec) -> Option<&'a Param> {
    let is_named = |param: &&Param| {
        param.name.contains(' ')
            && [param.name.replace(' ', "_"), param.name.replace(' ', "-")]
                .iter()
                .any(|one| one == name)
    };
    spec.params.iter().find(is_named)
}

/// Writes a file, and returns its path.
fn write(work: &Path, path: &str, content: &[u8]) -> Result<PathBuf, PrepareError> {
    let at = |path: PathBuf| move |source| PrepareError::Io { path, source };
    let path = work.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(at(folder.to_path_buf()))?;
    }
    // A file that runs share is not written through.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path.clone())(error)),
        Ok(()) | Err(_) => match fs::write(&path, content) {
            Ok(()) => Ok(path),
            Err(error) => Err(at(path)(error)),
        },
    }
}

/// All parameters in the format of the file's ending, one line for each.
fn params_file(spec: &RunSpec, data: &data::DataPaths) -> Result<String, data::DataError> {
    let ending = Path::new(&spec.params_file).extension();
    let (format, between) = match ending.and_then(|ending| ending.to_str()) {
        Some("toml") => (TypedFormat::Toml, " = "),
        Some("yaml" | "yml") => (TypedFormat::Yaml, ": "),
        Some(_) | None => (TypedFormat::Json, ": "),
    };
    let params = typed::params(spec, data, format)?.into_iter();
    let lines: Vec<String> = params
        .map(|(name, value)| format!("{name}{between}{value}"))
        .collect();
    Ok(match (format, lines.is_empty()) {
        (TypedFormat::Toml, true) => String::new(),
        (_, true) => "{}\n".to_owned(),
        (TypedFormat::Json, false) => format!("{{\n  {}\n}}\n", lines.join(",\n  ")),
        (TypedFormat::Yaml | TypedFormat::Toml, false) => format!("{}\n", lines.join("\n")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_wire::v1::RenderedFile;

    const LONG: &str = "340282366920938463463374607431768211455";

    fn spec(params: &[(&str, &str, &str)]) -> RunSpec {
        RunSpec {
            params: params
                .iter()
                .map(|(name, text, json)| Param {
                    name: (*name).to_owned(),
                    text: (*text).to_owned(),
                    json: (*json).to_owned(),
                })
                .collect(),
            ..RunSpec::default()
        }
    }

    #[test]
    fn places_are_filled_and_other_braces_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("a.in"),
            "{\"lr\": {lr}, \"x\": {\"y\": {z}}} {",
        )
        .unwrap();
        fs::write(folder.path().join("old.json"), "old").unwrap();
        let mut spec = spec(&[("lr", "0.10", "0.1")]);
        for path in ["old.json", "new/a.json"] {
            spec.render.push(RenderedFile {
                template: "a.in".to_owned(),
                path: path.to_owned(),
            });
        }
        let data = data::DataPaths::of(&spec).unwrap();
        make(&spec, &data, folder.path()).unwrap();
        let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
        assert_eq!(read("old.json"), "{\"lr\": 0.10, \"x\": {\"y\": {z}}} {");
        assert_eq!(read("new/a.json"), read("old.json"));
    }

    #[test]
    fn grouped_columns_and_the_file_of_parameters_have_places() {
        let mut spec = spec(&[
            ("Params/lr", "0.1", "0.1"),
            ("A/n", "1", "1"),
            ("B/n", "2", "2"),
        ]);
        let data = data::DataPaths::of(&spec).unwrap();
        let template = b"{lr} {n} {A/n} {params_file}";
        let filled_in = |spec: &RunSpec| String::from_utf8(filled(template, spec, &data)).unwrap();
        assert_eq!(filled_in(&spec), "0.1 {n} 1 {params_file}");
        "p.json".clone_into(&mut spec.params_file);
        assert_eq!(filled_in(&spec), "0.1 {n} 1 p.json");
    }

    #[test]
    fn a_filled_script_is_still_executable() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let template = folder.path().join("a.in");
        fs::write(&template, "#!/bin/sh\necho {lr}\n").unwrap();
        fs::set_permissions(&template, fs::Permissions::from_mode(0o750)).unwrap();
        let mut spec = spec(&[("lr", "0.1", "0.1")]);
        spec.render.push(RenderedFile {
            template: "a.in".to_owned(),
            path: "a.sh".to_owned(),
        });
        let data = data::DataPaths::of(&spec).unwrap();
        make(&spec, &data, folder.path()).unwrap();
        let made = fs::metadata(folder.path().join("a.sh")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o750);
    }

    #[test]
    fn a_file_of_parameters_has_the_format_of_its_ending() {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(&[
            ("lr", "1e-7", "1e-7"),
            ("big", "1e30", "1e+30"),
            ("no", "false", "false"),
            ("text", "a \"b\"", "\"a \\\"b\\\"\""),
            ("none", "null", "null"),
            ("a.b", "3", "3"),
            ("seed", LONG, LONG),
            ("dims", "[64, 1e-7]", "[64, 1e-7, {\"a\": \"b: 1\"}]"),
            ("most", ".inf", "Infinity"),
            ("least", "-inf", "-Infinity"),
            ("never", "nan", "NaN"),
            ("lines", "a\u{2028}b\u{7f}", "\"a\u{2028}b\u{7f}\""),
        ]);
        let mut made = |path: &str| {
            path.clone_into(&mut spec.params_file);
            let data = data::DataPaths::of(&spec).unwrap();
            make(&spec, &data, folder.path()).unwrap();
            fs::read_to_string(folder.path().join(path)).unwrap()
        };
        let json: serde_json::Value = serde_json::from_str(&made("p.json")).unwrap();
        assert_eq!(json["lr"], 1e-7);
        assert_eq!(json["most"], "Infinity");
        assert!(made("p.json").contains(&format!("  \"seed\": {LONG},\n")));
        assert_eq!(
            made("p.yaml"),
            "lr: 1.0e-7\nbig: 1.0e+30\n\"no\": false\ntext: \"a \\\"b\\\"\"\nnone: null\n\"a.b\": 3\n\
             seed: 340282366920938463463374607431768211455\ndims: [64, 1.0e-7, {\"a\": \"b: 1\"}]\n\
             most: .inf\nleast: -.inf\nnever: .nan\nlines: \"a\\u2028b\\u007f\"\n"
        );
        assert_eq!(
            made("p.toml"),
            "lr = 1e-7\nbig = 1e+30\n\"no\" = false\ntext = \"a \\\"b\\\"\"\n\"a.b\" = 3\n\
             seed = 340282366920938463463374607431768211455\ndims = [64, 1e-7, {\"a\" = \"b: 1\"}]\n\
             most = inf\nleast = -inf\nnever = nan\nlines = \"a\\u2028b\\u007f\"\n"
        );
    }
}
