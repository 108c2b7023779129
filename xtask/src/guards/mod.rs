//! Guards of the structure: numbers that may fall and never rise. `docs/design/rooms.md` has each
//! with its goal, and is where they are read from.

mod functions;
mod imports;
mod names;
mod pages;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use source::Crate;

/// The page that explains the guards and has their numbers.
const PAGE: &str = "docs/design/rooms.md";

/// Folders of a crate and the folders that each may import.
type Arrows = &'static [(&'static str, &'static [&'static str])];

/// The crates with rooms, and the module that has them, or the whole crate.
const ROOMS: &[(&str, &str, Arrows)] = &[
    (
        "neroman/life",
        "",
        &[
            ("facts", &[]),
            ("fold", &["facts"]),
            ("step", &["facts", "fold"]),
            ("place", &["facts", "fold", "step"]),
            ("after", &["facts", "fold", "step"]),
            ("source", &["facts", "fold", "step"]),
            ("notices", &["facts", "fold", "step"]),
        ],
    ),
    (
        "neroman/format",
        "",
        &[
            ("definition", &[]),
            ("read", &["definition"]),
            ("edit", &["definition", "read"]),
            ("sources", &["definition", "read", "edit"]),
            ("python", &[]),
            ("text", &[]),
            ("typed", &["read"]),
        ],
    ),
    (
        "neroman/home",
        "",
        &[
            ("adopt", &[]),
            ("clock", &[]),
            ("failure", &[]),
            ("spec", &["failure"]),
            ("heap", &[]),
            ("keep", &["failure"]),
            ("folding", &["keep"]),
            (
                "ledger",
                &["clock", "failure", "folding", "heap", "keep", "spec"],
            ),
            ("backup", &["failure"]),
            ("restore", &["backup", "clock", "keep"]),
            ("upkeep", &["clock", "ledger"]),
        ],
    ),
    (
        "neroman/link",
        "",
        &[
            ("config_file", &[]),
            ("connect", &[]),
            ("restored", &[]),
            ("snapshot", &[]),
            ("transfer", &[]),
            ("outside", &["connect", "snapshot"]),
            ("results", &["outside", "snapshot", "transfer"]),
            (
                "node",
                &[
                    "config_file",
                    "connect",
                    "restored",
                    "results",
                    "snapshot",
                    "transfer",
                ],
            ),
        ],
    ),
    (
        "neroman/notices",
        "",
        &[
            ("letter", &[]),
            ("message", &[]),
            ("plan", &[]),
            ("send", &[]),
            (
                "compose",
                &["account", "letter", "message", "plan", "settings"],
            ),
            ("post", &["compose", "plan"]),
        ],
    ),
    (
        "proto/expr",
        "",
        &[
            ("words", &[]),
            ("tree", &["words"]),
            ("parse", &["words", "tree"]),
            ("bind", &["words", "tree"]),
            ("eval", &["words", "tree", "parse", "bind"]),
        ],
    ),
    (
        "proto/metrics",
        "",
        &[
            ("tokens", &[]),
            ("found", &["tokens"]),
            ("labels", &["tokens", "found"]),
            ("text", &["tokens", "found", "labels"]),
            ("tables", &["tokens", "found", "labels"]),
        ],
    ),
    (
        "nerokid",
        "",
        &[
            ("core", &[]),
            ("processes", &[]),
            ("gpus", &[]),
            ("folder", &["core", "processes"]),
            ("output", &["core", "folder"]),
            ("events", &["folder", "output"]),
        ],
    ),
    (
        "neromum/node",
        "",
        &[
            ("runs", &[]),
            ("ledger", &["config", "runs"]),
            ("agent", NODE),
        ],
    ),
    ("neromum", "", &[("cluster", &["job", "warden"])]),
    (
        "neromum/cluster",
        "",
        &[
            ("submission", &[]),
            ("request", &[]),
            ("lifecycle", &["submission"]),
        ],
    ),
    (
        "neroman/daemon",
        "service",
        &[
            ("nodes", &["change", "select"]),
            ("files", &["change", "select", "nodes"]),
            ("views", &["change", "select", "nodes", "files"]),
            (
                "experiments",
                &["change", "select", "nodes", "files", "views"],
            ),
            (
                "runs",
                &["change", "select", "nodes", "files", "views", "experiments"],
            ),
            ("admin", &["change", "select", "views"]),
        ],
    ),
];

