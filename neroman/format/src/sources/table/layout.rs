//! What the YAML file beside a table says of its columns.

use std::collections::HashMap;

use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_table::{Column, Header, ROWS_MAX};
use nero_yaml::{Entry, Fields, Kind, Mark, Node};

use crate::read::fields::{self, Field};

/// Names of the column with the numbers, in the order in which they are looked for.
const NUMBERS: &[&str] = &["nero", "id", "nr", "no", "#"];
/// The name of the column with the names.
const NAME: &str = "name";

/// The parts `table:` and `results:`.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The sheet.
    pub(super) sheet: Option<(String, Mark)>,
    /// The row in which the header begins.
    pub(super) header: Option<u32>,
    /// The rows of the header.
    pub(super) header_rows: Option<u8>,
    /// Whether a row's command is split after it was filled in.
    split: Option<Entry>,
    /// The column of the numbers.
    number: Option<(String, Mark)>,
    /// The column of the names.
    name: Option<(String, Mark)>,
    /// Fields, by the column that has them.
    mapped: Vec<(String, String, Mark)>,
    /// Columns that are parameters whatever they are called.
    params: Vec<(String, Mark)>,
    /// Columns that are no parameters: results, the state, whatever a person notes.
    other: Vec<(String, Mark)>,
    /// The columns for results, with their expressions.
    pub(super) results: Vec<Entry>,
    /// The column for states.
    pub(super) status: Option<(String, Mark)>,
    /// Texts of the owner over which states are written.
    pub(super) status_over: Vec<String>,
}

/// One text or a list of texts.
fn texts(fields: &mut Fields, what: &str, value: &Node) -> Vec<(String, Mark)> {
    let items: Vec<&Node> = match &value.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Scalar { .. } | Kind::Map(_) => vec![value],
    };
    let mut texts = Vec::new();
    for item in items {
        if let Some(text) = fields.single(what, item) {
            texts.push((text.to_owned(), item.mark));
        }
    }
    texts
}

/// What a column is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// The number of the experiment.
    Number,
    /// Its name.
    Name,
    /// A field of the format.
    Field(String),
    /// A key of a field that is a map: `resources/cpus`.
    Part(String, String),
    /// A parameter.
    Param(String),
    /// For people.
    Other,
}

/// The parts of `table`.
const TABLE_WORDS: &[&str] = &[
    "sheet",
    "header",
    "header_rows",
    "parameters",
    "number",
    "name",
    "status",
    "ignore",
    "split",
];

impl Layout {
    /// Reads both parts, and answers the fields that hold for all rows.
    pub(super) fn read(fields: &mut Fields, root: Option<&Node>) -> (Self, Vec<Entry>) {
        let mut layout = Self::default();
        let entries = match root.map(|root| &root.kind) {
            Some(Kind::Map(entries)) => entries.as_slice(),
            Some(Kind::Scalar { .. } | Kind::List(_))
                if root.is_some_and(|root| !root.is_null()) =>
            {
                let mark = root.map_or(Mark { line: 1, column: 1 }, |root| root.mark);
                fields.wrong(
                    mark,
                    "the file beside a table holds fields",
                    "for example `command: python3 main.py {lr}`",
                );
                &[]
            }
            _ => &[],
        };
        let mut others = Vec::new();
        for entry in entries {
            match entry.key.as_str() {
                "table" => layout.table(fields, entry),
                "results" => {
                    let example = "results: {last: loss}";
                    for column in fields.map("results", &entry.value, example) {
                        let Entry { key, key_mark, .. } = column;
                        fields.single(&format!("results.{key}"), &column.value);
                        layout.other.push((key.clone(), *key_mark));
                        layout.results.push(column.clone());
                    }
                }
                key if key.starts_with('+') => fields.wrong(
                    entry.key_mark,
                    format!(
                        "{} stands beside a table, whose rows are the experiments",
                        quoted(key)
                    ),
                    "write fields for all rows here; blocks go into a YAML file of another name",
                ),
                _ => others.push(entry.clone()),
            }
        }
        others.extend(layout.split.take());
        (layout, others)
    }

