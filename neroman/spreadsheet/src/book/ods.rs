//! `.ods`, without charts.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use nero_table::book::{BookCell, NewBook, NewColumn, NewSheet, NumberFormat};
use nero_table::{CellValue, UnreadableTable, column_name};
use quick_xml::escape::escape;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{BookRows, MAKER, failed};

const MIMETYPE: &str = "application/vnd.oasis.opendocument.spreadsheet";
/// Bytes of XML that are collected before they are packed.
const CHUNK_BYTES: usize = 64 << 10;
/// Width of a character in centimetres.
const CHARACTER_CM: f64 = 0.21;
const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8"?>"#;
const SPACES: &str = concat!(
    r#"xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" "#,
    r#"xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" "#,
    r#"xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" "#,
    r#"xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" "#,
    r#"xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" "#,
    r#"xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0" "#,
    r#"xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0" "#,
    r#"xmlns:config="urn:oasis:names:tc:opendocument:xmlns:config:1.0" "#,
    r#"xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0" "#,
    r#"office:version="1.3""#,
);

type Package = ZipWriter<Cursor<Vec<u8>>>;

/// Makes the file.
pub(super) fn write(book: &NewBook, rows: &mut dyn BookRows) -> Result<Vec<u8>, UnreadableTable> {
    let mut package = ZipWriter::new(Cursor::new(Vec::new()));
    // Programs know the format by this part: the first, and not compressed.
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    begin(&mut package, "mimetype", stored)?;
    put(&mut package, MIMETYPE)?;
    for (name, text) in [
        ("META-INF/manifest.xml", manifest()),
        ("meta.xml", meta()),
        ("settings.xml", settings(book)),
    ] {
        begin(&mut package, name, SimpleFileOptions::default())?;
        put(&mut package, &text)?;
    }
    begin(&mut package, "content.xml", SimpleFileOptions::default())?;
    content(&mut package, book, rows)?;
    let made = package
        .finish()
        .map_err(|error| failed(&error.to_string()))?;
    Ok(made.into_inner())
}

fn begin(
    package: &mut Package,
    name: &str,
    options: SimpleFileOptions,
) -> Result<(), UnreadableTable> {
    let begun = package.start_file(name, options);
    begun.map_err(|error| failed(&error.to_string()))
}

fn put(package: &mut Package, text: &str) -> Result<(), UnreadableTable> {
    let written = package.write_all(text.as_bytes());
    written.map_err(|error| failed(&error.to_string()))
}

fn manifest() -> String {
    let space = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0";
    let parts = ["content.xml", "meta.xml", "settings.xml"].map(|part| {
        format!(
            r#"<manifest:file-entry manifest:full-path="{part}" manifest:media-type="text/xml"/>"#
        )
    });
    format!(
        r#"{DECLARATION}<manifest:manifest xmlns:manifest="{space}" manifest:version="1.3"><manifest:file-entry manifest:full-path="/" manifest:version="1.3" manifest:media-type="{MIMETYPE}"/>{}</manifest:manifest>"#,
        parts.concat()
    )
}

fn meta() -> String {
    format!(
        "{DECLARATION}<office:document-meta {SPACES}><office:meta><meta:generator>{MAKER}</meta:generator></office:meta></office:document-meta>"
    )
}

