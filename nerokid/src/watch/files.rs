//! Files of metrics that the job writes, beside its logs, and what readers of its output
//! print.

use std::fs;
use std::io;
use std::path::Path;

use nero_metrics::file::{DOCUMENT_BYTES_MAX, FileForm};
use nero_metrics::finder::{Finder, FinderOptions};

use super::begin::context;
use super::{Watch, WatchError};
use crate::core::intake::{BegunLog, LogForm, Position};
use crate::core::log::Log;
use crate::core::record::Record;
use crate::core::rows::KnownRows;
use crate::output::document::{Document, DocumentProblem};
use crate::output::readers::OutputReader;
use crate::output::tail::Tail;

/// One file.
#[derive(Debug)]
pub(super) struct MetricFile {
    log: Log,
    /// As the spec names it.
    name: String,
    source: Source,
    /// Whether the run was told that the file cannot be read.
    told: bool,
    /// The program that writes it.
    reader: Option<OutputReader>,
}

#[derive(Debug)]
enum Source {
    Lines(Tail),
    Whole(Document),
}

impl MetricFile {
    /// The file as a former watcher left it, and the state of its reader. A file that may
    /// be written anew is read again from its start: its rows tell which of them are new.
    pub(super) fn begin(
        log: Log,
        name: &str,
        path: &Path,
        (finder, reading): (&mut Finder, &FinderOptions),
        left: Position,
    ) -> (Self, BegunLog) {
        let form = LogForm {
            form: FileForm::of(name),
            decimal_comma: reading.decimal_comma,
        };
        let (position, context) = if form.form.has_rows() {
            (left.anew(), form.context())
        } else {
            (left, context(finder, &left, path))
        };
        let source = match form.form {
            FileForm::Document => Source::Whole(Document::new(path.to_path_buf())),
            FileForm::Printed => Source::Lines(Tail::new(log, path.to_path_buf(), position.offset)),
            FileForm::Columns(_) | FileForm::JsonLines => {
                Source::Lines(Tail::of_rows(log, path.to_path_buf()))
            }
        };
        let size = match form.form {
            // The position of a document is no place in the file.
            FileForm::Document => 0,
            FileForm::Printed | FileForm::Columns(_) | FileForm::JsonLines => {
                fs::metadata(path).map_or(0, |found| found.len())
            }
        };
        let begun = BegunLog {
            position,
            size,
            context,
            form,
            rows: (form.form.has_rows()).then(|| KnownRows::resumed(form.form, position.rows)),
        };
        let file = Self {
            log,
            name: name.to_owned(),
            source,
            told: false,
            reader: None,
        };
        (file, begun)
    }

    /// What a reader of the run's output prints. The reader is started anew, and begins
    /// with the first line.
    pub(super) fn of_reader(log: Log, reader: OutputReader, left: Position) -> (Self, BegunLog) {
        let position = left.anew();
        let form = LogForm::default();
        let path = reader.output().to_path_buf();
        let begun = BegunLog {
            position,
            // A former watcher may have read all that it prints.
            size: u64::MAX,
            context: form.context(),
            form,
            rows: Some(KnownRows::done_again(position.rows)),
        };
        let file = Self {
            log,
            name: reader.title(),
            source: Source::Lines(Tail::new(log, path, 0)),
            told: false,
            reader: Some(reader),
        };
        (file, begun)
    }

    /// The reader that writes the file.
    pub(super) fn reader(&mut self) -> Option<&mut OutputReader> {
        self.reader.as_mut()
    }

    /// Looks at the file itself with the next look, not only at its notifications.
    pub(super) fn check(&mut self) {
        if let Source::Lines(tail) = &mut self.source {
            tail.check_name();
        }
    }

    /// The last look is at hand.
    pub(super) fn is_final(&mut self) {
        if let Some(reader) = &self.reader {
            reader.is_last();
        }
        match &mut self.source {
            Source::Lines(tail) => tail.check_name(),
            Source::Whole(document) => document.forget(),
        }
    }

    fn path(&self) -> &Path {
        match &self.source {
            Source::Lines(tail) => tail.path(),
            Source::Whole(document) => document.path(),
        }
    }

    /// Why the file gave nothing, for people.
    fn why_nothing(&self) -> String {
        match fs::metadata(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "it was never there".to_owned()
            }
            Err(error) => error.to_string(),
            Ok(found) if !found.is_file() => "it is no file".to_owned(),
            Ok(found) if found.len() == 0 => match self.reader {
                Some(_) => "it printed nothing".to_owned(),
                None => "it is empty".to_owned(),
            },
            Ok(_) => match (&self.source, FileForm::of(&self.name)) {
                (Source::Whole(document), _) => match document.problem() {
                    Some(DocumentProblem::TooLarge) => {
                        format!("it has more than {} MiB", DOCUMENT_BYTES_MAX >> 20)
                    }
                    Some(DocumentProblem::NotJson) => "it is no whole JSON value".to_owned(),
                    None => "no number in it has a name".to_owned(),
                },
                (Source::Lines(_), FileForm::Columns(_)) => {
                    "no line of names stands above numbers".to_owned()
                }
                (Source::Lines(_), FileForm::JsonLines) => {
                    "no line of it is a JSON object with a number".to_owned()
                }
                (Source::Lines(_), FileForm::Printed | FileForm::Document) => {
                    "no line of it has a name and a number".to_owned()
                }
            },
        }
    }
}

impl Watch {
    /// Reads a bounded piece of each file of metrics; returns true when there is more.
    pub(super) fn read_files(&mut self) -> Result<bool, WatchError> {
        let mut more = false;
        let mut files = std::mem::take(&mut self.files);
        for file in &mut files {
            if let Some(reader) = &mut file.reader {
                reader.check();
                let news = reader.news();
                file.told |= news.is_some();
                self.out.extend(news.map(Record::notice));
            }
            match self.read_file(file) {
                Ok(has_more) => more |= has_more,
                Err(error) if !file.told => {
                    file.told = true;
                    let text = format!("cannot read {} for metrics: {error}", file.name);
                    self.out.push(Record::notice(text));
                }
                Err(_) => {}
            }
        }
        self.files = files;
        Ok(more)
    }

    fn read_file(&mut self, file: &mut MetricFile) -> io::Result<bool> {
        match &mut file.source {
            Source::Lines(tail) => self.read_tail(tail),
            Source::Whole(document) => {
                if let Some(lines) = document.read_version()? {
                    self.intake.truncated(file.log, &mut self.out);
                    self.take(file.log, &lines);
                }
                Ok(false)
            }
        }
    }

    /// Tells which files gave nothing, at the end.
    pub(super) fn tell_silent_files(&mut self) {
        for file in &self.files {
            // A job that logs nothing has no such file.
            let is_empty = || fs::metadata(file.path()).map_or(true, |found| found.len() == 0);
            let logs_none = file.path() == self.place.logged() && is_empty();
            if !self.intake.gave(file.log) && !file.told && !logs_none {
                let text = format!("{} gave no metric: {}", file.name, file.why_nothing());
                self.out.push(Record::notice(text));
            }
        }
    }
}
