//! The commands of `tasks.py`.

use nero_format::python::{Literal, literal};
use nero_model::safe::quoted;
use nero_yaml::{Fields, Mark, Mistakes};

use crate::python::{Statement, Token, TokenKind, statements};

/// What a task executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskCommand {
    /// A program and its arguments, without a shell.
    Words(Vec<String>),
    /// A line for `sh`.
    Shell(String),
}

/// A function that executes commands.
#[derive(Debug)]
pub struct Task {
    /// The function's name.
    pub name: String,
    /// What it executes before its command, in this order.
    pub before: Vec<TaskCommand>,
    /// What it executes last.
    pub command: TaskCommand,
    /// Whether it puts the parameters behind the command, as `--name value`.
    pub takes_parameters: bool,
}

/// The functions of a file.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Those that execute a command; never none.
    pub tasks: Vec<Task>,
    /// Names and places of functions that execute none: what they do is Python.
    pub in_python: Vec<(String, Mark)>,
}

/// The variable of a task that holds its command.
const COMMAND: &str = "cmd";

const LITERALS: &str = "`import` executes no Python: write `cmd` as a list of texts, or as a text";

/// Reads a `tasks.py`: in each function the values of `cmd`.
///
/// # Errors
/// Everything about a command that is no literal, with its place.
pub fn tasks(text: &str) -> Result<Tasks, Mistakes> {
    let mut reader = TaskReader {
        fields: Fields::default(),
        found: Tasks::default(),
        function: None,
    };
    match statements(text) {
        Ok(all) => all.iter().for_each(|statement| reader.statement(statement)),
        Err(mistake) => reader.fields.add(mistake),
    }
    reader.end_function();
    let TaskReader {
        mut fields, found, ..
    } = reader;
    if found.tasks.is_empty() && fields.mistakes_mut().next().is_none() {
        let start = Mark { line: 1, column: 1 };
        let message = "no task has a command";
        let hint =
            "a task is a function with a line such as `cmd = [\"python\", \"-u\", \"run.py\"]`";
        fields.wrong(start, message, hint);
    }
    fields.finish()?;
    Ok(found)
}

/// A function whose body is being read.
#[derive(Default)]
struct Function {
    name: String,
    place: Option<Mark>,
    indent: usize,
    /// Of its body; `None`: that has not begun.
    body: Option<usize>,
    before: Vec<TaskCommand>,
    command: Option<TaskCommand>,
    /// Whether something was done with the command.
    is_used: bool,
    takes_parameters: bool,
}

struct TaskReader {
    fields: Fields,
    found: Tasks,
    function: Option<Function>,
}

impl TaskReader {
    fn statement(&mut self, statement: &Statement<'_>) {
        let tokens = statement.tokens.as_slice();
        let ends = |function: &Function| statement.indent <= function.indent;
        if self.function.as_ref().is_some_and(ends) {
            self.end_function();
        }
        if let Some(function) = &mut self.function {
            let body = *function.body.get_or_insert(statement.indent);
            self.within(tokens, statement.indent > body);
        } else if let [def, name, ..] = tokens
            && def.is("def")
        {
            self.function = Some(Function {
                name: name.text.to_owned(),
                place: Some(name.mark),
                indent: statement.indent,
                ..Function::default()
            });
            let colon = tokens.iter().rposition(|token| token.is(":"));
            self.within(&tokens[colon.unwrap_or(0)..], true);
        }
    }

    /// Looks for the command in a statement of a function; `is_nested`: it is perhaps not carried
    /// out.
    fn within(&mut self, tokens: &[Token<'_>], is_nested: bool) {
        let mut depth = 0_usize;
        let outside = |token: &Token<'_>| {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && token.is(COMMAND)
        };
        let Some(at) = tokens.iter().position(outside) else {
            if let Some(function) = &mut self.function {
                function.is_used |= tokens.iter().any(|token| token.is(COMMAND));
            }
            return;
        };
        let starts = at == 0 || tokens[at - 1].is(":");
        let is =
            |offset: usize, text: &str| tokens.get(at + offset).is_some_and(|one| one.is(text));
        let assigns = is(1, "=") && !is(2, "=");
        let compares = ["=", "!", "<", ">"].iter().any(|sign| is(1, sign));
        let changes = starts && ([".", "[", ":", ","].iter().any(|sign| is(1, sign)))
            || starts && is(2, "=") && !compares
            || at > 0 && tokens[at - 1].is("for");
        if !assigns && !changes {
            if let Some(function) = &mut self.function {
                function.is_used = true;
            }
        } else if assigns && starts && at == 0 && !is_nested {
            self.assign(&tokens[2..], tokens[1].mark);
        } else if starts && hands_over(&tokens[at + 1..]) {
            if let Some(function) = &mut self.function {
                function.takes_parameters = true;
            }
        } else {
            let (message, hint) = if assigns {
                let message = "this value of `cmd` depends on what the program does";
                (
                    message,
                    "one line of the function, below no condition, sets it",
                )
            } else {
                let message = "the command is changed here";
                let hint = "write it whole where `cmd` is set; parameters are handed over by \
                            `cmd.append(\"--\" + key)` and `cmd.append(str(par[key]))` alone";
                (message, hint)
            };
            self.fields.wrong(tokens[at].mark, message, hint);
        }
    }

