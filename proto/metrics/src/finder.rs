//! Finds the numbers of a line: by the spec's patterns, as JSON, as a row of a table,
//! or as text; of a file whose name tells its form, by that form alone.

use regex::bytes::Regex;

use crate::file::FileForm;
use crate::found::LinePairs;
use crate::json;
use crate::labels::label::{self, Label};
use crate::labels::labeller::Labeller;
use crate::labels::scope::{self, Scope};
use crate::pattern::{self, Pattern, PatternError};
use crate::progress::{self, OuterSteps};
use crate::tables::columns::Columns;
use crate::tables::table::{Table, TableStage};
use crate::text::pairs;
use crate::tokens::step::Phrase;
use crate::tokens::{heading, step};

/// What an experiment says of how its output is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinderOptions {
    /// Patterns with named groups.
    pub patterns: Vec<String>,
    /// Lines that none of these match are not looked at, unless there is none.
    pub only: Vec<String>,
    /// Lines that one of these matches are not looked at.
    pub skip: Vec<String>,
    /// Whether a comma between digits is the decimal point.
    pub decimal_comma: bool,
    /// Whether tables are not read.
    pub no_tables: bool,
}

/// How the lines of a log or file are read.
#[derive(Debug, Default)]
enum Form {
    #[default]
    Printed,
    Columns(Columns),
    Json,
}

/// What earlier lines of a log mean for its next line.
#[derive(Debug, Default)]
pub struct Context {
    form: Form,
    step: Option<f64>,
    table: Table,
    /// Whether the last line may hold the names of a table.
    is_header: bool,
    /// The steps that later progress bars are within.
    outer: Option<OuterSteps>,
    scope: Scope,
}

impl Context {
    /// Whether there is a table before the present one, whose rows may go on.
    pub fn has_former_table(&self) -> bool {
        self.table.has_former()
    }

    /// Returns whether that table came back since the last call.
    pub fn take_restored_table(&mut self) -> bool {
        self.table.take_restored()
    }

    /// What the lines so far tell of the set that the next line belongs to.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The context of the first line of a file.
    pub fn of_file(form: FileForm, decimal_comma: bool) -> Self {
        let form = match form {
            FileForm::Printed => Form::Printed,
            FileForm::JsonLines | FileForm::Document => Form::Json,
            FileForm::Columns(sign) => {
                Form::Columns(Columns::new(sign).with_decimal_comma(decimal_comma))
            }
        };
        Self {
            form,
            ..Self::default()
        }
    }

    /// The step that lines without one have.
    pub fn step(&self) -> Option<f64> {
        self.step
    }

    /// The steps that later progress bars are within.
    pub fn outer(&self) -> Option<OuterSteps> {
        self.outer
    }

    /// How far the table has come.
    pub fn stage(&self) -> TableStage {
        match &self.form {
            Form::Columns(columns) => columns.stage(),
            Form::Printed | Form::Json => self.table.stage(),
        }
    }

    /// Whether the last line may hold the names of a table.
    pub fn is_header(&self) -> bool {
        self.is_header
    }
}

/// Finds numbers; keeps its buffers from line to line.
#[derive(Debug, Default)]
pub struct Finder {
    patterns: Vec<Pattern>,
    only: Vec<Regex>,
    skip: Vec<Regex>,
    decimal_comma: bool,
    no_tables: bool,
    found: LinePairs,
    labeller: Labeller,
    plain: Vec<u8>,
    pointed: Vec<u8>,
}

impl Finder {
    /// Reads as the spec says. Returns the errors of patterns that cannot be used.
    pub fn new(reading: &FinderOptions) -> (Self, Vec<PatternError>) {
        let mut errors = Vec::new();
        let patterns = usable(&reading.patterns, Pattern::new, &mut errors);
        let finder = Self {
            patterns,
            only: usable(&reading.only, pattern::compile, &mut errors),
            skip: usable(&reading.skip, pattern::compile, &mut errors),
            decimal_comma: reading.decimal_comma,
            no_tables: reading.no_tables,
            ..Self::default()
        };
        (finder, errors)
    }

