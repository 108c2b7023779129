//! Fields that hold below those of a file: the `defaults` of the configuration, and the files
//! that `parent` names.

use std::path::{Path, PathBuf};

use nero_model::safe::quoted;
use nero_yaml::{Entry, Fields, Kind, Mark, Node};

use super::file;
use crate::definition::problem::FormatErrors;
use crate::definition::{ParentFile, Source};
use crate::read::block::{self, Scope};
use crate::read::fields::{self, PARENT};
use crate::read::reader::Reader;
use crate::read::text::{BENEATH_MAX, Text};
use crate::read::{define, parse};

/// Most files above one another.
const PARENTS_MAX: usize = BENEATH_MAX - 2;
/// The key in the configuration.
const DEFAULTS: &str = "defaults";

/// Fields that mean the same for every experiment, whatever it runs.
const FOR_ALL: &[&str] = &[
    "env",
    "data",
    "resources",
    "node",
    "requires",
    "probes",
    "setup",
    "python",
    "container",
    "partition",
    "account",
    "qos",
    "constraint",
    "queue",
    "parallel_env",
    "launcher",
    "on_lost",
    "sbatch_args",
    "qsub_args",
    "pack",
    "at_once",
    "rules",
    "metrics",
    "progress",
    "monitor",
    "buffered",
    "line_buffered",
    "results_dir",
    "results_max",
    "outputs",
    "checkpoint",
    "retry",
    "on_timeout",
    "keep",
];

/// The `defaults` of the configuration, as they are written.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    /// The name and the text of the file that has some.
    file: Option<(String, String)>,
    /// BLAKE3 of what is written there, in hexadecimal; empty without any.
    digest: String,
}

impl Defaults {
    /// Reads them from the configuration; a missing file has none.
    ///
    /// # Errors
    /// When it cannot be read or is no YAML.
    pub fn read(config: &Path) -> Result<Self, FormatErrors> {
        if !config.exists() {
            return Ok(Self::default());
        }
        let (text, _) = file::text(config)?;
        let mut fields = Fields::default();
        let root = parse::parse(&text, &mut fields)?;
        let given = root.as_deref().and_then(|root| entry(root, DEFAULTS));
        let Some(given) = given.filter(|given| !given.value.is_null()) else {
            return Ok(Self::default());
        };
        let written = given.value.written(&text.text);
        Ok(Self {
            digest: blake3::hash(written.as_bytes()).to_hex().to_string(),
            file: Some((text.file, text.text)),
        })
    }
}

impl Source {
    /// Whether what lies beneath the source was changed since it was read.
    pub fn is_changed_beneath(&self, defaults: &Defaults) -> bool {
        let is_same = |parent: &ParentFile| match file::text(&parent.file) {
            Ok((_, digest)) => digest == parent.digest,
            Err(_) => false,
        };
        self.defaults != defaults.digest || !self.parents.iter().all(is_same)
    }
}

/// Checks `defaults` where the configuration is read. What depends on an experiment's folder
/// is checked when one is added.
pub fn check_defaults(fields: &mut Fields, text: &str, given: &Node) {
    let text = Text::new("config.yaml".to_owned(), text.to_owned());
    let context = nero_expr::ParseContext::utc(0).standing();
    let mut reader = Reader::new(&text, Path::new("/"), &context, std::mem::take(fields));
    let before = reader.count();
    let entries = for_all(&mut reader.fields, given);
    let (mut scope, _) = block::enter(&mut reader, &Scope::default(), &entries);
    if reader.count() == before {
        let command = made("command", "true", given.mark);
        (scope, _) = block::enter(&mut reader, &scope, &[command]);
        define::draft(&mut reader, &scope, DEFAULTS, given.mark);
    }
    *fields = reader.fields;
}

/// A field with a text.
pub(crate) fn made(key: &str, text: &str, mark: Mark) -> Entry {
    let kind = Kind::Scalar {
        text: text.to_owned(),
        plain: true,
    };
    Entry::made(key, mark, Node::made(kind, mark))
}

/// The entries of `defaults` that may stand there; all others are mistakes.
fn for_all(fields: &mut Fields, given: &Node) -> Vec<Entry> {
    let example = "defaults: {resources: {time: 4h}}";
    let mut entries = fields.map(DEFAULTS, given, example).to_vec();
    entries.retain(|entry| {
        let is_field = fields::field(&entry.key).is_some();
        let stays = !is_field || FOR_ALL.contains(&entry.key.as_str());
        if entry.key.starts_with('+') || !stays {
            let message = format!("{} cannot hold for every experiment", quoted(&entry.key));
            let hint = format!("`defaults` takes {}", FOR_ALL.join(" "));
            fields.wrong(entry.key_mark, message, hint);
        }
        stays && !entry.key.starts_with('+')
    });
    entries
}