/// The header of every sheet stays in view.
fn settings(book: &NewBook) -> String {
    let item = |name: &str, kind: &str, value: &str| {
        format!(
            r#"<config:config-item config:name="{name}" config:type="{kind}">{value}</config:config-item>"#
        )
    };
    let view = [
        item("VerticalSplitMode", "short", "2"),
        item("VerticalSplitPosition", "int", "1"),
        item("ActiveSplitRange", "short", "2"),
        item("PositionBottom", "int", "1"),
    ]
    .concat();
    let sheets = book.sheets.iter().map(|sheet| {
        let name = escape(&sheet.name);
        format!(r#"<config:config-item-map-entry config:name="{name}">{view}</config:config-item-map-entry>"#)
    });
    let sheets: String = sheets.collect();
    format!(
        r#"{DECLARATION}<office:document-settings {SPACES}><office:settings><config:config-item-set config:name="ooo:view-settings"><config:config-item-map-indexed config:name="Views"><config:config-item-map-entry><config:config-item-map-named config:name="Tables">{sheets}</config:config-item-map-named></config:config-item-map-entry></config:config-item-map-indexed></config:config-item-set></office:settings></office:document-settings>"#
    )
}

fn content(
    package: &mut Package,
    book: &NewBook,
    rows: &mut dyn BookRows,
) -> Result<(), UnreadableTable> {
    let mut text = format!("{DECLARATION}<office:document-content {SPACES}>");
    styles(&mut text, book);
    text.push_str("<office:body><office:spreadsheet>");
    for sheet in &book.sheets {
        let name = escape(&sheet.name);
        add(
            &mut text,
            format_args!(r#"<table:table table:name="{name}">"#),
        );
        for column in &sheet.columns {
            let width = column.width;
            add(
                &mut text,
                format_args!(r#"<table:table-column table:style-name="co{width}"/>"#),
            );
        }
        text.push_str("<table:table-header-rows><table:table-row>");
        for column in &sheet.columns {
            let style = if column.is_figures {
                "head-of-figures"
            } else {
                "head"
            };
            typed(&mut text, style, "string", "", &column.title);
        }
        text.push_str("</table:table-row></table:table-header-rows>");
        for _ in 0..sheet.row_count {
            row(&mut text, &sheet.columns, &rows.next_row()?);
            if text.len() > CHUNK_BYTES {
                put(package, &text)?;
                text.clear();
            }
        }
        text.push_str("</table:table>");
    }
    text.push_str("<table:database-ranges>");
    let filtered = book.sheets.iter().filter(|sheet| sheet.has_filter);
    for (at, sheet) in filtered.enumerate() {
        filter(&mut text, at, sheet);
    }
    text.push_str(
        "</table:database-ranges></office:spreadsheet></office:body></office:document-content>",
    );
    put(package, &text)
}

fn filter(text: &mut String, at: usize, sheet: &NewSheet) {
    let last = u32::try_from(sheet.columns.len()).unwrap_or(1);
    let (last, rows) = (column_name(last), sheet.row_count + 1);
    let name = escape(&sheet.name);
    add(
        text,
        format_args!(
            r#"<table:database-range table:name="__Anonymous_Sheet_DB__{at}" table:target-range-address="{name}.A1:{name}.{last}{rows}" table:display-filter-buttons="true"/>"#
        ),
    );
}

fn styles(text: &mut String, book: &NewBook) {
    text.push_str("<office:automatic-styles>");
    let columns = || book.sheets.iter().flat_map(|sheet| &sheet.columns);
    let mut widths: Vec<u16> = columns().map(|column| column.width).collect();
    widths.sort_unstable();
    widths.dedup();
    for width in widths {
        let size = f64::from(width) * CHARACTER_CM;
        add(
            text,
            format_args!(
                r#"<style:style style:name="co{width}" style:family="table-column"><style:table-column-properties style:column-width="{size:.2}cm"/></style:style>"#
            ),
        );
    }
    let mut formats = vec![NumberFormat::Moment];
    for column in columns() {
        if column.format != NumberFormat::General && !formats.contains(&column.format) {
            formats.push(column.format);
        }
    }
    for format in formats {
        let name = style(format);
        let (kind, looks) = looks(format);
        add(
            text,
            format_args!(
                r#"<number:{kind}-style style:name="n-{name}">{looks}</number:{kind}-style><style:style style:name="{name}" style:family="table-cell" style:data-style-name="n-{name}"/>"#
            ),
        );
    }
    // A figure to the left of a text would touch it.
    let left = r#"fo:text-align="start" fo:margin-left="0.15cm""#;
    for (name, align) in [
        ("head", left),
        ("head-of-figures", r#"fo:text-align="end""#),
    ] {
        add(
            text,
            format_args!(
                r##"<style:style style:name="{name}" style:family="table-cell"><style:table-cell-properties fo:background-color="#e8edf3" fo:border-bottom="0.5pt solid #000000" fo:wrap-option="wrap" style:text-align-source="fix"/><style:paragraph-properties {align}/><style:text-properties fo:font-weight="bold"/></style:style>"##
            ),
        );
    }
    add(
        text,
        format_args!(
            r#"<style:style style:name="text" style:family="table-cell"><style:table-cell-properties style:text-align-source="fix"/><style:paragraph-properties {left}/></style:style></office:automatic-styles>"#
        ),
    );
}

/// The name of the style of such numbers.
fn style(format: NumberFormat) -> String {
    match format {
        NumberFormat::General => "general".to_owned(),
        NumberFormat::Decimals(places) => format!("places{places}"),
        NumberFormat::Scientific => "scientific".to_owned(),
        NumberFormat::Moment => "moment".to_owned(),
    }
}

fn looks(format: NumberFormat) -> (&'static str, String) {
    match format {
        NumberFormat::General => ("number", r#"<number:number number:min-integer-digits="1"/>"#.to_owned()),
        NumberFormat::Decimals(places) => (
            "number",
            format!(
                r#"<number:number number:decimal-places="{places}" number:min-decimal-places="{places}" number:min-integer-digits="1"/>"#
            ),
        ),
        NumberFormat::Scientific => (
            "number",
            r#"<number:scientific-number number:decimal-places="3" number:min-decimal-places="3" number:min-integer-digits="1" number:min-exponent-digits="2"/>"#.to_owned(),
        ),
        NumberFormat::Moment => {
            let two = |part: &str| format!(r#"<number:{part} number:style="long"/>"#);
            let text = |text: &str| format!("<number:text>{text}</number:text>");
            let parts = [
                two("year"), text("-"), two("month"), text("-"), two("day"), text(" "),
                two("hours"), text(":"), two("minutes"), text(":"), two("seconds"),
            ];
            ("date", parts.concat())
        }
    }
}

fn row(text: &mut String, columns: &[NewColumn], cells: &[BookCell]) {
    text.push_str("<table:table-row>");
    for (column, cell) in columns.iter().zip(cells) {
        match cell {
            None | Some(CellValue::Uncomputed) => text.push_str("<table:table-cell/>"),
            Some(CellValue::Number(number)) => {
                let value = format!(r#" office:value="{}""#, escape(number.as_str()));
                typed(text, &style(column.format), "float", &value, number);
            }
            Some(CellValue::Date(date)) => {
                let value = format!(r#" office:date-value="{}""#, escape(date.as_str()));
                typed(text, "moment", "date", &value, date);
            }
            Some(CellValue::Bool(truth)) => {
                let value = format!(r#" office:boolean-value="{truth}""#);
                typed(text, "general", "boolean", &value, &truth.to_string());
            }
            Some(CellValue::Text(shown) | CellValue::Error(shown)) => {
                typed(text, "text", "string", "", shown);
            }
        }
    }
    text.push_str("</table:table-row>");
}

/// A cell with its type, its value, and the text that shows it.
fn typed(text: &mut String, style: &str, kind: &str, value: &str, shown: &str) {
    text.push_str("<table:table-cell");
    if style != "general" {
        add(text, format_args!(r#" table:style-name="{style}""#));
    }
    add(
        text,
        format_args!(r#" office:value-type="{kind}" calcext:value-type="{kind}"{value}>"#),
    );
    text.push_str(&nero_workbook::paragraphs(shown));
    text.push_str("</table:table-cell>");
}

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    // A string takes every text.
    let _ = text.write_fmt(more);
}
