//! Which file of a crate imports which other one: paths that begin with `crate`, `super`, `self` or
//! a module beside. A name that a module passes on counts as an import of the file that has it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Crate;

/// One import.
#[derive(Clone, Copy)]
pub struct Import {
    /// Indexes of [`Crate::files`].
    pub from: usize,
    pub to: usize,
    /// The file that is named; it may pass on a name of the other one.
    pub named: usize,
    pub line: usize,
}

/// A module from the crate's root on, or what is in it.
type ModulePath = Vec<String>;

/// Names that modules pass on, with what these are.
type PassedOn = BTreeMap<ModulePath, BTreeMap<String, ModulePath>>;

/// Every import between files of a crate, the first of each kind.
pub fn imports(product: &Crate) -> Vec<Import> {
    let modules: BTreeMap<&[String], usize> = product
        .files
        .iter()
        .enumerate()
        .map(|(index, file)| (file.module.as_slice(), index))
        .collect();
    let mut passed_on = PassedOn::new();
    let mut found = Vec::new();
    for (index, file) in product.files.iter().enumerate() {
        for path in paths(&file.code) {
            let Some(target) = absolute(&file.module, &path.words, &modules) else {
                continue;
            };
            if path.passes_on
                && let Some(name) = path.alias.as_ref().or(target.last())
            {
                let names = passed_on.entry(file.module.clone()).or_default();
                names.insert(name.clone(), target);
            } else {
                found.push((index, path.line, target));
            }
        }
    }
    let mut pairs = BTreeSet::new();
    let mut imports = Vec::new();
    for (from, line, target) in found {
        let named = file_of(target.clone(), &PassedOn::new(), &modules);
        let to = file_of(target, &passed_on, &modules);
        if to != Some(from)
            && let Some((to, named)) = to.zip(named)
            && pairs.insert((from, to, named))
        {
            imports.push(Import {
                from,
                to,
                named,
                line,
            });
        }
    }
    imports
}

/// The files of the largest circle: each imports each other one, perhaps over others.
pub fn largest_circle(product: &Crate, imports: &[Import]) -> Vec<usize> {
    let mut next = vec![Vec::new(); product.files.len()];
    for import in imports {
        next[import.from].push(import.to);
    }
    let reached: Vec<BTreeSet<usize>> = (0..next.len()).map(|from| reach(from, &next)).collect();
    let circle = |from: usize| -> Vec<usize> {
        let both = |to: &usize| reached[from].contains(to) && reached[*to].contains(&from);
        (0..next.len()).filter(both).collect()
    };
    let circles = (0..next.len()).map(circle);
    circles.max_by_key(Vec::len).unwrap_or_default()
}

fn reach(from: usize, next: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        open.extend(next[at].iter().filter(|to| reached.insert(**to)));
    }
    reached
}

/// The file of a path, through names that modules pass on.
fn file_of(
    mut target: ModulePath,
    passed_on: &PassedOn,
    modules: &BTreeMap<&[String], usize>,
) -> Option<usize> {
    // A name may be passed on in a circle; nothing real is passed on more often.
    for _ in 0..8 {
        let length = (0..=target.len())
            .rev()
            .find(|length| modules.contains_key(&target[..*length]))?;
        let name = target.get(length);
        let names = passed_on.get(&target[..length]);
        match names.zip(name).and_then(|(names, name)| names.get(name)) {
            Some(real) if real[..] != target[..=length] => {
                let rest = target.split_off(length + 1);
                target.clone_from(real);
                target.extend(rest);
            }
            Some(_) | None => return modules.get(&target[..length]).copied(),
        }
    }
    None
}

/// A path that begins at the root; `None` for one of another crate.
fn absolute(
    module: &[String],
    words: &[String],
    modules: &BTreeMap<&[String], usize>,
) -> Option<ModulePath> {
    let ups = words.iter().take_while(|word| *word == "super").count();
    let first = words.first().map(String::as_str);
    let (base, rest) = match first? {
        "crate" => (&[][..], &words[1..]),
        "self" => (module, &words[1..]),
        "super" => (&module[..module.len().saturating_sub(ups)], &words[ups..]),
        beside => {
            let mut own = module.to_vec();
            own.push(beside.to_owned());
            modules.get(own.as_slice())?;
            (module, words)
        }
    };
    Some(base.iter().chain(rest).cloned().collect())
}

/// A path in code.
struct CodePath {
    words: Vec<String>,
    alias: Option<String>,
    line: usize,
    /// Whether it is in a `pub use`.
    passes_on: bool,
}

/// The paths of a file: each of a `use`, and those of the code that begin with `crate`, `super` or
/// `self`.
fn paths(code: &str) -> Vec<CodePath> {
    let mut found = Vec::new();
    let mut statement: Option<(usize, bool, String)> = None;
    for (index, line) in code.lines().enumerate() {
        if let Some((_, _, tree)) = &mut statement {
            tree.push_str(line);
        } else if let Some((passes_on, tree)) = use_begin(line) {
            statement = Some((index + 1, passes_on, tree.to_owned()));
        } else {
            inline_paths(line, index + 1, &mut found);
        }
        if let Some((line, passes_on, tree)) = &statement
            && let Some(tree) = tree.trim_end().strip_suffix(';')
        {
            leaves(tree, &[], &mut |words, alias| {
                found.push(CodePath {
                    words,
                    alias,
                    line: *line,
                    passes_on: *passes_on,
                });
            });
            statement = None;
        }
    }
    found
}

/// Whether a `use` passes names on, and the begin of its tree.
fn use_begin(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    if let Some(tree) = line.strip_prefix("use ") {
        return Some((false, tree));
    }
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    Some((true, rest.strip_prefix(" use ")?))
}

/// Calls for each path of the tree of a `use`.
fn leaves(tree: &str, before: &[String], each: &mut impl FnMut(Vec<String>, Option<String>)) {
    let tree = tree.trim();
    let group = tree.find('{').zip(tree.rfind('}'));
    let (head, alias) = match (group, tree.split_once(" as ")) {
        (None, Some((head, alias))) => (head, Some(alias.trim().to_owned())),
        (None, None) => (tree, None),
        (Some((open, _)), _) => (&tree[..open], None),
    };
    let mut words = before.to_vec();
    let own = head.split("::").map(str::trim);
    words.extend(own.filter(|word| !word.is_empty()).map(str::to_owned));
    let Some((open, close)) = group else {
        // `a::{self}` is `a`.
        if words.len() > 1 && words.last().is_some_and(|word| word == "self") {
            words.pop();
        }
        each(words, alias);
        return;
    };
    let (mut depth, mut begin) = (0, open + 1);
    for (at, letter) in tree[..close]
        .char_indices()
        .skip_while(|(at, _)| *at <= open)
    {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                leaves(&tree[begin..at], &words, each);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !tree[begin..close].trim().is_empty() {
        leaves(&tree[begin..close], &words, each);
    }
}

fn inline_paths(line: &str, number: usize, found: &mut Vec<CodePath>) {
    for first in ["crate::", "super::", "self::"] {
        for (at, _) in line.match_indices(first) {
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let end = line[at..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let path = line[at..end.map_or(line.len(), |end| at + end)].trim_end_matches(':');
            found.push(CodePath {
                words: path.split("::").map(str::to_owned).collect(),
                alias: None,
                line: number,
                passes_on: false,
            });
        }
    }
}