    fn table(&mut self, fields: &mut Fields, entry: &Entry) {
        let example = "table: {sheet: Plan, number: nr}";
        for entry in fields.map("table", &entry.value, example) {
            let Entry { key, value, .. } = entry;
            let what = format!("table.{key}");
            match key.as_str() {
                "split" => self.split = Some(entry.clone()),
                "header_rows" => {
                    let rows = fields.single(&what, value);
                    let rows = rows.and_then(|text| text.parse::<u8>().ok());
                    match rows.filter(|rows| (1..=2).contains(rows)) {
                        Some(rows) => self.header_rows = Some(rows),
                        None => fields.wrong(value.mark, format!("`{what}` takes 1 or 2"), ""),
                    }
                }
                "header" => {
                    let row = fields.single(&what, value);
                    let row = row.and_then(|text| text.parse::<u32>().ok());
                    match row.filter(|row| (1..=ROWS_MAX).contains(row)) {
                        Some(row) => self.header = Some(row),
                        None => fields.wrong(
                            value.mark,
                            format!("`{what}` takes the number of a row"),
                            "of the one with the names of the columns: `header: 3`",
                        ),
                    }
                }
                "ignore" | "parameters" => {
                    let to = match key.as_str() {
                        "parameters" => &mut self.params,
                        _ => &mut self.other,
                    };
                    to.extend(texts(fields, &what, value));
                }
                "status" => self.status(fields, value),
                "sheet" | "number" | "name" => {
                    let Some(text) = fields.single(&what, value) else {
                        continue;
                    };
                    let given = (text.to_owned(), value.mark);
                    match key.as_str() {
                        "sheet" => self.sheet = Some(given),
                        "number" => self.number = Some(given),
                        _ => self.name = Some(given),
                    }
                }
                key if fields::field(key).is_some() => {
                    if let Some(text) = fields.single(&what, value) {
                        self.mapped
                            .push((key.to_owned(), text.to_owned(), value.mark));
                    }
                }
                _ => fields.unknown(
                    entry,
                    "is no part of `table` and no field that a column could be",
                    TABLE_WORDS,
                    &[],
                ),
            }
        }
    }

    /// Reads `status: COLUMN` or `status: {column: COLUMN, over: [TODO]}`.
    fn status(&mut self, fields: &mut Fields, value: &Node) {
        const WORDS: &[&str] = &["column", "over"];
        let Kind::Map(entries) = &value.kind else {
            if let Some(name) = fields.single("table.status", value) {
                self.other.push((name.to_owned(), value.mark));
                self.status = Some((name.to_owned(), value.mark));
            }
            return;
        };
        for entry in entries {
            match entry.key.as_str() {
                "column" => self.status(fields, &entry.value),
                "over" => {
                    let over = texts(fields, "table.status.over", &entry.value);
                    self.status_over = over.into_iter().map(|(text, _)| text).collect();
                }
                _ => fields.unknown(entry, "is no part of `table.status`", WORDS, &[]),
            }
        }
        if self.status.is_none() {
            fields.wrong(
                value.mark,
                "`table.status` names no column",
                "for example `status: {column: status, over: [TODO]}`",
            );
        }
    }

    /// Whether `table: {number: …}` names the column of the numbers.
    pub(super) fn names_numbers(&self) -> bool {
        self.number.is_some()
    }

    /// The columns that are fields because of what they are called alone.
    pub(super) fn taken<'c>(
        &self,
        header: &'c Header,
        roles: &HashMap<u32, Role>,
    ) -> Vec<&'c Column> {
        let columns = header.columns.iter();
        let is_mapped = |column: &Column| {
            let mut mapped = self.mapped.iter();
            mapped.any(|(_, name, _)| find(&header.columns, name).is_ok_and(|one| one == column))
        };
        let is_taken = |column: &&Column| match roles.get(&column.number) {
            Some(Role::Field(word)) => word != "command" && !is_mapped(column),
            // Nobody calls a group of parameters so.
            Some(Role::Part(field, _)) => field != "resources",
            _ => false,
        };
        columns.filter(is_taken).collect()
    }

    /// The columns with results and states.
    pub(super) fn written(&self, header: &Header) -> Vec<u32> {
        let names = self.results.iter().map(|entry| &entry.key);
        let names = names.chain(self.status.iter().map(|(name, _)| name));
        let columns = names.filter_map(|name| find(&header.columns, name).ok());
        columns.map(|column| column.number).collect()
    }

    /// The roles of the columns that `table` and `results` name.
    fn named_roles(&self, fields: &mut Fields, columns: &[Column]) -> HashMap<u32, Role> {
        let numbers = with_role(self.number.as_slice(), Role::Number);
        let names = with_role(self.name.as_slice(), Role::Name);
        let mapped = self.mapped.iter();
        let mapped = mapped.map(|(field, name, mark)| (name, *mark, Role::Field(field.clone())));
        let other = with_role(&self.other, Role::Other);
        let params = with_role(&self.params, Role::Param(String::new()));
        let named = numbers.chain(names).chain(mapped).chain(other);
        let named = named.chain(params);
        let mut roles: HashMap<u32, Role> = HashMap::new();
        for (name, mark, role) in named {
            let column = match find(columns, name) {
                Ok(column) => column,
                Err(hint) => {
                    let message = format!("the table has no column {}", quoted(name));
                    fields.wrong(mark, message, hint);
                    continue;
                }
            };
            let role = match role {
                Role::Param(_) => Role::Param(param_name(column)),
                role => role,
            };
            let before = roles.insert(column.number, role.clone());
            if let Some(before) = before.filter(|before| *before != role) {
                let message = format!("the column {} is named twice here", quoted(&column.full()));
                fields.wrong(
                    mark,
                    message,
                    format!("it is {} as well", before.description()),
                );
            }
        }
        roles
    }

    /// What each column of the header is.
    pub(super) fn roles(&self, fields: &mut Fields, header: &Header) -> HashMap<u32, Role> {
        let columns = &header.columns;
        let mut roles = self.named_roles(fields, columns);
        if self.number.is_none() {
            let number = NUMBERS.iter().find_map(|word| {
                let is_it = |column: &&Column| {
                    let name = column.name.trim_end_matches('.');
                    column.group.is_none()
                        && name.eq_ignore_ascii_case(word)
                        && !roles.contains_key(&column.number)
                };
                columns.iter().find(is_it)
            });
            if let Some(number) = number {
                roles.insert(number.number, Role::Number);
            }
        }
        let mut taken: Vec<String> = roles
            .values()
            .filter_map(|role| match role {
                Role::Field(field) => Some(field.clone()),
                _ => None,
            })
            .collect();
        let has_name = roles.values().any(|role| *role == Role::Name);
        for column in columns {
            if roles.contains_key(&column.number) {
                continue;
            }
            let role = role_of(column, has_name, &taken);
            if let Role::Field(field) = &role {
                taken.push(field.clone());
            }
            roles.insert(column.number, role);
        }
        roles
    }
}

