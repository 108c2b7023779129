//! Why nothing of a workbook can be changed.

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
    /// Its content is not what its name tells.
    #[error("the content is {found}, not {wanted}")]
    Other {
        /// What it looks like.
        found: &'static str,
        /// What the ending of its name promises.
        wanted: &'static str,
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
            Self::Other { .. }
            | Self::TooLarge { .. }
            | Self::OpenQuote { .. }
            | Self::Twice { .. } => None,
        }
    }

    pub(crate) fn part(part: &str) -> impl FnOnce(XmlError) -> Self {
        let part = part.to_owned();
        move |source| Self::Part { part, source }
    }
}