/// What the agent of a node imports: no scheduler, and no program.
const NODE: &[&str] = &[
    "cards",
    "config",
    "containers",
    "files",
    "launch",
    "lease",
    "ledger",
    "letters",
    "runs",
    "staging",
];

/// The kinds of records are matched in one crate.
const RECORDS: &str = "proto/journal";

/// Most files of a folder, files in a circle of imports, and lines of a crate; more only where the
/// page has a row for the place.
const FOLDER_FILES: usize = 20;
const CIRCLE_FILES: usize = 6;
const CRATE_LINES: usize = 20_000;

/// What a guard counts, by the name of its row.
struct Measure {
    name: String,
    found: usize,
    /// The most that is allowed where the page has no row.
    otherwise: usize,
    /// Where it was found.
    places: Vec<String>,
}

/// A row of the page.
#[derive(Clone, Copy)]
struct Row {
    line: usize,
    most: usize,
}

/// Refuses numbers above those of the page.
pub fn check(root: &Path) -> Result<(), String> {
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let mut measures = measures(&source::crates(root)?);
    measures.extend(pages::measures(root)?);
    compare(&page, &measures)
}

/// Compares the numbers with those of the page, prints those that fell, and refuses those that rose.
fn compare(page: &str, measures: &[Measure]) -> Result<(), String> {
    let rows = rows(page)?;
    let mut risen = Vec::new();
    for measure in measures {
        let row = rows.get(measure.name.as_str());
        let most = row.map_or(measure.otherwise, |row| row.most);
        let (name, found) = (&measure.name, measure.found);
        if found > most {
            risen.push(format!(
                "{name}: {found}, and at most {most} are allowed; {PAGE} has the reason and the way\n  {}",
                measure.places.join("\n  ")
            ));
        }
        // Lines are counted roughly.
        if let Some(row) = row.filter(|row| found * 100 < row.most * 99) {
            if found <= measure.otherwise {
                println!(
                    "{name}: {found}; the row in {PAGE}:{} is not needed",
                    row.line
                )
            } else {
                println!("{name}: {found}; lower {most} in {PAGE}:{}", row.line)
            }
        }
    }
    let known = |name: &&str| measures.iter().any(|measure| measure.name == **name);
    for (name, row) in rows.iter().filter(|(name, _)| !known(name)) {
        println!(
            "{name}: nothing has this name; the row in {PAGE}:{} is not needed",
            row.line
        );
    }
    if risen.is_empty() {
        Ok(())
    } else {
        Err(risen.join("\n"))
    }
}

/// The rows of the page's tables: `| name | most | goal |`.
fn rows(page: &str) -> Result<BTreeMap<&str, Row>, String> {
    let mut rows = BTreeMap::new();
    for (index, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, most, _, ""] = cells[..] else {
            continue;
        };
        if most.starts_with(|first: char| first.is_ascii_digit()) {
            let number = most.replace(' ', "").parse();
            let most = number.map_err(|_| format!("{PAGE}:{}: {most} is no number", index + 1))?;
            rows.insert(
                name,
                Row {
                    line: index + 1,
                    most,
                },
            );
        }
    }
    Ok(rows)
}

fn measures(crates: &[Crate]) -> Vec<Measure> {
    let mut measures = Vec::new();
    lines(crates, &mut measures);
    folders(crates, &mut measures);
    lengths(crates, &mut measures);
    records(crates, &mut measures);
    naming(crates, &mut measures);
    structure(crates, &mut measures);
    measures
}

fn lines(crates: &[Crate], measures: &mut Vec<Measure>) {
    measures.push(Measure {
        name: "lines of the product".to_owned(),
        found: crates.iter().map(Crate::lines).sum(),
        otherwise: 0,
        places: vec!["a capability raises it by its budget, in a commit of its own".to_owned()],
    });
    measures.extend(crates.iter().map(|one| Measure {
        name: format!("lines of `{}`", one.folder),
        found: one.lines(),
        otherwise: CRATE_LINES,
        places: vec![one.folder.clone()],
    }));
}

fn folders(crates: &[Crate], measures: &mut Vec<Measure>) {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in crates.iter().flat_map(|one| &one.files) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    measures.extend(folders.into_iter().map(|(folder, found)| Measure {
        name: format!("files of `{folder}`"),
        found,
        otherwise: FOLDER_FILES,
        places: vec!["a folder that is full takes no new file".to_owned()],
    }));
}