/// Columns that were named for one role.
fn with_role(named: &[(String, Mark)], role: Role) -> impl Iterator<Item = (&String, Mark, Role)> {
    named
        .iter()
        .map(move |(name, mark)| (name, *mark, role.clone()))
}

/// What a column is called as a parameter.
fn param_name(column: &Column) -> String {
    match column.group.as_deref() {
        Some("parameters") => column.name.clone(),
        Some(_) | None => column.full(),
    }
}

impl Role {
    fn description(&self) -> String {
        match self {
            Self::Number => "the number".to_owned(),
            Self::Name => "the name".to_owned(),
            Self::Field(field) => format!("`{field}`"),
            Self::Part(field, key) => format!("`{field}.{key}`"),
            Self::Param(_) => "a parameter".to_owned(),
            Self::Other => "a column of `results`, `status` or `ignore`".to_owned(),
        }
    }
}

/// The role of a column that the companion YAML does not map.
fn role_of(column: &Column, has_name: bool, taken: &[String]) -> Role {
    let is_field = |word: &str| matches!(fields::field(word), Some(field) if !matches!(field, Field::Parameters));
    // In a header of one row a group is written before its name.
    let (group, name) = match (&column.group, column.name.split_once('/')) {
        (None, Some((group, name))) if is_field(group) || group == "parameters" => {
            (Some(group), name)
        }
        (group, _) => (group.as_deref(), column.name.as_str()),
    };
    match group {
        None if column.name.eq_ignore_ascii_case(NAME) && !has_name => Role::Name,
        None => {
            // `Command` is written for `command`; other capitals are a parameter's.
            let command = column.name.eq_ignore_ascii_case("command");
            let word = if command { "command" } else { &column.name };
            if is_field(word) && !taken.iter().any(|one| one == word) {
                Role::Field(word.to_owned())
            } else {
                Role::Param(column.name.clone())
            }
        }
        Some("parameters") => Role::Param(name.to_owned()),
        Some(group) if is_field(group) => Role::Part(group.to_owned(), name.to_owned()),
        Some(_) => Role::Param(column.full()),
    }
}

/// The column of this name: letter for letter, else without regard to case and blanks.
pub(super) fn find<'c>(columns: &'c [Column], name: &str) -> Result<&'c Column, String> {
    let exact = columns.iter().find(|column| column.full() == name);
    if let Some(column) = exact {
        return Ok(column);
    }
    let plain = |text: &str| -> String {
        let letters = text
            .chars()
            .filter(|c| !c.is_whitespace() && !matches!(c, '_' | '-'));
        letters.flat_map(char::to_lowercase).collect()
    };
    let alike = columns.iter();
    let mut alike = alike.filter(|column| plain(&column.full()) == plain(name));
    if let (Some(column), None) = (alike.next(), alike.next()) {
        return Ok(column);
    }
    let names: Vec<String> = columns.iter().map(Column::full).collect();
    Err(match suggest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", quoted(near)),
        None => {
            let shown: Vec<String> = names.iter().take(12).map(|name| quoted(name)).collect();
            format!("the columns are {}", shown.join(", "))
        }
    })
}