fn entry<'n>(root: &'n Node, key: &str) -> Option<&'n Entry> {
    match &root.kind {
        Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
        Kind::List(_) | Kind::Scalar { .. } => None,
    }
}

/// The fields beneath a file, outermost first. Its text gets the texts of these.
pub(crate) type OuterFields = Vec<Vec<Entry>>;

/// Finds what lies beneath a file with these entries, and notes it in its source.
///
/// # Errors
/// The mistakes of a file above that cannot be read.
pub(crate) fn find(
    text: &mut Text,
    source: &mut Source,
    entries: &[Entry],
    defaults: &Defaults,
    fields: &mut Fields,
) -> Result<OuterFields, FormatErrors> {
    let mut layers = Vec::new();
    let mut folder = source.folder.clone();
    let mut parent = entries.iter().find(|entry| entry.key == PARENT).cloned();
    while let Some(given) = parent.take() {
        let Some(file) = file_of(fields, &given, &folder) else {
            break;
        };
        let known = source.parents.iter().any(|one| one.file == file);
        if known || file == source.file || source.parents.len() == PARENTS_MAX {
            let message = format!("`{PARENT}` leads back to {}", file::display_path(&file));
            fields.wrong(given.value.mark, message, "each file is above another one");
            break;
        }
        let (above, digest) = file::text(&file)?;
        let mut own = Fields::default();
        let root = parse::parse(&above, &mut own)?;
        above.checked(own)?;
        let lines = text.lay_beneath(above);
        folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
        source.parents.push(ParentFile { file, digest });
        let Some(root) = root.map(|root| root.below(lines)) else {
            break;
        };
        let Kind::Map(all) = &root.kind else {
            break;
        };
        parent = all.iter().find(|entry| entry.key == PARENT).cloned();
        // Its blocks are experiments of its own.
        let is_field = |entry: &&Entry| !entry.key.starts_with('+') && entry.key != PARENT;
        layers.push(all.iter().filter(is_field).cloned().collect());
    }
    source.defaults.clone_from(&defaults.digest);
    if let Some((file, config)) = &defaults.file {
        let config = Text::new(file.clone(), config.clone());
        let root = parse::parse(&config, &mut Fields::default())?;
        let lines = text.lay_beneath(config);
        if let Some(root) = root.map(|root| root.below(lines))
            && let Some(given) = entry(&root, DEFAULTS)
        {
            layers.push(for_all(fields, &given.value));
        }
    }
    layers.reverse();
    Ok(layers)
}

/// The file that `parent` names: a path, or the collection of a folder above.
fn file_of(fields: &mut Fields, given: &Entry, folder: &Path) -> Option<PathBuf> {
    let named = fields.single(PARENT, &given.value)?;
    let mark = given.value.mark;
    let is_path = named.contains('/')
        || named == ".."
        || [".yaml", ".yml"].iter().any(|end| named.ends_with(end));
    if is_path {
        let path = folder.join(named);
        let file = if path.is_dir() {
            file::described(&path)
        } else {
            Some(path)
        };
        let file = file.and_then(|file| file.canonicalize().ok());
        if file.is_none() {
            let message = format!("{} of `{PARENT}` does not exist", quoted(named));
            let hint = format!("it is looked for in {}", file::display_path(folder));
            fields.wrong(mark, message, hint);
        }
        return file;
    }
    let mut above = folder.ancestors().skip(1).filter_map(file::described);
    let found = above.find(|file| collection_of(file).as_deref() == Some(named));
    if found.is_none() {
        let message = format!("no folder above has the collection {}", quoted(named));
        fields.wrong(
            mark,
            message,
            "name a file or folder: `parent: ../base.yaml`",
        );
    }
    found.and_then(|file| file.canonicalize().ok())
}

/// The collection that a description gives at its top, else its folder's name.
fn collection_of(file: &Path) -> Option<String> {
    let (text, _) = file::text(file).ok()?;
    let root = parse::parse(&text, &mut Fields::default()).ok()??;
    let own = entry(&root, "collection").and_then(|given| given.value.scalar().map(str::to_owned));
    let of_folder = || Some(file.parent()?.file_name()?.to_str()?.to_owned());
    own.or_else(of_folder)
}
