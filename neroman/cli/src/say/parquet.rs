//! Columns with types as a file of Parquet, which `neroman-office` makes.

use std::path::Path;
use std::time::Duration;

use nero_child::{ChildError, ChildLimits, KeptOutput, Office, json_line};
use nero_table::columns::{ColumnsHead, MAKER_VERB, VERB};
use nero_views::typed::TypedColumn;

use crate::fault::Fault;

/// The program that wrote a file, before its version.
const MAKER: &str = "neroman ";
/// Rows are the person's own, whatever their number.
const LIMITS: ChildLimits = ChildLimits {
    out: KeptOutput::Whole(usize::MAX),
    patience: Duration::from_secs(24 * 3600),
    ..Office::LIMITS
};

/// Whether this program wrote the file, and no program saved it since.
///
/// # Errors
/// When that cannot be found out.
pub async fn is_ours(path: &Path) -> Result<bool, ChildError> {
    let office = Office::own()?;
    let mut call = office.call(MAKER_VERB);
    call.arg(path);
    Ok(office.ask(call, []).await?.starts_with(MAKER.as_bytes()))
}

/// A file of parts with the same columns, each a group of rows. `about` is what the file tells of
/// itself; its keys begin with `neronet.`.
///
/// # Errors
/// When it cannot be made.
pub async fn bytes<'a>(
    about: &[(String, String)],
    parts: impl IntoIterator<Item = Vec<TypedColumn<'a>>>,
) -> Result<Vec<u8>, Fault> {
    let about = about.iter().map(|(title, value)| {
        let key = format!("neronet.{}", title.replace(' ', "_"));
        (key, value.clone())
    });
    let mut parts = parts.into_iter().peekable();
    let first = parts.peek().map_or(&[][..], Vec::as_slice).iter();
    let head = json_line(&ColumnsHead {
        maker: format!("{MAKER}{}", env!("CARGO_PKG_VERSION")),
        about: about.collect(),
        columns: first
            .map(|column| (column.name.clone(), column.cells.emptied()))
            .collect(),
    });
    let lines = parts.flatten().map(|column| json_line(&column.cells));
    let input = [head].into_iter().chain(lines);
    let made = match Office::own() {
        Ok(office) => office.ask_within(office.call(VERB), input, LIMITS).await,
        Err(error) => Err(error),
    };
    made.map_err(|error| {
        Fault::failed("cannot make a file of Parquet")
            .because(&error)
            .hint("write .csv instead")
    })
}
