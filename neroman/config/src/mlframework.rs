//! The files in which mlframework names its hosts: `config.sh` with its variables, and `infra.csv`,
//! which its `infrainit.sh` makes of them. Both are read as data: nothing in them is executed, and
//! a line that is more than a value is a mistake with its place. Read for `infra up -f` and by
//! `import`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use nero_model::names::word_hint;
use nero_model::safe::quoted;
use nero_yaml::{Fields, Mark, Mistakes};

use crate::mistake::ConfigError;

/// No honest list of hosts is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The variables of `config.sh`.
const VARIABLES: &[&str] = &[
    "REMOTE_PATH",
    "PROJ_FOLDER",
    "REMOTE",
    "KEY",
    "BROKER_ADDRESS",
    "START_MASTER",
    "START_WORKER",
];
/// The rows of `infra.csv`, and the variables that have the same.
const ROWS: &[&str] = &[
    "remote_path",
    "folder",
    "hosts",
    "key",
    "broker",
    "master",
    "workers",
];

/// Hosts and how they are reached, as mlframework has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MlframeworkHosts {
    /// As `ssh` takes them. mlframework counts them from 1; 0 is this machine.
    pub hosts: Vec<String>,
    /// The hosts that execute tasks, by their numbers; every one of `hosts` unless given.
    pub workers: Vec<usize>,
    /// Path of the private key for all of them.
    pub key: Option<String>,
    /// The folder there, below the home.
    pub remote_path: Option<String>,
    /// The project's folder, below the one in which the file lies.
    pub folder: Option<String>,
    /// Whether a master or a broker is named.
    pub names_master: bool,
}

/// A value and its place.
type PlacedText<'t> = (&'t str, Mark);

impl MlframeworkHosts {
    /// Reads a file; one whose name ends in `.csv` as `infra.csv`, any other as `config.sh`.
    ///
    /// # Errors
    /// When the file cannot be read, or with every mistake in it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Read {
            path: path.to_path_buf(),
            source,
        };
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(unreadable)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge {
                path: path.to_path_buf(),
            });
        }
        let is_table = path.extension().is_some_and(|ending| ending == "csv");
        let read = if is_table {
            Self::of_table(&text)
        } else {
            Self::of_variables(&text)
        };
        read.map_err(|mistakes| ConfigError::Mistakes {
            path: path.to_path_buf(),
            mistakes,
        })
    }

    /// Reads what a command line has: `[user@]host,…`, and numbers of hosts or `local`. Empty
    /// numbers mean all hosts.
    ///
    /// # Errors
    /// Every mistake, with its place in its word.
    pub fn of_words(hosts: &str, workers: &str) -> Result<Self, Mistakes> {
        let mut reader = LineReader::default();
        let place = Mark { line: 1, column: 1 };
        let mut values = [None; ROWS.len()];
        values[row("hosts")] = Some((hosts, place)).filter(|(text, _)| !text.is_empty());
        values[row("workers")] = Some((workers, place)).filter(|(text, _)| !text.is_empty());
        let read = reader.hosts(&values);
        reader.fields.finish().map(|()| read)
    }

    /// Reads the text of a `config.sh`.
    ///
    /// # Errors
    /// Every mistake, with its place.
    pub fn of_variables(text: &str) -> Result<Self, Mistakes> {
        let mut reader = LineReader::default();
        let mut values = [None; ROWS.len()];
        for (number, line) in reader.lines(text) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, value)) = reader.variable(number, line) else {
                continue;
            };
            // `-i` of infrainit.sh wrote the option with its value.
            let (text, mark) = value;
            let value = match text.strip_prefix("-i ") {
                Some(path) if name == "KEY" => (path.trim_start(), mark),
                Some(_) | None => (text, mark),
            };
            reader.keep(&mut values, (VARIABLES, name), at(number, 1), value);
        }
        let read = reader.hosts(&values);
        reader.fields.finish().map(|()| read)
    }

    /// Reads the text of an `infra.csv`.
    ///
    /// # Errors
    /// Every mistake, with its place.
    pub fn of_table(text: &str) -> Result<Self, Mistakes> {
        let mut reader = LineReader::default();
        let mut values = [None; ROWS.len()];
        for (number, line) in reader.lines(text) {
            if line.trim().is_empty() {
                continue;
            }
            let (name, value) = line.split_once(',').unwrap_or((line, ""));
            let mut mark = at(number, name.chars().count() + 2);
            let mut value = value;
            if name == "hosts" {
                // Number 0 of the list.
                let Some(rest) = value.strip_prefix("localhost") else {
                    let message = "the first host is `localhost`, number 0";
                    reader.fields.wrong(mark, message, "hosts,localhost,h1,h2");
                    continue;
                };
                mark.column += 10;
                value = rest.strip_prefix(',').unwrap_or(rest);
            }
            reader.keep(&mut values, (ROWS, name), at(number, 1), (value, mark));
        }
        for name in ["hosts", "workers"] {
            let is_missing = !reader.seen[row(name)];
            if is_missing && reader.fields.count() == 0 {
                let message = format!("the row {} is missing", quoted(name));
                let end = at(text.lines().count().max(1), 1);
                reader.fields.wrong(end, message, format!("{name},…"));
            }
        }
        let read = reader.hosts(&values);
        reader.fields.finish().map(|()| read)
    }
}

