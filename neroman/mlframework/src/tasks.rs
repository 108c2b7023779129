//! The commands of `tasks.py`.

use nero_model::safe::quoted;
use nero_noodles::{Literal, literal};
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
    /// Names and places of tasks that execute none: what they do is Python.
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
    let mut reader = Reader {
        fields: Fields::default(),
        found: Tasks::default(),
        function: None,
        is_decorated: false,
    };
    match statements(text) {
        Ok(all) => all.iter().for_each(|statement| reader.statement(statement)),
        Err(mistake) => reader.fields.add(mistake),
    }
    reader.end_function();
    let Reader {
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
struct Function {
    name: String,
    place: Mark,
    indent: usize,
    /// Of its body; `None`: that has not begun.
    body: Option<usize>,
    is_decorated: bool,
    before: Vec<TaskCommand>,
    command: Option<TaskCommand>,
    /// Whether something was done with the command.
    is_used: bool,
    takes_parameters: bool,
}

struct Reader {
    fields: Fields,
    found: Tasks,
    function: Option<Function>,
    /// Whether the next function is registered as a task.
    is_decorated: bool,
}

impl Reader {
    fn statement(&mut self, statement: &Statement<'_>) {
        let tokens = statement.tokens.as_slice();
        let ends = |function: &Function| statement.indent <= function.indent;
        if self.function.as_ref().is_some_and(ends) {
            self.end_function();
        }
        if let (None, [def, name, ..]) = (&self.function, tokens)
            && def.is("def")
        {
            self.function = Some(Function {
                name: name.text.to_owned(),
                place: name.mark,
                indent: statement.indent,
                body: None,
                is_decorated: std::mem::take(&mut self.is_decorated),
                before: Vec::new(),
                command: None,
                is_used: false,
                takes_parameters: false,
            });
            let colon = tokens.iter().rposition(|token| token.is(":"));
            return self.within(&tokens[colon.unwrap_or(0)..], true);
        }
        if tokens[0].is("@") {
            self.is_decorated |= tokens.iter().any(|token| token.is("task"));
        }
        if let Some(function) = &mut self.function {
            let body = *function.body.get_or_insert(statement.indent);
            self.within(tokens, statement.indent > body);
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
            if function.is_decorated {
                self.found.in_python.push((function.name, function.place));
            }
            return;
        };
        if self.found.tasks.iter().any(|one| one.name == function.name) {
            let message = format!("there are two tasks {}", quoted(&function.name));
            self.fields.wrong(function.place, message, "rename one");
        }
        self.found.tasks.push(Task {
            name: function.name,
            before: function.before,
            command,
            takes_parameters: function.takes_parameters,
        });
    }
}

/// Whether this, behind `cmd`, is `.append("--" + key)` or `.append(str(par[key]))`, with or
/// without a `str` around.
fn hands_over(tokens: &[Token<'_>]) -> bool {
    let [dot, append, open, inside @ .., close] = tokens else {
        return false;
    };
    if !(dot.is(".") && append.is("append") && open.is("(") && close.is(")")) {
        return false;
    }
    let inside = match inside {
        [name, open, inside @ .., close] if name.is("str") && open.is("(") && close.is(")") => {
            inside
        }
        other => other,
    };
    let is_name = |token: &Token<'_>| token.kind == TokenKind::Name;
    match inside {
        [dashes, plus, key] => {
            let is_dashes = literal(dashes.text) == Some(Literal::Text("--".to_owned()));
            is_dashes && plus.is("+") && is_name(key)
        }
        [map, open, key, close] => is_name(map) && open.is("[") && is_name(key) && close.is("]"),
        _ => false,
    }
}

/// The command that a literal is; else the place of what is none, and why.
fn command(tokens: &[Token<'_>]) -> Result<TaskCommand, (Option<Mark>, String)> {
    let command = match tokens {
        [open, items @ ..] if open.is("[") => TaskCommand::Words(words(items)?),
        [open, inside @ .., close] if open.is("(") && close.is(")") => return command(inside),
        _ => {
            let (text, rest) = text(tokens)?;
            if let [next, ..] = rest {
                return Err(refused(next, rest));
            }
            TaskCommand::Shell(text)
        }
    };
    let is_empty = match &command {
        TaskCommand::Words(words) => words.first().is_none_or(String::is_empty),
        TaskCommand::Shell(line) => line.trim().is_empty(),
    };
    if is_empty {
        return Err((
            tokens.first().map(|token| token.mark),
            "it is empty".to_owned(),
        ));
    }
    Ok(command)
}

/// The texts of a list, from behind its bracket on.
fn words(mut tokens: &[Token<'_>]) -> Result<Vec<String>, (Option<Mark>, String)> {
    let mut words = Vec::new();
    loop {
        if let [close, rest @ ..] = tokens
            && close.is("]")
        {
            return match rest {
                [] => Ok(words),
                [next, ..] => Err(refused(next, rest)),
            };
        }
        let (word, rest) = text(tokens)?;
        words.push(word);
        tokens = match rest {
            [comma, rest @ ..] if comma.is(",") => rest,
            [close, ..] if close.is("]") => rest,
            [next, ..] => return Err(refused(next, rest)),
            [] => rest,
        };
    }
}

/// Texts beside each other, which are one, and what follows.
fn text<'a, 't>(
    tokens: &'a [Token<'t>],
) -> Result<(String, &'a [Token<'t>]), (Option<Mark>, String)> {
    let is_text = |token: &&Token<'_>| token.kind == TokenKind::Text;
    let count = tokens.iter().take_while(is_text).count();
    let (texts, rest) = tokens.split_at(count);
    if count == 0 {
        return Err(match tokens {
            [first, ..] => refused(first, tokens),
            [] => (None, "it has no value".to_owned()),
        });
    }
    let mut whole = String::new();
    for token in texts {
        match literal(token.text) {
            Some(Literal::Text(text)) => whole.push_str(&text),
            _ => {
                let prefix = token.text.split(['\'', '"']).next().unwrap_or_default();
                let what = match prefix.to_ascii_lowercase() {
                    prefix if prefix.contains(['f', 't']) => {
                        "holds expressions, which Python fills in"
                    }
                    prefix if prefix.contains('b') => "is bytes, not text",
                    _ => "is no text that can be read here",
                };
                return Err((Some(token.mark), format!("{} {what}", quoted(token.text))));
            }
        }
    }
    Ok((whole, rest))
}

/// Why a token is no part of a literal.
fn refused(token: &Token<'_>, tokens: &[Token<'_>]) -> (Option<Mark>, String) {
    let calls = tokens.get(1).is_some_and(|next| next.is("("));
    let name = quoted(token.text);
    let why = match token.kind {
        TokenKind::Name if calls => format!("{name} is called"),
        TokenKind::Name => format!("{name} is a name, not a text"),
        TokenKind::Number => format!("{name} is a number, not a text: quote it"),
        TokenKind::Text => format!("{name} stands where no text does"),
        TokenKind::Sign => format!("{name} makes it an expression"),
    };
    (Some(token.mark), why)
}
