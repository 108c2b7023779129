//! Two kinds of calls: one makes a file of Parquet, column by column; the other reads which program
//! made such a file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;

use nero_child::next_line;
use nero_table::columns::{ColumnCells, ColumnsHead};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

/// Makes the file from its input and prints it.
pub fn make() -> ExitCode {
    match write(io::stdin().lock(), io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints which program made the file that the command line names, or nothing.
pub fn maker(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let file = arguments.next().and_then(|path| File::open(path).ok());
    let file = file.and_then(|file| SerializedFileReader::new(file).ok());
    let about = file.as_ref().map(|file| file.metadata().file_metadata());
    let maker = about.and_then(|about| about.created_by());
    println!("{}", maker.unwrap_or_default());
    ExitCode::SUCCESS
}

fn write(mut input: impl BufRead, to: impl Write + Send) -> Result<(), ParquetError> {
    let early = || ParquetError::General("its columns end early".into());
    let head: ColumnsHead<'_> = next_line(&mut input)?.ok_or_else(early)?;
    let about = head.about.into_iter();
    let about = about.map(|(key, value)| KeyValue::new(key, value));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(head.maker)
        .set_key_value_metadata(Some(about.collect()))
        .build();
    let schema = schema(&head.columns)?;
    let mut file = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
    while let Some(first) = next_line(&mut input)? {
        let mut group = file.next_row_group()?;
        write_column(&mut group, first)?;
        for _ in 1..head.columns.len() {
            write_column(&mut group, next_line(&mut input)?.ok_or_else(early)?)?;
        }
        group.close()?;
    }
    file.close().map(|_| ())
}

fn schema(columns: &[(String, ColumnCells<'_>)]) -> Result<TypePtr, ParquetError> {
    let field = |(name, cells): &(String, ColumnCells<'_>)| {
        let (physical, logical) = match cells {
            ColumnCells::Whole(_) => (PhysicalType::INT64, None),
            ColumnCells::Number(_) => (PhysicalType::DOUBLE, None),
            ColumnCells::Truth(_) => (PhysicalType::BOOLEAN, None),
            ColumnCells::Moment(_) => (
                PhysicalType::INT64,
                Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            ),
            ColumnCells::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build();
        field.map(Arc::new)
    };
    let fields: Result<Vec<TypePtr>, _> = columns.iter().map(field).collect();
    let message = Type::group_type_builder("neronet").with_fields(fields?);
    message.build().map(Arc::new)
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: ColumnCells<'_>,
) -> Result<(), ParquetError> {
    match cells {
        ColumnCells::Whole(cells) | ColumnCells::Moment(cells) => {
            write_cells::<Int64Type, W>(group, cells)
        }
        ColumnCells::Number(cells) => write_cells::<DoubleType, W>(group, cells),
        ColumnCells::Truth(cells) => write_cells::<BoolType, W>(group, cells),
        ColumnCells::Text(cells) => {
            let bytes = cells
                .into_iter()
                .map(|text| text.map(|text| ByteArray::from(text.into_owned().into_bytes())));
            write_cells::<ByteArrayType, W>(group, bytes.collect())
        }
    }
}

/// Writes the next column: the values that are known, and for each row whether one is.
fn write_cells<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: Vec<Option<T::T>>,
) -> Result<(), ParquetError> {
    let known: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let next = group.next_column()?;
    let mut column = next.ok_or_else(|| ParquetError::General("one column too many".into()))?;
    column
        .typed::<T>()
        .write_batch(&values, Some(&known), None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use parquet::record::Field;

    use super::*;

    #[test]
    fn every_type_and_what_is_unknown_is_read_back() {
        let columns = || {
            [
                ("whole", ColumnCells::Whole(vec![Some(i64::MAX), None])),
                ("number", ColumnCells::Number(vec![None, Some(-0.5)])),
                (
                    "not finite",
                    ColumnCells::Number(vec![Some(f64::NAN), Some(f64::INFINITY)]),
                ),
                ("truth", ColumnCells::Truth(vec![Some(true), None])),
                (
                    "moment",
                    ColumnCells::Moment(vec![Some(1_700_000_000_123), None]),
                ),
                (
                    "text λ",
                    ColumnCells::Text(vec![Some("=a\u{1b}\n".into()), None]),
                ),
                ("unknown", ColumnCells::Text(vec![None, None])),
            ]
        };
        let head = ColumnsHead {
            maker: "neroman 1".to_owned(),
            about: vec![("neronet.time_zone".to_owned(), "Asia/Tokyo".to_owned())],
            columns: columns()
                .map(|(name, cells)| (name.to_owned(), cells.emptied()))
                .into(),
        };
        let parts = || columns().map(|(_, cells)| nero_child::json_line(&cells).unwrap());
        let mut input = nero_child::json_line(&head).unwrap();
        input.extend([parts(), parts()].concat().concat());
        let mut bytes = Vec::new();
        write(&input[..], &mut bytes).expect("a file");
        let short = &input[..input.len() - parts()[6].len()];
        let why = write(short, Vec::new()).unwrap_err().to_string();
        assert!(why.contains("its columns end early"), "{why}");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        let told = reader.metadata().file_metadata();
        let kept = told.key_value_metadata().expect("about")[0].clone();
        assert_eq!(kept.key, "neronet.time_zone");
        assert_eq!(kept.value.as_deref(), Some("Asia/Tokyo"));
        let types: Vec<String> = told
            .schema()
            .get_fields()
            .iter()
            .map(|field| format!("{:?}", field.get_basic_info().logical_type_ref()))
            .collect();
        assert!(types[4].contains("is_adjusted_to_u_t_c: true"), "{types:?}");
        assert_eq!(reader.num_row_groups(), 2);
        let rows = reader.get_row_iter(None).expect("rows");
        let rows: Vec<Vec<Field>> = rows
            .map(|row| {
                let row = row.expect("a row");
                row.get_column_iter()
                    .map(|(_, field)| field.clone())
                    .collect()
            })
            .collect();
        assert_eq!(rows.len(), 4);
        let Field::Double(nan) = rows[0][2] else {
            panic!("{:?}", rows[0]);
        };
        assert!(nan.is_nan());
        assert_eq!(
            [&rows[0][0], &rows[0][1], &rows[0][3], &rows[0][4]],
            [
                &Field::Long(i64::MAX),
                &Field::Null,
                &Field::Bool(true),
                &Field::TimestampMillis(1_700_000_000_123)
            ]
        );
        assert_eq!(rows[0][5..], [Field::Str("=a\u{1b}\n".into()), Field::Null]);
        assert_eq!(
            rows[3][..3],
            [
                Field::Null,
                Field::Double(-0.5),
                Field::Double(f64::INFINITY)
            ]
        );
        assert!(rows[3][3..].iter().all(|field| *field == Field::Null));
    }
}