    fn assign(&mut self, value: &[Token<'_>], equals: Mark) {
        match command(value) {
            Ok(command) => {
                if let Some(function) = &mut self.function {
                    let earlier = function.command.replace(command);
                    let was_used = std::mem::take(&mut function.is_used);
                    function.before.extend(earlier.filter(|_| was_used));
                }
            }
            Err((place, why)) => {
                let place = place.unwrap_or(equals);
                self.fields.wrong(place, format!("`cmd`: {why}"), LITERALS);
                // The function has a command, whatever it is.
                if let Some(function) = &mut self.function {
                    function.command = Some(TaskCommand::Words(Vec::new()));
                }
            }
        }
    }

    fn end_function(&mut self) {
        let Some(function) = self.function.take() else {
            return;
        };
        let Some(command) = function.command else {
            let place = function.place.map(|place| (function.name, place));
            self.found.in_python.extend(place);
            return;
        };
        let is_known = self.found.tasks.iter().any(|one| one.name == function.name);
        if let Some(place) = function.place.filter(|_| is_known) {
            let message = format!("there are two tasks {}", quoted(&function.name));
            self.fields.wrong(place, message, "rename one");
        }
        self.found.tasks.push(Task {
            name: function.name,
            before: function.before,
            command,
            takes_parameters: function.takes_parameters,
        });
    }
}

/// Whether this, behind `cmd`, puts a parameter's name or its value at the end of the command.
fn hands_over(tokens: &[Token<'_>]) -> bool {
    let shape: String = tokens
        .iter()
        .map(|token| match token.kind {
            TokenKind::Name if !["append", "str"].contains(&token.text) => "x",
            TokenKind::Text if is_dashes(token.text) => "'--'",
            TokenKind::Name | TokenKind::Number | TokenKind::Text | TokenKind::Sign => token.text,
        })
        .collect();
    let inside = shape
        .strip_prefix(".append(")
        .and_then(|rest| rest.strip_suffix(')'));
    let inside = inside.unwrap_or_default();
    let inside = inside
        .strip_prefix("str(")
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or(inside);
    ["'--'+x", "x[x]"].contains(&inside)
}

fn is_dashes(text: &str) -> bool {
    literal(text) == Some(Literal::Text("--".to_owned()))
}

/// The command that a literal is; else the place of what is none, and why.
fn command(tokens: &[Token<'_>]) -> Result<TaskCommand, (Option<Mark>, String)> {
    let (is_list, inside) = match tokens {
        [open, inside @ .., close] if open.is("[") && close.is("]") => (true, inside),
        [open, inside @ .., close] if open.is("(") && close.is(")") => return command(inside),
        other => (false, other),
    };
    let mut texts: Vec<String> = Vec::new();
    // Texts beside each other are one.
    let mut is_open = false;
    for (at, token) in inside.iter().enumerate() {
        match (token.kind, texts.last_mut()) {
            (TokenKind::Text, Some(last)) if is_open => last.push_str(&text(token)?),
            (TokenKind::Text, _) if is_list || at == 0 => texts.push(text(token)?),
            _ if token.is(",") && is_list && is_open => {}
            _ => return Err((Some(token.mark), refused(token, inside.get(at + 1)))),
        }
        is_open = token.kind == TokenKind::Text;
    }
    match texts.first() {
        _ if tokens.is_empty() => Err((None, "it has no value".to_owned())),
        Some(first) if !first.trim().is_empty() => Ok(match texts.pop() {
            Some(line) if !is_list => TaskCommand::Shell(line),
            last => TaskCommand::Words(texts.into_iter().chain(last).collect()),
        }),
        _ => Err((Some(tokens[0].mark), "it is empty".to_owned())),
    }
}

/// The text of a literal.
fn text(token: &Token<'_>) -> Result<String, (Option<Mark>, String)> {
    if let Some(Literal::Text(text)) = literal(token.text) {
        return Ok(text);
    }
    let prefix = token.text.split(['\'', '"']).next().unwrap_or_default();
    let what = match prefix.to_ascii_lowercase() {
        prefix if prefix.contains(['f', 't']) => "holds expressions, which Python fills in",
        prefix if prefix.contains('b') => "is bytes, not text",
        _ => "is no text that can be read here",
    };
    Err((Some(token.mark), format!("{} {what}", quoted(token.text))))
}

/// Why a token is no part of a literal.
fn refused(token: &Token<'_>, next: Option<&Token<'_>>) -> String {
    let name = quoted(token.text);
    match token.kind {
        TokenKind::Name if next.is_some_and(|next| next.is("(")) => format!("{name} is called"),
        TokenKind::Name => format!("{name} is a name, not a text"),
        TokenKind::Number => format!("{name} is a number, not a text: quote it"),
        TokenKind::Text | TokenKind::Sign => format!("{name} makes it an expression"),
    }
}
