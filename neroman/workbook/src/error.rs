//! Why nothing of a workbook can be changed.

use nero_table::UnreadableTable;
use zip::result::ZipError;

use crate::xml::XmlError;

/// Why the workbook was left as it is. The texts go behind its name.
#[derive(Debug, thiserror::Error)]
pub enum WorkbookError {
    /// Opened with a password only.
    #[error("the workbook is encrypted")]
    Encrypted,
    /// Every change would break its signature.
    #[error("the workbook is signed, and a change would break the signature")]
    Signed,
    /// A format that is read and never written.
    #[error("{format} is read and never written")]
    ReadOnly {
        /// The format.
        format: &'static str,
    },
    /// The zip file is broken.
    #[error("the file is damaged")]
    Damaged {
        /// What the reader met.
        #[source]
        source: ZipError,
    },
    /// A part is broken.
    #[error("the part {part} is damaged")]
    Part {
        /// Its name within the package.
        part: String,
        /// What the reader met.
        #[source]
        source: XmlError,
    },
    /// A part that must be there is not.
    #[error("the workbook has no {what}")]
    Missing {
        /// What is missing.
        what: &'static str,
    },
    /// The bytes are no UTF-8.
    #[error("{part} is not UTF-8")]
    NotUtf8 {
        /// Its name.
        part: String,
    },
    /// No honest workbook is larger.
    #[error("{what} is larger than any workbook should be")]
    TooLarge {
        /// What is too large.
        what: String,
    },
    /// There is no such sheet.
    #[error("there is no sheet {}", nero_model::safe::quoted(.name))]
    NoSheet {
        /// The name that was asked for.
        name: String,
        /// The names that are there.
        sheets: Vec<String>,
    },
    /// A quoted field of a table has no end.
    #[error("the quote that opens in line {line} has no end")]
    OpenQuote {
        /// Line, from 1.
        line: usize,
    },
    /// The caller asked for one cell twice.
    #[error("the cell {cell} is asked for twice")]
    Twice {
        /// Its place.
        cell: String,
    },
}

/// What a person is told about a file that is read.
impl From<WorkbookError> for UnreadableTable {
    fn from(error: WorkbookError) -> Self {
        match error {
            WorkbookError::Encrypted => Self::file(
                "is encrypted with a password",
                "save a copy without a password (for reading, not only for changing)",
            ),
            WorkbookError::TooLarge { what } => Self::file(
                format!("unfolds into more than any plan of experiments: its part {what}"),
                "if the file is yours, copy the sheet with the plan into a new workbook",
            ),
            WorkbookError::NoSheet { sheets, .. } => Self::NoSheet { sheets },
            WorkbookError::Damaged { source } => damaged(&source),
            WorkbookError::Part {
                source: XmlError::Sheet(table),
                ..
            } => table,
            WorkbookError::Part { part, source } => damaged(&format_args!("{part}: {source}")),
            error => damaged(&error),
        }
    }
}

/// A file that cannot be read.
pub(crate) fn damaged(error: &dyn std::fmt::Display) -> UnreadableTable {
    UnreadableTable::file(
        format!("is cut short or damaged ({error})"),
        "if it is being copied, wait until it is whole; else open it in a spreadsheet program and save it anew",
    )
}

impl WorkbookError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Encrypted => Some("save it without a password".to_owned()),
            Self::Signed => Some("remove the signature, or keep results elsewhere".to_owned()),
            Self::ReadOnly { .. } => Some("save it as .xlsx or .ods".to_owned()),
            Self::NotUtf8 { .. } => Some("save it with UTF-8".to_owned()),
            Self::NoSheet { sheets, .. } => Some(format!("its sheets: {}", sheets.join(", "))),
            Self::Damaged { .. } | Self::Part { .. } | Self::Missing { .. } => {
                Some("open it in a spreadsheet program and save it anew".to_owned())
            }
            Self::TooLarge { .. } | Self::OpenQuote { .. } | Self::Twice { .. } => None,
        }
    }

    pub(crate) fn part(part: &str) -> impl FnOnce(XmlError) -> Self {
        let part = part.to_owned();
        move |source| Self::Part { part, source }
    }
}