/// The place of a row's value.
fn row(name: &str) -> usize {
    ROWS.iter().position(|row| *row == name).unwrap_or(0)
}

fn at(line: usize, column: usize) -> Mark {
    let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
    Mark {
        line: number(line),
        column: number(column),
    }
}

/// Collects mistakes.
#[derive(Default)]
struct LineReader {
    fields: Fields,
    /// The values that were given, by their rows.
    seen: [bool; ROWS.len()],
}

impl LineReader {
    /// The lines with their numbers. A text with other line ends than those of Unix has none.
    fn lines<'t>(&mut self, text: &'t str) -> Vec<(usize, &'t str)> {
        let lines = (1..).zip(text.split('\n'));
        let with_return = lines.clone().find(|(_, line)| line.contains('\r'));
        let Some((number, line)) = with_return else {
            return lines.collect();
        };
        let column = line
            .split('\r')
            .next()
            .map_or(1, |text| text.chars().count() + 1);
        let hint = "save the file with the line ends of Unix";
        self.fields
            .wrong(at(number, column), "the line holds a carriage return", hint);
        Vec::new()
    }

    /// A line `NAME="value"`.
    fn variable<'t>(&mut self, number: usize, line: &'t str) -> Option<(&'t str, PlacedText<'t>)> {
        let hint = "the file is read and not executed: each line is NAME=\"value\"";
        let named = line.split_once("=\"").filter(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        });
        let Some((name, rest)) = named else {
            let message = format!("{} is no variable with its value", quoted(line));
            self.fields.wrong(at(number, 1), message, hint);
            return None;
        };
        let begin = name.chars().count() + 3;
        let odd = |c: char| matches!(c, '"' | '$' | '`' | '\\') || c.is_control();
        let end = rest.find(odd).unwrap_or(rest.len());
        if &rest[end..] == "\"" {
            return Some((name, (&rest[..end], at(number, begin))));
        }
        let mut place = at(number, begin + rest[..end].chars().count());
        let mut after = rest[end..].chars();
        let message = match (after.next(), after.next()) {
            (Some('"'), Some(more)) => {
                place.column += 1;
                format!("{} stands behind the value", quoted(&more.to_string()))
            }
            (Some(odd), _) => format!("{} is no part of a plain value", quoted(&odd.to_string())),
            (None, _) => "the value has no end".to_owned(),
        };
        self.fields.wrong(place, message, hint);
        None
    }

    /// Keeps a value under one of `names`.
    fn keep<'t>(
        &mut self,
        values: &mut [Option<PlacedText<'t>>; ROWS.len()],
        (names, name): (&[&str], &str),
        place: Mark,
        value: PlacedText<'t>,
    ) {
        let Some(index) = names.iter().position(|known| *known == name) else {
            let message = format!("{} is no setting of mlframework", quoted(name));
            let hint = word_hint(name, names, &[]);
            return self.fields.wrong(place, message, hint);
        };
        if std::mem::replace(&mut self.seen[index], true) {
            let message = format!("{} is given twice", quoted(name));
            return self.fields.wrong(place, message, "keep one of them");
        }
        if value.0.contains(char::is_control) {
            let message = format!("the value of {} holds a control character", quoted(name));
            return self.fields.wrong(value.1, message, "");
        }
        values[index] = Some(value).filter(|(text, _)| !text.is_empty());
    }

    fn hosts(&mut self, values: &[Option<PlacedText<'_>>; ROWS.len()]) -> MlframeworkHosts {
        let value = |name| values[row(name)];
        let text = |name| value(name).map(|(text, _): PlacedText<'_>| text.to_owned());
        let before = self.fields.count();
        let hosts = value("hosts").map_or_else(Vec::new, |list| self.addresses(list));
        let is_lost = value("hosts").is_none() && before > 0;
        if is_lost || self.fields.count() > before {
            // Which numbers there are is not known.
            return MlframeworkHosts::default();
        }
        let last = hosts.len();
        let workers = match value("workers") {
            Some(list) => self.numbers(list, last),
            None => (1..=last).collect(),
        };
        if let Some(list) = value("master") {
            self.numbers(list, last);
        }
        MlframeworkHosts {
            hosts,
            workers,
            key: text("key"),
            remote_path: text("remote_path"),
            folder: text("folder"),
            names_master: value("master").or(value("broker")).is_some(),
        }
    }

    /// `[user@]host,…`
    fn addresses(&mut self, list: PlacedText<'_>) -> Vec<String> {
        let mut hosts: Vec<String> = Vec::new();
        for (host, place) in items(list) {
            let odd = |c: char| c.is_whitespace() || c.is_control();
            if host.is_empty() {
                self.fields
                    .wrong(place, "a host is empty", "for example me@h1,h2");
            } else if host.starts_with('-') || host.contains(odd) {
                let message = format!("{} is no address of `ssh`", quoted(host));
                self.fields.wrong(place, message, "for example me@h1,h2");
            } else if hosts.iter().any(|known| known == host) {
                let message = format!("the host {} is given twice", quoted(host));
                self.fields.wrong(place, message, "keep one of them");
            } else {
                hosts.push(host.to_owned());
            }
        }
        hosts
    }

    /// Numbers of hosts, up to `last`; `local` is 0.
    fn numbers(&mut self, list: PlacedText<'_>, last: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        for (word, place) in items(list) {
            let number = match word {
                "local" => Some(0),
                _ => word.parse().ok().filter(|number| *number <= last),
            };
            match number {
                None => {
                    let message = format!("{} is no number of a host", quoted(word));
                    let hint = match last {
                        0 => "no host is given: 0 or `local` is this machine".to_owned(),
                        last => {
                            format!("hosts count from 1 to {last}; 0 or `local` is this machine")
                        }
                    };
                    self.fields.wrong(place, message, hint);
                }
                Some(number) if numbers.contains(&number) => {
                    let message = format!("host {number} is given twice");
                    self.fields.wrong(place, message, "keep one of them");
                }
                Some(number) => numbers.push(number),
            }
        }
        numbers
    }
}

/// Parts between commas, with their places.
fn items((text, mut place): PlacedText<'_>) -> impl Iterator<Item = PlacedText<'_>> {
    text.split(',').map(move |item| {
        let begin = place;
        let width = item.chars().count() + 1;
        place.column = place
            .column
            .saturating_add(u32::try_from(width).unwrap_or(u32::MAX));
        (item, begin)
    })
}