fn naming(crates: &[Crate], measures: &mut Vec<Measure>) {
    type Find = fn(&source::File) -> Vec<String>;
    let kinds: [(&str, Find); 3] = [
        (
            "types named by a participle, a verb or a question word",
            names::types,
        ),
        (
            "functions named `look`, `one`, `shown`, `told` or `word`",
            names::of_functions,
        ),
        ("`match` over a truth", names::matched_truths),
    ];
    for (name, find) in kinds {
        let places: Vec<String> = crates
            .iter()
            .flat_map(|one| &one.files)
            .flat_map(find)
            .collect();
        measures.push(Measure {
            name: name.to_owned(),
            found: places.len(),
            otherwise: 0,
            places,
        });
    }
}

fn lengths(crates: &[Crate], measures: &mut Vec<Measure>) {
    let files = crates.iter().flat_map(|one| &one.files);
    let mut all: Vec<_> = files.flat_map(functions::functions).collect();
    all.sort_by_key(|function| std::cmp::Reverse(function.lines));
    for most in [100, 70] {
        let long = all.iter().take_while(|function| function.lines > most);
        let places: Vec<String> = long
            .map(|function| format!("{} lines: {}", function.lines, function.place))
            .collect();
        measures.push(Measure {
            name: format!("functions above {most} lines"),
            found: places.len(),
            otherwise: 0,
            places,
        });
    }
}

fn records(crates: &[Crate], measures: &mut Vec<Measure>) {
    let files = crates.iter().filter(|one| one.folder != RECORDS);
    let mut found = 0;
    let mut places = Vec::new();
    for file in files.flat_map(|one| &one.files) {
        let count = file.code.matches("RecordKind::").count();
        found += count;
        if count > 0 {
            places.push(format!("{count} times: {}", file.path));
        }
    }
    measures.push(Measure {
        name: "`RecordKind::` outside of its crate".to_owned(),
        found,
        otherwise: 0,
        places,
    });
}

/// Circles of imports, and imports against the arrows of rooms.
fn structure(crates: &[Crate], measures: &mut Vec<Measure>) {
    let mut against = Vec::new();
    for product in crates {
        let imports = imports::imports(product);
        let circle = imports::largest_circle(product, &imports);
        measures.push(Measure {
            name: format!("files in a circle of `{}`", product.folder),
            found: circle.len(),
            otherwise: CIRCLE_FILES,
            places: circle
                .iter()
                .map(|index| product.files[*index].path.clone())
                .collect(),
        });
        let rooms = ROOMS.iter().find(|(folder, ..)| *folder == product.folder);
        let Some((_, within, arrows)) = rooms else {
            continue;
        };
        let folder = |index: usize| {
            let mut module = product.files[index].module.iter().map(String::as_str);
            let is_within = within.is_empty() || module.next() == Some(within);
            module.next().filter(|_| is_within)
        };
        for import in imports {
            let room = arrows
                .iter()
                .find(|(name, _)| folder(import.from) == Some(name));
            let Some((from, allowed)) = room else {
                continue;
            };
            // The root of the crate passes on names for other crates.
            let is_root = product.files[import.named].module.is_empty();
            let named = if is_root { import.to } else { import.named };
            for to in [import.to, named] {
                let name = folder(to);
                // What lies outside of the module with the rooms is in none of them.
                let is_outside = !within.is_empty() && name.is_none();
                let is_allowed = |name: &str| name == *from || allowed.contains(&name);
                if !is_outside && !name.is_some_and(is_allowed) {
                    let (from, to) = (&product.files[import.from], &product.files[to]);
                    against.push(format!("{}:{} imports {}", from.path, import.line, to.path));
                    break;
                }
            }
        }
    }
    measures.push(Measure {
        name: "imports against the arrows".to_owned(),
        found: against.len(),
        otherwise: 0,
        places: against,
    });
}

#[cfg(test)]
mod tests {
    use super::source::{Crate, File, product};
    use super::*;

    /// A crate with files of these modules.
    fn crate_of(files: &[(&str, &str)]) -> Crate {
        let file = |(module, code): &(&str, &str)| File {
            path: format!("neroman/life/src/{}.rs", module.replace("::", "/")),
            module: module
                .split("::")
                .filter(|one| !one.is_empty())
                .map(str::to_owned)
                .collect(),
            code: product(code).0,
            lines: code.lines().count(),
        };
        Crate {
            folder: "neroman/life".to_owned(),
            files: files.iter().map(file).collect(),
        }
    }

