//! Any other batch system, by the commands and patterns of a configuration: see
//! `docs/schedulers.md`.

mod queue;
mod recipe;
mod submit;
mod template;

use std::borrow::Cow;

use regex::bytes::Regex;

use crate::job::{JobKey, JobName, Queue, QueueRow, Record, State};
use crate::order::{Order, OrderError};
use crate::site::AccountingAccess;
use crate::{Call, CallOutput, Kind, Site, SubmissionResult, Unreadable, Warden};

pub use recipe::{Recipe, RecipeError, WordValue};
use template::Template;

/// Largest array where the configuration gives none.
const ARRAY_MAX: u32 = 1000;
/// Index of the first task where the configuration gives none.
const FIRST: u32 = 1;

/// A scheduler that a configuration describes.
#[derive(Debug)]
pub struct Generic {
    name: String,
    submit: Vec<Template>,
    id: Regex,
    refused: Option<Regex>,
    header: Vec<Template>,
    /// The variable with the job's id.
    job: Option<String>,
    list: Vec<Template>,
    row: Row,
    empty: Option<Regex>,
    cancel: Vec<Template>,
    /// Keeps a waiting job from being started; none where the scheduler cannot.
    hold: Vec<Template>,
    /// Ends a hold.
    release: Vec<Template>,
    array: Option<Array>,
}

/// How a row of the list reads.
#[derive(Debug)]
struct Row {
    pattern: Regex,
    has_name: bool,
    /// The scheduler's words, with what they mean.
    states: Vec<(String, State)>,
}

/// How arrays are submitted.
#[derive(Debug)]
struct Array {
    range: Template,
    at_once: Option<Template>,
    /// The variable with the index of a task.
    index: String,
    first: u32,
    /// One task in a command.
    id: Template,
    /// All of it in a command.
    whole: Template,
    /// The index in the name of an output file.
    output: Option<String>,
    max: u32,
}

impl Generic {
    /// The scheduler of a recipe.
    ///
    /// # Errors
    /// When a word is missing, or does not go with another one.
    pub fn new(recipe: &Recipe) -> Result<Self, RecipeError> {
        let missing = |word, why| RecipeError::Missing { word, why };
        let command = |word, why| {
            let words = recipe.templates_of(word)?;
            if words.is_empty() {
                Err(missing(word, why))
            } else {
                Ok(words)
            }
        };
        let id = recipe.pattern_of("id")?;
        let id = id.ok_or(missing(
            "id",
            "it finds the job's number in what `submit` prints",
        ))?;
        if id.captures_len() < 2 {
            return Err(RecipeError::Group {
                word: "id",
                group: "( ) around the job's number",
            });
        }
        let row = row(recipe)?;
        let job = recipe.text_of("job").map(str::to_owned);
        if job.is_none() && !row.has_name {
            let why = "`row` has no name, so only a start can tell which job it is; `job` is the \
                       variable with its number";
            return Err(missing("job", why));
        }
        let array = if recipe.has_group("array") {
            Some(array(recipe, &row.pattern)?)
        } else {
            None
        };
        let (hold, release) = (
            recipe.templates_of("hold")?,
            recipe.templates_of("release")?,
        );
        if hold.is_empty() != release.is_empty() {
            let word = if hold.is_empty() { "hold" } else { "release" };
            return Err(missing(word, "`hold` and `release` belong together"));
        }
        if !hold.is_empty() && recipe.list_of("states.held").is_empty() {
            let why = "a listing shows by it whether `hold` had an effect";
            return Err(missing("states.held", why));
        }
        Ok(Self {
            hold,
            release,
            name: recipe.text_of("name").unwrap_or("the scheduler").to_owned(),
            submit: command("submit", "the command that takes a job")?,
            id,
            refused: recipe.pattern_of("refused")?,
            header: recipe.templates_of("header")?,
            job,
            list: command("list", "the command that lists your jobs")?,
            row,
            empty: recipe.pattern_of("empty")?,
            cancel: command("cancel", "the command that takes a job away")?,
            array,
        })
    }
}

fn row(recipe: &Recipe) -> Result<Row, RecipeError> {
    let pattern = recipe.pattern_of("row")?;
    let pattern = pattern.ok_or(RecipeError::Missing {
        word: "row",
        why: "it reads a line of what `list` prints",
    })?;
    let has = |group: &str| pattern.capture_names().flatten().any(|name| name == group);
    for (group, written) in [("id", "(?<id>\\d+)"), ("state", "(?<state>\\w+)")] {
        if !has(group) {
            return Err(RecipeError::Group {
                word: "row",
                group: written,
            });
        }
    }
    Ok(Row {
        has_name: has("name"),
        states: queue::states(recipe),
        pattern,
    })
}

