//! Columns with types as a file of Parquet.

use std::fs::File;
use std::sync::Arc;

use nero_views::typed::{ColumnCells, TypedColumn};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::fault::{Fault, code};

/// The program that wrote a file, before its version.
const MAKER: &str = "neroman ";

/// Whether this program wrote the file, and no program saved it since.
pub fn is_ours(file: &File) -> bool {
    let file = file.try_clone().map(SerializedFileReader::new);
    let Ok(Ok(file)) = file else {
        return false;
    };
    let maker = file.metadata().file_metadata().created_by();
    maker.is_some_and(|maker| maker.starts_with(MAKER))
}

/// A file of parts with the same columns, each a group of rows. `about` is what the file tells of
/// itself; its keys begin with `neronet.`.
///
/// # Errors
/// When the library refuses a column.
pub fn bytes<'a>(
    about: &[(String, String)],
    parts: impl IntoIterator<Item = Vec<TypedColumn<'a>>>,
) -> Result<Vec<u8>, Fault> {
    written(about, parts).map_err(|error| {
        Fault::new(code::FAILED, "cannot make a file of Parquet")
            .because(&error)
            .hint("write .csv instead")
    })
}

fn written<'a>(
    about: &[(String, String)],
    parts: impl IntoIterator<Item = Vec<TypedColumn<'a>>>,
) -> Result<Vec<u8>, ParquetError> {
    let about = about.iter().map(|(title, value)| {
        let key = format!("neronet.{}", title.replace(' ', "_"));
        KeyValue::new(key, value.clone())
    });
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("{MAKER}{}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(about.collect()))
        .build();
    let mut parts = parts.into_iter().peekable();
    let schema = schema(parts.peek().map_or(&[], Vec::as_slice))?;
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for columns in parts {
        let mut group = file.next_row_group()?;
        for column in columns {
            write_column(&mut group, column.cells)?;
        }
        group.close()?;
    }
    file.into_inner()
}

fn schema(columns: &[TypedColumn<'_>]) -> Result<TypePtr, ParquetError> {
    let field = |column: &TypedColumn<'_>| {
        let (physical, logical) = match &column.cells {
            ColumnCells::Whole(_) => (PhysicalType::INT64, None),
            ColumnCells::Number(_) => (PhysicalType::DOUBLE, None),
            ColumnCells::Truth(_) => (PhysicalType::BOOLEAN, None),
            ColumnCells::Moment(_) => (
                PhysicalType::INT64,
                Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            ),
            ColumnCells::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build();
        field.map(Arc::new)
    };
    let fields: Result<Vec<TypePtr>, _> = columns.iter().map(field).collect();
    let message = Type::group_type_builder("neronet").with_fields(fields?);
    message.build().map(Arc::new)
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    cells: ColumnCells<'_>,
) -> Result<(), ParquetError> {
    match cells {
        ColumnCells::Whole(cells) | ColumnCells::Moment(cells) => {
            write_cells::<Int64Type>(group, cells)
        }
        ColumnCells::Number(cells) => write_cells::<DoubleType>(group, cells),
        ColumnCells::Truth(cells) => write_cells::<BoolType>(group, cells),
        ColumnCells::Text(cells) => {
            let bytes = cells
                .into_iter()
                .map(|text| text.map(|text| ByteArray::from(text.into_owned().into_bytes())));
            write_cells::<ByteArrayType>(group, bytes.collect())
        }
    }
}

/// Writes the next column: the values that are known, and for each row whether one is.
fn write_cells<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
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
            .map(|(name, cells)| TypedColumn {
                name: name.to_owned(),
                cells,
            })
            .into()
        };
        let about = [("time zone".to_owned(), "Asia/Tokyo".to_owned())];
        let bytes = bytes(&about, [columns(), columns()]).expect("a file");
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
