//! `.xlsx`, with charts.

use std::collections::HashMap;

use nero_table::book::{BookCell, ChartKind, NewBook, NewChart, NewSheet, NumberFormat};
use nero_table::{CellValue, UnreadableTable};
use rust_xlsxwriter::{
    Chart, ChartAxisLabelPosition, ChartErrorBars, ChartErrorBarsType, ChartFont,
    ChartLegendPosition, ChartLine, ChartMarker, ChartMarkerType, ChartRange, ChartType, Color,
    DocProperties, ExcelDateTime, Format, FormatAlign, FormatBorder, Workbook, Worksheet,
    XlsxError,
};

use super::{BookRows, MAKER, failed};

/// Size of a chart in pixels, and how many rows and columns of a sheet it covers.
const CHART: (u32, u32) = (760, 400);
const CHART_CELLS: (u32, u16) = (21, 12);
/// Height of a line in points.
const LINE_HEIGHT: f64 = 15.0;
/// The name of the sheet with the charts.
const CHARTS: &str = "Charts";

/// Makes the file.
pub(super) fn write(book: &NewBook, rows: &mut dyn BookRows) -> Result<Vec<u8>, UnreadableTable> {
    let mut made = Workbook::new();
    made.set_properties(&DocProperties::new().set_author(MAKER));
    let formats = Formats::new();
    for sheet in &book.sheets {
        let into = made.add_worksheet_with_constant_memory();
        write_sheet(into.map_err(refused)?, sheet, rows, &formats)?;
    }
    if !book.charts.is_empty() {
        let into = made.add_worksheet();
        write_charts(into, book).map_err(refused)?;
    }
    made.save_to_buffer().map_err(refused)
}

fn write_sheet(
    into: &mut Worksheet,
    sheet: &NewSheet,
    rows: &mut dyn BookRows,
    formats: &Formats,
) -> Result<(), UnreadableTable> {
    head(into, sheet, formats).map_err(refused)?;
    for row in 1..=sheet.row_count {
        for (column, cell) in (0_u16..).zip(rows.next_row()?) {
            let format = sheet.columns.get(usize::from(column));
            let format = format.map_or(NumberFormat::General, |column| column.format);
            write_cell(into, (row, column), &cell, format, formats).map_err(refused)?;
        }
    }
    Ok(())
}

fn head(into: &mut Worksheet, sheet: &NewSheet, formats: &Formats) -> Result<(), XlsxError> {
    into.set_name(&sheet.name)?;
    into.set_freeze_panes(1, 0)?;
    into.set_repeat_rows(0, 0)?;
    into.set_landscape();
    into.set_print_fit_to_pages(1, 0);
    // LibreOffice leaves the height as it is written, whatever the titles need.
    let lines = sheet.columns.iter().map(|column| {
        let room = usize::from(column.width).saturating_sub(3).max(1);
        column.title.chars().count().div_ceil(room)
    });
    let lines = lines.max().unwrap_or(1).clamp(1, 4);
    into.set_row_height(0, LINE_HEIGHT * lines as f64)?;
    for (at, column) in (0_u16..).zip(&sheet.columns) {
        into.set_column_width(at, f64::from(column.width))?;
        let format = if column.is_figures {
            &formats.header_of_figures
        } else {
            &formats.header
        };
        into.write_string_with_format(0, at, &column.title, format)?;
    }
    let last = u16::try_from(sheet.columns.len()).unwrap_or(0);
    if sheet.has_filter && last > 0 {
        into.autofilter(0, 0, sheet.row_count, last - 1)?;
    }
    Ok(())
}

fn write_cell(
    into: &mut Worksheet,
    (row, column): (u32, u16),
    cell: &BookCell,
    format: NumberFormat,
    formats: &Formats,
) -> Result<(), XlsxError> {
    match cell {
        None | Some(CellValue::Uncomputed) => {}
        Some(CellValue::Number(text)) => {
            // What is sent is a number; the program would show what is none as text.
            let number: f64 = text.parse().unwrap_or(f64::NAN);
            into.write_number_with_format(row, column, number, &formats.numbers[&format])?;
        }
        Some(CellValue::Date(text)) => {
            let moment = ExcelDateTime::parse_from_str(text)?;
            let format = &formats.numbers[&NumberFormat::Moment];
            into.write_datetime_with_format(row, column, &moment, format)?;
        }
        Some(CellValue::Bool(truth)) => {
            into.write_boolean(row, column, *truth)?;
        }
        Some(CellValue::Text(text) | CellValue::Error(text)) => {
            // Without this mark the text is a formula as soon as a person edits the cell.
            if text.trim_start().starts_with(['=', '+', '-', '@']) {
                into.write_string_with_format(row, column, text, &formats.quoted)?
            } else {
                into.write_string_with_format(row, column, text, &formats.text)?
            };
        }
    }
    Ok(())
}

