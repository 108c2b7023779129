//! Columns with types: what neroman sends to `neroman-office` for a file of Parquet.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The word that has `neroman-office` make a file of Parquet and print it. [`ColumnsHead`] is the
/// first line of its input, [`ColumnCells`] are the others: of each part, column by column.
pub const VERB: &str = "make-parquet";
/// The word that has it print which program made a file of Parquet. The file follows.
pub const MAKER_VERB: &str = "parquet-maker";

/// What a file begins with.
#[derive(Debug, Serialize, Deserialize)]
pub struct ColumnsHead<'a> {
    /// The program that makes it.
    pub maker: String,
    /// What the file tells of itself.
    pub about: Vec<(String, String)>,
    /// The name of each column, and its type as a column without cells.
    pub columns: Vec<(String, ColumnCells<'a>)>,
}

/// Cells of one type; `None` is unknown.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ColumnCells<'a> {
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers, infinities and NaN among them.
    #[serde(with = "bits")]
    Number(Vec<Option<f64>>),
    /// `true` and `false`.
    Truth(Vec<Option<bool>>),
    /// Moments in milliseconds since 1970.
    Moment(Vec<Option<i64>>),
    /// Texts as jobs printed them.
    Text(Vec<Option<Cow<'a, str>>>),
}

impl ColumnCells<'_> {
    /// A column of the same type without cells.
    pub fn emptied(&self) -> Self {
        match self {
            Self::Whole(_) => Self::Whole(Vec::new()),
            Self::Number(_) => Self::Number(Vec::new()),
            Self::Truth(_) => Self::Truth(Vec::new()),
            Self::Moment(_) => Self::Moment(Vec::new()),
            Self::Text(_) => Self::Text(Vec::new()),
        }
    }
}

/// JSON has neither infinities nor NaN: the bits of each number.
mod bits {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        numbers: &[Option<f64>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(numbers.iter().map(|number| number.map(f64::to_bits)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Option<f64>>, D::Error> {
        let bits = Vec::<Option<u64>>::deserialize(from)?;
        Ok(bits
            .into_iter()
            .map(|bits| bits.map(f64::from_bits))
            .collect())
    }
}