    /// The context as a former reader of a log left it: the step that it carried, the steps that
    /// progress bars are within, what its lines told of sets, and its tables. Of the table before
    /// the present one and of that one come the lines from its line of names on, and how far it
    /// had come: its first row tells how the names are cut, so these lines are read once more.
    pub fn resumed(
        &mut self,
        step: Option<f64>,
        outer: Option<OuterSteps>,
        scope: Scope,
        tables: [Option<(&[u8], TableStage)>; 2],
    ) -> Context {
        let [former, table] = tables.map(|known| {
            let (text, stage) = known?;
            let mut read = Context {
                table: Table::before_its_names(),
                scope,
                ..Context::default()
            };
            for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
                self.find(line, &mut read);
                if [stage, TableStage::None].contains(&read.stage()) {
                    break;
                }
            }
            (read.stage() == stage).then_some(read.table)
        });
        Context {
            step,
            table: table.map_or_else(Table::default, |table| table.behind(former)),
            outer,
            scope,
            ..Context::default()
        }
    }

    /// The pairs and the step of the next line of a log.
    pub fn find(&mut self, line: &[u8], context: &mut Context) -> &LinePairs {
        self.found.clear();
        context.is_header = false;
        match &mut context.form {
            Form::Printed => {}
            Form::Columns(columns) => {
                context.is_header = columns.line(line, &mut self.found);
                self.found.progress = progress::named_done(&self.found);
                return &self.found;
            }
            Form::Json => {
                json::find(line.trim_ascii(), &mut self.found);
                self.found.take_step_of_pairs();
                self.found.progress = progress::named_done(&self.found);
                return &self.found;
            }
        }
        if memchr::memchr(0x1b, line).is_some() {
            let mut plain = std::mem::take(&mut self.plain);
            without_escapes(line, &mut plain);
            self.find_plain(&plain, context);
            self.plain = plain;
        } else {
            self.find_plain(line, context);
        }
        &self.found
    }

    /// The result of the last [`Finder::find`].
    pub fn found(&self) -> &LinePairs {
        &self.found
    }

    fn find_plain(&mut self, line: &[u8], context: &mut Context) {
        let text = line.trim_ascii();
        if text.is_empty() || !self.is_looked_at(text) {
            return;
        }
        if self.decimal_comma && memchr::memchr(b',', line).is_some() {
            let mut pointed = std::mem::take(&mut self.pointed);
            with_points(line, &mut pointed);
            self.find_ranked(&pointed, context);
            self.pointed = pointed;
        } else {
            self.find_ranked(line, context);
        }
    }

    fn is_looked_at(&self, text: &[u8]) -> bool {
        let matches = |patterns: &[Regex]| patterns.iter().any(|one| one.is_match(text));
        (self.only.is_empty() || matches(&self.only)) && !matches(&self.skip)
    }

    /// Lines of other ranks than 0 have no context, so that ranks do not mix.
    fn find_ranked(&mut self, line: &[u8], context: &mut Context) {
        let text = line.trim_ascii_start();
        match heading::rank(text).or_else(|| self.rank_in_front(text, context)) {
            Some((rank, prefix)) => {
                let text = &text[prefix..];
                if rank == 0 {
                    self.find_in_context(text, context);
                } else {
                    self.find_in_context(text, &mut Context::default());
                    self.found.of_rank(rank);
                    self.found.progress = None;
                }
            }
            None => self.find_in_context(line, context),
        }
    }

    /// The rank that `srun --label` puts in front: `0: loss 0.3`. That it does so is known from
    /// the first text of rank 0, or a line that has a step of its own.
    fn rank_in_front(&mut self, text: &[u8], context: &mut Context) -> Option<(u32, usize)> {
        let (rank, prefix) = heading::number_in_front(text)?;
        if !context.scope.has_ranks_in_front {
            let behind = text[prefix..].trim_ascii();
            pairs::find(behind, &mut self.found);
            let is_text = self.found.is_empty() && rank == 0;
            let has_step = step::phrase(behind).is_some();
            self.found.clear();
            context.scope.has_ranks_in_front = is_text || has_step;
        }
        context.scope.has_ranks_in_front.then_some((rank, prefix))
    }

    fn find_in_context(&mut self, line: &[u8], context: &mut Context) {
        self.find_alone(line, context);
        let found = &mut self.found;
        match found.step {
            Some(step) if found.is_heading => context.step = Some(step),
            Some(_) => {}
            None => found.carried = context.step,
        }
        found.progress = progress::find(line.trim_ascii(), found, &mut context.outer);
    }

    fn find_alone(&mut self, line: &[u8], context: &mut Context) {
        let found = &mut self.found;
        let text = line.trim_ascii();
        let mut matched = false;
        for pattern in &mut self.patterns {
            matched |= pattern.find(text, found);
        }
        if matched {
            return;
        }
        if json::find(text, found) {
            found.take_step_of_pairs();
            json::write_group(found, context.scope.labels);
            return;
        }
        if !self.no_tables
            && let Some(mut labels) = context.table.row(line, found)
        {
            take_step(found, &mut context.scope);
            let above = context.scope.labels;
            if labels.group.is_none() {
                labels.group = above.group;
            }
            if labels.set.is_none() {
                labels.set = above.set;
            }
            label::write_all(found, labels, ' ');
            return;
        }
        pairs::find(text, found);
        if !found.is_empty() {
            context.table.interrupted();
        }
        if has_values(found) {
            self.find_labels(text, context);
            return;
        }
        let begins_with_step = found.is_heading && found.step.is_some();
        // `Epoch 8/50` tells no set.
        let is_step_alone = |phrase: Phrase| phrase.length == text.len();
        if !found.phrase_at(0).is_some_and(is_step_alone)
            && let Some(heading) = scope::heading(text)
        {
            context.scope.enter(&heading, begins_with_step);
            return;
        }
        take_step(found, &mut context.scope);
        if found.is_empty() && !self.no_tables {
            context.is_header = context.table.other(line);
        }
    }

    /// Names the pairs by the sets that the line and those above it tell.
    fn find_labels(&mut self, line: &[u8], context: &mut Context) {
        let (found, scope) = (&mut self.found, &mut context.scope);
        let tells_set = self.labeller.read(line, found);
        if !tells_set {
            take_step(found, scope);
        }
        let mut above = scope.labels;
        let is_sum = line.starts_with(b"*") && scope.is_behind_parts;
        if is_sum && !tells_set {
            above.set = Label::new(b"*");
        }
        scope.is_behind_parts = found.is_counted || tells_set && scope.is_behind_parts;
        self.labeller.write(line, found, above);
    }
}