fn array(recipe: &Recipe, row: &Regex) -> Result<Array, RecipeError> {
    let missing = |word, why| RecipeError::Missing { word, why };
    if !row.capture_names().flatten().any(|name| name == "task") {
        return Err(RecipeError::Group {
            word: "row",
            group: "(?<task>\\d*) for the tasks of `array`",
        });
    }
    let range = recipe.template_of("array.range")?;
    let index = recipe.text_of("array.index").map(str::to_owned);
    let or = |template: Option<Template>, text| {
        let read = Template::read(text, &["id", "task"]);
        template.unwrap_or_else(|| read.expect("both names are known"))
    };
    Ok(Array {
        range: range.ok_or(missing("array.range", "the indexes, as {first}-{last}"))?,
        at_once: recipe.template_of("array.at_once")?,
        index: index.ok_or(missing("array.index", "the variable with a task's index"))?,
        first: recipe.number_of("array.first").unwrap_or(FIRST),
        id: or(recipe.template_of("array.id")?, "{id}[{task}]"),
        whole: or(recipe.template_of("array.whole")?, "{id}"),
        output: recipe.text_of("array.output").map(str::to_owned),
        max: recipe.number_of("array.max").unwrap_or(ARRAY_MAX),
    })
}

/// The words of a command. A name without a value is an empty text.
fn call(words: &[Template], value: impl Fn(&str) -> Option<String>) -> Call {
    let fill = |word: &Template| {
        let value = |name: &str| Some(value(name).unwrap_or_default());
        word.fill(value).unwrap_or_default()
    };
    let mut words = words.iter().map(fill);
    Call {
        program: words.next().unwrap_or_default().into(),
        words: words.map(Cow::Owned).collect(),
        input: Vec::new(),
    }
}

/// Names that the runner fills, and those of `value`.
fn with_user(name: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    match name {
        "user" => Some("{user}".to_owned()),
        name => value(name),
    }
}

impl Warden for Generic {
    fn kind(&self) -> Kind {
        Kind::Generic
    }

    fn name(&self) -> Cow<'static, str> {
        self.name.clone().into()
    }

    fn program(&self) -> Cow<'static, str> {
        call(&self.submit, |_| None).program
    }

    fn programs_elsewhere(&self) -> Vec<Cow<'static, str>> {
        [&self.list, &self.cancel, &self.hold, &self.release]
            .into_iter()
            .filter(|words| !words.is_empty())
            .map(|words| call(words, |_| None).program)
            .collect()
    }

    fn shows_names(&self) -> bool {
        self.row.has_name
    }

    fn limits_arrays(&self) -> bool {
        let array = self.array.as_ref();
        array.is_some_and(|array| array.at_once.is_some())
    }

    fn first_index(&self) -> u32 {
        self.array.as_ref().map_or(FIRST, |array| array.first)
    }

    fn site_calls(&self) -> Vec<Call> {
        self.queue_calls(&[])
    }

    fn read_site(&self, said: &[CallOutput]) -> Result<Site, Unreadable> {
        self.read_queue(said, &[])?;
        let array = self.array.as_ref();
        Ok(Site {
            array_index_end: array.map(|array| u64::from(array.max) + 1),
            accounting: AccountingAccess::Absent,
            ..Site::default()
        })
    }

    fn script(&self, order: &Order) -> Result<String, OrderError> {
        submit::script(self, order)
    }

    fn submit_call(&self, order: &Order, script: &str) -> Call {
        submit::call(self, order, script)
    }

    fn read_submit(&self, said: &CallOutput) -> SubmissionResult {
        submit::read(self, said)
    }

    fn queue_calls(&self, _: &[&JobName]) -> Vec<Call> {
        vec![call(&self.list, |name| with_user(name, |_| None))]
    }

    fn read_queue(&self, said: &[CallOutput], known: &[JobKey<'_>]) -> Result<Queue, Unreadable> {
        match said {
            [said] => queue::read(self, said, known),
            _ => Err(Unreadable::odd(self.program(), "an answer is missing")),
        }
    }

    fn unread_lines(&self, said: &[CallOutput]) -> Vec<String> {
        said.iter()
            .flat_map(|said| queue::unread(self, said))
            .collect()
    }

    fn ends_calls(&self, _: &[&JobName], _: u64) -> Vec<Call> {
        Vec::new()
    }

    fn read_ends(&self, _: &[CallOutput], _: &[&JobName]) -> Result<Vec<Record>, Unreadable> {
        Ok(Vec::new())
    }

    fn cancel_call(&self, seen: &QueueRow, task: Option<u32>) -> Call {
        submit::about(self, &self.cancel, seen, task)
    }

    fn hold_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        submit::about_each(self, &self.hold, seen)
    }

    fn release_calls(&self, seen: &[(&QueueRow, Option<u32>)]) -> Vec<Call> {
        submit::about_each(self, &self.release, seen)
    }

    fn ring_call(&self, _: &[(&QueueRow, Option<u32>)]) -> Option<Call> {
        None
    }
}