    fn measure(crates: &[Crate], name: &str) -> Measure {
        let found = measures(crates).into_iter().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn an_import_against_the_arrows_is_told_with_its_line() {
        let own = crate_of(&[
            ("", "pub use fold::run;\n"),
            ("facts", "pub mod made;\n"),
            (
                "facts::made",
                "// use crate::fold::run::Run;\nfn made() -> crate::run::Run {}\n",
            ),
            ("fold", "pub mod run;\n"),
            (
                "fold::run",
                "use crate::facts::made::{\n    self, Made,\n};\n",
            ),
            ("fold::state", "use crate::place::Choice;\n"),
            ("place", "pub use crate::facts::made::Choice;\n"),
        ]);
        let against = measure(&[own], "imports against the arrows");
        let places = [
            "neroman/life/src/facts/made.rs:2 imports neroman/life/src/fold/run.rs",
            "neroman/life/src/fold/state.rs:1 imports neroman/life/src/place.rs",
        ];
        assert_eq!(against.places, places);
    }

    #[test]
    fn rooms_of_a_module_may_import_what_lies_outside_of_it() {
        let imports = "use crate::ledger::L;\nuse super::Man;\nuse super::views::V;\n";
        let daemon = Crate {
            folder: "neroman/daemon".to_owned(),
            ..crate_of(&[
                ("ledger", "use crate::service::views::V;\n"),
                ("service", ""),
                ("service::nodes", imports),
                ("service::views", ""),
            ])
        };
        let against = measure(&[daemon], "imports against the arrows");
        let path = "neroman/life/src/service";
        let expected = format!("{path}/nodes.rs:3 imports {path}/views.rs");
        assert_eq!(against.places, [expected]);
    }

    #[test]
    fn a_circle_is_found_through_names_that_are_passed_on() {
        let own = crate_of(&[
            ("a", "pub use self::b::B;\n"),
            ("a::b", "use super::super::c;\n"),
            ("c", "use crate::a::B;\n"),
            (
                "d",
                "use crate::c;\n#[cfg(test)]\nmod tests {\n    use crate::e;\n}\n",
            ),
            ("e", "use crate::d;\n"),
        ]);
        let circle = measure(&[own], "files in a circle of `neroman/life`");
        assert_eq!(circle.places.len(), 2, "{:?}", circle.places);
        assert!(circle.places[0].ends_with("a/b.rs"), "{:?}", circle.places);
    }

    #[test]
    fn functions_are_as_long_as_from_their_signature_to_their_last_brace() {
        let body = "        let one = \"}\";\n".repeat(99);
        let code = format!(
            "impl Run {{\n    pub(crate) const fn long(\n        &self,\n    ) {{\n{body}    }}\n\n    fn short() {{}}\n}}\n"
        );
        let long = measure(&[crate_of(&[("a", &code)])], "functions above 100 lines");
        assert_eq!(long.places, ["103 lines: neroman/life/src/a.rs:2 long"]);
    }

    #[test]
    fn the_guards_ignore_comments_and_literals() {
        let text = "'a' '\\'' 'life \"// \\\" {\" r#\"\"use\"#\n/* x\n*/ y // z\n";
        assert_eq!(product(text).0, "\"\" \"\" 'life \"\" \"\"\n \n y  ");
    }

    #[test]
    fn a_number_may_fall_and_never_rise() {
        let measure = |name: &str, found| Measure {
            name: name.to_owned(),
            found,
            otherwise: 20,
            places: vec!["there".to_owned()],
        };
        let page = "| guard | at most | goal |\n|---|---|---|\n| files | 1 234 | 20 |\n";
        assert_eq!(compare(page, &[measure("files", 1234)]), Ok(()));
        assert_eq!(
            compare(page, &[measure("files", 7), measure("others", 20)]),
            Ok(())
        );
        for (name, found) in [("files", 1235), ("others", 21)] {
            let why = compare(page, &[measure(name, found)]).unwrap_err();
            assert!(why.starts_with(&format!("{name}: {found}")) && why.contains("there"));
            assert!(why.contains(PAGE), "{why}");
        }
    }
}