/// Whether a line has numbers but those of steps and parts.
fn has_values(found: &LinePairs) -> bool {
    let mut values = found.values().zip(found.kinds());
    values.any(|(value, kind)| {
        let is_part = kind.is_group && value.fract() == 0.0 && value >= 0.0;
        !kind.is_step && !is_part
    })
}

/// Lets the step with which a line begins count for the sets of the lines above.
fn take_step(found: &LinePairs, scope: &mut Scope) {
    match found.step {
        Some(step) if found.is_heading => scope.step(found.step_rank, step),
        Some(_) | None if !found.is_empty() => scope.numbers(),
        Some(_) | None => {}
    }
}

fn usable<T>(
    patterns: &[String],
    compile: impl Fn(&str) -> Result<T, PatternError>,
    errors: &mut Vec<PatternError>,
) -> Vec<T> {
    let mut usable = Vec::new();
    for pattern in patterns {
        match compile(pattern) {
            Ok(one) => usable.push(one),
            Err(error) => errors.push(error),
        }
    }
    usable
}

/// Copies a line with a point for each comma between digits.
fn with_points(line: &[u8], pointed: &mut Vec<u8>) {
    pointed.clear();
    pointed.extend_from_slice(line);
    let is_digit = |at: usize| line.get(at).is_some_and(u8::is_ascii_digit);
    for comma in memchr::memchr_iter(b',', line) {
        if comma > 0 && is_digit(comma - 1) && is_digit(comma + 1) {
            pointed[comma] = b'.';
        }
    }
}

/// Copies a line without its escape sequences (colours, titles, cursor).
fn without_escapes(line: &[u8], plain: &mut Vec<u8>) {
    plain.clear();
    let mut at = 0;
    while let Some(escape) = memchr::memchr(0x1b, &line[at..]) {
        plain.extend_from_slice(&line[at..at + escape]);
        at += escape + sequence_length(&line[at + escape..]);
    }
    plain.extend_from_slice(&line[at..]);
}

/// Bytes of the escape sequence at the start of `text`.
fn sequence_length(text: &[u8]) -> usize {
    match text.get(1) {
        Some(b'[') => {
            let ends = |byte: &u8| (0x40..=0x7e).contains(byte);
            text[2..]
                .iter()
                .position(ends)
                .map_or(text.len(), |end| end + 3)
        }
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let ends = |byte: &u8| matches!(byte, 0x07 | 0x1b);
            match text[2..].iter().position(ends) {
                Some(end) if text[2 + end] == 0x1b => (end + 4).min(text.len()),
                Some(end) => end + 3,
                None => text.len(),
            }
        }
        Some(_) => 2,
        None => 1,
    }
}
