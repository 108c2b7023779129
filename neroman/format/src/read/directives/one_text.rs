//! The single text of `sbatch_args`, as the original has it: options that are fields here become
//! these fields, and the others are passed on.

use std::rc::Rc;

use nero_warden::slurm::check_options;
use nero_yaml::{Entry, Kind, Node};

use super::{Dialect, ScriptRequest, ScriptValue, directives, slurm};
use crate::read::block::{Scope, Setting};
use crate::read::fields::{self, Field};
use crate::read::reader::Reader;

/// What holds in a block when the options of such a text are fields. A field that the block has
/// beside the text counts more. `None`: the block has no such text.
pub(crate) fn spread(reader: &mut Reader<'_>, scope: &Scope) -> Option<Scope> {
    let given = scope.get(Field::SbatchArgs)?;
    let text = given.value.scalar()?.replace('\n', " ");
    let mark = given.value.mark;
    let mut options = directives(&format!("#SBATCH {text}"), Dialect::Slurm);
    // Memory of each CPU is counted with the CPUs that the block asks for.
    if let Some(cpus) = resource(scope, "cpus").and_then(|cpus| cpus.parse::<f64>().ok()) {
        let cpus = super::options::Directive {
            name: "--cpus-per-task".to_owned(),
            value: cpus.ceil().to_string(),
            mark,
        };
        options.insert(0, cpus);
    }
    for option in &mut options {
        option.mark = mark;
    }
    let wanted = slurm::wanted(&options);
    if wanted.tasks.is_some()
        && let Err(error) = check_options(&["--array".to_owned()])
    {
        reader.wrong(mark, format!("`sbatch_args`: {error}"), "");
    }
    for (_, note) in &wanted.notes {
        reader.note(Some(mark), format!("`sbatch_args`: {note}"));
    }
    Some(put(reader, scope, given, wanted))
}

/// A resource of the block that is one text.
fn resource<'a>(scope: &'a Scope, word: &str) -> Option<&'a str> {
    let Kind::Map(entries) = &scope.get(Field::Resources)?.value.kind else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key == word)?;
    entry.value.scalar()
}

fn put(reader: &mut Reader<'_>, scope: &Scope, args: &Setting, wanted: ScriptRequest) -> Scope {
    let mark = args.value.mark;
    let mut spread = scope.clone();
    let mut taken = Vec::new();
    let given = |word: &str, value: Rc<Node>| Setting {
        key: word.to_owned(),
        key_mark: mark,
        value,
        depth: args.depth,
    };
    for (word, said) in wanted.fields {
        let Some(field) = fields::field(word).filter(|field| *field != Field::AtOnce) else {
            continue;
        };
        if scope.get(field).is_some() {
            reader.note(Some(mark), beaten(word));
            continue;
        }
        taken.push(format!("`{word}: {}`", said.value));
        spread.fields.insert(field, given(word, scalar(said)));
    }
    let before = scope.get(Field::Resources).map(|given| &given.value.kind);
    let mut resources = match before {
        Some(Kind::Map(entries)) => entries.clone(),
        Some(Kind::Scalar { .. } | Kind::List(_)) | None => Vec::new(),
    };
    for (word, said) in wanted.resources {
        match resources.iter().find(|entry| entry.key == word) {
            Some(entry) if entry.value.scalar() == Some(&said.value) => {}
            Some(_) => reader.note(Some(mark), beaten(word)),
            None => {
                taken.push(format!("`resources.{word}: {}`", said.value));
                resources.push(entry(word, said));
            }
        }
    }
    if !matches!(before, Some(Kind::Scalar { .. } | Kind::List(_))) && !resources.is_empty() {
        let node = Rc::new(Node::made(Kind::Map(resources), mark));
        let place = spread.fields.entry(Field::Resources);
        place
            .and_modify(|given| given.value = Rc::clone(&node))
            .or_insert_with(|| given("resources", node));
    }
    if !taken.is_empty() {
        let text = format!("`sbatch_args` is read as {}", taken.join(", "));
        reader.note(Some(mark), text);
    }
    if wanted.passed.is_empty() {
        spread.fields.remove(&Field::SbatchArgs);
    } else {
        let passed = wanted.passed.into_iter().map(scalar).collect();
        let node = Rc::new(Node::made(Kind::List(passed), mark));
        let kept = spread.fields.get_mut(&Field::SbatchArgs);
        kept.into_iter()
            .for_each(|given| given.value = Rc::clone(&node));
    }
    spread
}

fn beaten(word: &str) -> String {
    format!("the option for `{word}` in `sbatch_args` is left out: the field `{word}` counts more")
}

fn scalar(said: ScriptValue<String>) -> Rc<Node> {
    let kind = Kind::Scalar {
        text: said.value,
        plain: false,
    };
    Rc::new(Node::made(kind, said.mark))
}

fn entry(key: &str, said: ScriptValue<String>) -> Entry {
    Entry::made(key, said.mark, scalar(said))
}
