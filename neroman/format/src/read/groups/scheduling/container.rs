//! `container: pytorch.sif`, or a map with `image:` and how its runtime is called. The
//! configuration reads the same as a node's default.

use nero_model::safe::quoted;
use nero_yaml::{Fields, Kind, Node};

use crate::definition::Container;

/// No container.
const NONE: &str = "none";
/// Keys of the map.
const KEYS: &[&str] = &["image", "runtime", "mounts", "network", "pull", "options"];
const EXAMPLE: &str = "container: {image: python:3.12, mounts: [~/data:/data:ro]}";
const RUNTIMES: &[(&str, &str)] = &[
    ("auto", ""),
    ("podman", "podman"),
    ("docker", "docker"),
    ("apptainer", "apptainer"),
    ("singularity", "singularity"),
    ("charliecloud", "charliecloud"),
];
const PULLS: &[(&str, &str)] = &[("missing", ""), ("always", "always"), ("never", "never")];

/// Whether a value describes one container, and not one for each node: a node with the name of a
/// key is none that can have its own.
pub(crate) fn is_one(value: &Node) -> bool {
    match &value.kind {
        Kind::Map(entries) => entries
            .iter()
            .any(|entry| KEYS.contains(&entry.key.as_str())),
        Kind::Scalar { .. } | Kind::List(_) => true,
    }
}

/// One container; `none`: none, whatever a node has.
pub(crate) fn read(fields: &mut Fields, key: &str, value: &Node) -> Option<Container> {
    if value.scalar() == Some(NONE) {
        return Some(Container::default());
    }
    let Kind::Map(entries) = &value.kind else {
        let image = image(fields, key, value)?;
        return Some(Container {
            image,
            ..Container::default()
        });
    };
    let mut container = Container::default();
    for entry in entries {
        let key = format!("{key}.{}", entry.key);
        let value = &*entry.value;
        match entry.key.as_str() {
            "image" => container.image = image(fields, &key, value)?,
            "runtime" => container.runtime = fields.choice(&key, value, RUNTIMES)?.to_owned(),
            "pull" => container.pull = fields.choice(&key, value, PULLS)?.to_owned(),
            "network" => container.network = read_word(fields, &key, value)?,
            "mounts" => container.mounts = each(fields, &key, value, mount)?,
            "options" => container.options = each(fields, &key, value, option)?,
            _ => fields.unknown(entry, "is no key of a container", KEYS, &[]),
        }
    }
    if container.image.is_empty() {
        fields.wrong(
            value.mark,
            format!("`{key}` has no image"),
            format!("for example `{EXAMPLE}`"),
        );
        return None;
    }
    Some(container)
}

/// The name of an image, or a path: `./env.tar` travels with the run, `/images/x.sif` lies on
/// the node.
fn image(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    let text = fields.single(key, value)?;
    let is_path = text.starts_with(['/', '.', '~']);
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    let is_name = !text.is_empty() && text.chars().all(fits) && !text.starts_with('-');
    let is_below = text
        .strip_prefix("./")
        .is_none_or(|path| !path.split('/').any(|part| part == ".."));
    if (is_path && is_below && !text.starts_with("..")) || (is_name && !is_path) {
        let file = [".sif", ".tar", ".tar.gz", ".sqfs"]
            .iter()
            .any(|end| text.ends_with(end));
        return Some(if file && !is_path {
            format!("./{text}")
        } else {
            text.to_owned()
        });
    }
    let message = format!("{} of `{key}` is no image", quoted(text));
    let hint = "a name (`python:3.12`), a file of this folder (`./env.tar`), or a path on the node (`/images/env.sif`)";
    fields.wrong(value.mark, message, hint);
    None
}

fn read_word(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    let text = fields.single(key, value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    if !text.is_empty() && text.chars().all(fits) && !text.starts_with('-') {
        return Some(text.to_owned());
    }
    let message = format!("`{key}` takes no {}", quoted(text));
    fields.wrong(value.mark, message, "for example `host` or `none`");
    None
}

/// `SOURCE[:TARGET][:ro]`.
fn mount(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    let text = fields.single(key, value)?;
    let bare = text.strip_suffix(":ro").or(text.strip_suffix(":rw"));
    let bare = bare.unwrap_or(text);
    let (source, target) = bare.split_once(':').unwrap_or((bare, bare));
    let is_source = source.starts_with('/') || source.starts_with("~/");
    let is_target = target.starts_with('/') || bare == source && is_source;
    if is_source && is_target && !target.contains(':') {
        return Some(text.to_owned());
    }
    let message = format!("{} of `{key}` is no mount", quoted(text));
    let hint = "write SOURCE:TARGET or SOURCE:TARGET:ro, for example `~/data:/data:ro`; what travels with the run needs none";
    fields.wrong(value.mark, message, hint);
    None
}

/// An option of the runtime, in one word.
fn option(fields: &mut Fields, key: &str, value: &Node) -> Option<String> {
    let text = fields.single(key, value)?;
    let ours = OURS.iter().find(|ours| {
        text == **ours
            || text
                .strip_prefix(**ours)
                .is_some_and(|rest| rest.starts_with('='))
    });
    let message = match ours {
        Some(ours) => format!("`{ours}` of `{key}` is Neronet's own"),
        None if text.starts_with('-') && !text.contains([' ', '\n']) => {
            return Some(text.to_owned());
        }
        None => format!("{} of `{key}` is no option in one word", quoted(text)),
    };
    fields.wrong(value.mark, message, "for example `--shm-size=8g`");
    None
}

/// Options by which Neronet finds and ends a container.
const OURS: &[&str] = &[
    "--name",
    "--rm",
    "--detach",
    "-d",
    "--init",
    "--restart",
    "--entrypoint",
    "--pull",
    "--cidfile",
    "--sig-proxy",
    "--workdir",
    "-w",
];

fn each(
    fields: &mut Fields,
    key: &str,
    value: &Node,
    read: fn(&mut Fields, &str, &Node) -> Option<String>,
) -> Option<Vec<String>> {
    let items = match &value.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![value],
    };
    items
        .into_iter()
        .map(|item| read(fields, key, item))
        .collect()
}