struct Formats {
    header: Format,
    header_of_figures: Format,
    text: Format,
    quoted: Format,
    numbers: HashMap<NumberFormat, Format>,
}

impl Formats {
    fn new() -> Self {
        let decimals = (0..=9).map(NumberFormat::Decimals);
        let all = decimals.chain([
            NumberFormat::General,
            NumberFormat::Scientific,
            NumberFormat::Moment,
        ]);
        let header = Format::new()
            .set_bold()
            .set_background_color(Color::RGB(0xE8_EDF3))
            .set_border_bottom(FormatBorder::Thin)
            .set_align(FormatAlign::Top)
            .set_text_wrap();
        // A figure to the left of a text would touch it.
        let text = Format::new().set_align(FormatAlign::Left).set_indent(1);
        Self {
            header: header.clone().set_align(FormatAlign::Left).set_indent(1),
            header_of_figures: header.set_align(FormatAlign::Right),
            quoted: text.clone().set_quote_prefix(),
            text,
            numbers: all
                .map(|format| (format, Format::new().set_num_format(code(format))))
                .collect(),
        }
    }
}

fn code(format: NumberFormat) -> String {
    match format {
        NumberFormat::General => "General".to_owned(),
        NumberFormat::Decimals(0) => "0".to_owned(),
        NumberFormat::Decimals(places) => format!("0.{}", "0".repeat(usize::from(places))),
        NumberFormat::Scientific => "0.000E+00".to_owned(),
        NumberFormat::Moment => "yyyy-mm-dd hh:mm:ss".to_owned(),
    }
}

fn write_charts(into: &mut Worksheet, book: &NewBook) -> Result<(), XlsxError> {
    into.set_name(CHARTS)?;
    into.set_screen_gridlines(false);
    into.set_landscape();
    into.set_print_fit_to_pages(1, 0);
    for (at, chart) in (0_u32..).zip(&book.charts) {
        let (rows, columns) = CHART_CELLS;
        let row = 1 + at / 2 * rows;
        let column = if at % 2 == 0 { 1 } else { 1 + columns };
        if let Some(sheet) = book.sheets.get(chart.sheet) {
            into.insert_chart(row, column, &chart_of(chart, &sheet.name))?;
        }
    }
    Ok(())
}

fn chart_of(chart: &NewChart, sheet: &str) -> Chart {
    let mut made = match chart.kind {
        ChartKind::Lines => Chart::new(ChartType::ScatterStraight),
        ChartKind::Points { .. } => Chart::new(ChartType::Line),
    };
    let plain = |size: u32| {
        let mut font = ChartFont::new();
        font.set_size(size);
        font
    };
    let mut bold = plain(13);
    bold.set_bold();
    made.set_width(CHART.0).set_height(CHART.1);
    made.title()
        .set_name(&plain_text(&chart.title))
        .set_font(&bold);
    made.x_axis()
        .set_name(&plain_text(&chart.x_title))
        .set_name_font(&plain(10))
        // Below values under zero, too.
        .set_label_position(ChartAxisLabelPosition::Low);
    made.y_axis()
        .set_name(&plain_text(&chart.y_title))
        .set_name_font(&plain(10));
    let mut grid = ChartLine::new();
    grid.set_color(Color::RGB(0xD9_D9D9));
    made.y_axis().set_major_gridlines_line(&grid);
    match chart.series.len() {
        1 => made.legend().set_hidden(),
        _ => made
            .legend()
            .set_position(ChartLegendPosition::Right)
            .set_font(&plain(8)),
    };
    for series in &chart.series {
        let (first, last) = (series.rows.0 + 1, series.rows.1 + 1);
        let range = |column: u16| ChartRange::new_from_range(sheet, first, column, last, column);
        let into = made.add_series();
        into.set_name(&plain_text(&series.name))
            .set_categories(&range(series.x))
            .set_values(&range(series.y));
        match chart.kind {
            ChartKind::Lines => {
                let mut line = ChartLine::new();
                line.set_width(1.5);
                into.set_format(&mut line);
            }
            ChartKind::Points { deviation } => {
                let bar = range(deviation);
                let bars = ChartErrorBarsType::Custom(bar.clone(), bar);
                into.set_y_error_bars(ChartErrorBars::new().set_type(bars));
                let mut marker = ChartMarker::new();
                marker.set_type(ChartMarkerType::Circle).set_size(8);
                into.set_marker(&marker);
                let mut line = ChartLine::new();
                line.set_hidden(true);
                into.set_format(&mut line);
            }
        }
    }
    made
}

/// A name that the crate takes as a text: it takes `=…` and `Sheet!A1` as places of cells. What
/// tells them apart is not visible.
fn plain_text(name: &str) -> String {
    let name = name.replace('!', "!\u{2060}");
    if name.starts_with('=') {
        format!("\u{2060}{name}")
    } else {
        name
    }
}

fn refused(error: XlsxError) -> UnreadableTable {
    failed(&error.to_string())
}
