//! Rows with checksums: how every table but the points' is written and read.
//!
//! The last column of a table, `crc`, covers the table's name and all other
//! columns. Triggers keep the number of rows and the sum of their checksums in
//! `seal`; reading a whole table compares both.

use std::fmt::Write as _;
use std::sync::OnceLock;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension as _, Row, params_from_iter};

use crate::db::Db;
use crate::error::StoreError;

/// A table: its name, how many columns make its key, and all columns but `crc`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    keys: usize,
    columns: &'static [&'static str],
    sql: OnceLock<Sql>,
}

/// The statements of a table, put together once.
#[derive(Debug)]
struct Sql {
    insert: String,
    upsert: String,
    delete: String,
    select: String,
    by_key: String,
}

impl Table {
    /// Describes a table; the first `keys` columns are its key.
    pub(crate) const fn new(
        name: &'static str,
        keys: usize,
        columns: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            keys,
            columns,
            sql: OnceLock::new(),
        }
    }

    fn sql(&self) -> &Sql {
        self.sql.get_or_init(|| {
            let name = self.name;
            let columns = self.columns.join(", ");
            let marks = vec!["?"; self.columns.len() + 1].join(", ");
            let (keys, rest) = self.columns.split_at(self.keys);
            let set = rest
                .iter()
                .chain(&["crc"])
                .map(|column| format!("{column} = excluded.{column}"))
                .collect::<Vec<_>>()
                .join(", ");
            let by_key = keys
                .iter()
                .map(|key| format!("{key} = ?"))
                .collect::<Vec<_>>()
                .join(" AND ");
            let keys = keys.join(", ");
            let insert = format!("INSERT INTO {name} ({columns}, crc) VALUES ({marks})");
            let select = format!("SELECT {columns}, crc FROM {name}");
            Sql {
                upsert: format!("{insert} ON CONFLICT ({keys}) DO UPDATE SET {set}"),
                by_key: format!("{select} WHERE {by_key}"),
                delete: format!("DELETE FROM {name} WHERE {by_key}"),
                insert,
                select,
            }
        })
    }

    /// Adds a row; the key must be new.
    pub(crate) fn insert(&self, db: &Db, values: &[ValueRef<'_>]) -> Result<(), StoreError> {
        self.put(db, &self.sql().insert, values)
    }

    /// Adds a row, or replaces the one with this key.
    pub(crate) fn upsert(&self, db: &Db, values: &[ValueRef<'_>]) -> Result<(), StoreError> {
        self.put(db, &self.sql().upsert, values)
    }

    fn put(&self, db: &Db, sql: &str, values: &[ValueRef<'_>]) -> Result<(), StoreError> {
        assert_eq!(values.len(), self.columns.len(), "{}", self.name);
        db.in_transaction()?;
        let mut crc = crc32c::crc32c(self.name.as_bytes());
        for value in values {
            crc = digest(crc, *value);
        }
        let crc = ValueRef::Integer(i64::from(crc));
        let all = values.iter().chain([&crc]);
        db.conn
            .prepare_cached(sql)
            .and_then(|mut statement| {
                statement.execute(params_from_iter(all.map(|v| ToSqlOutput::Borrowed(*v))))
            })
            .map_err(|error| self.refused(db, error, values))?;
        Ok(())
    }

    fn refused(&self, db: &Db, error: rusqlite::Error, values: &[ValueRef<'_>]) -> StoreError {
        match &error {
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.code == rusqlite::ErrorCode::ConstraintViolation =>
            {
                StoreError::Twice {
                    table: self.name,
                    row: key_text(&values[..self.keys]),
                }
            }
            _ => db.failed(error),
        }
    }

    /// Removes the row with this key; returns whether it existed.
    pub(crate) fn delete(&self, db: &Db, key: &[ValueRef<'_>]) -> Result<bool, StoreError> {
        db.change(
            &self.sql().delete,
            params_from_iter(key.iter().map(|v| ToSqlOutput::Borrowed(*v))),
        )
        .map(|count| count > 0)
    }

    /// The row with this key, verified.
    pub(crate) fn get<T>(
        &self,
        db: &Db,
        key: &[ValueRef<'_>],
        decode: impl Fn(&Cells<'_>) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        db.conn
            .prepare_cached(&self.sql().by_key)
            .and_then(|mut statement| {
                statement
                    .query_row(
                        params_from_iter(key.iter().map(|v| ToSqlOutput::Borrowed(*v))),
                        |row| Ok(self.checked(db, row, &decode)),
                    )
                    .optional()
            })
            .map_err(|error| db.failed(error))?
            .transpose()
    }

    /// Rows that `tail` (`WHERE …`) picks, verified.
    pub(crate) fn some<T>(
        &self,
        db: &Db,
        tail: &str,
        values: &[ValueRef<'_>],
        decode: impl Fn(&Cells<'_>) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        self.walk(
            db,
            &format!("{} {tail}", self.sql().select),
            values,
            |row| {
                found.push(self.checked(db, row, &decode)?);
                Ok(())
            },
        )?;
        Ok(found)
    }

    /// All rows in the order of their keys, verified one by one and as a whole.
    pub(crate) fn all<T>(
        &self,
        db: &Db,
        decode: impl Fn(&Cells<'_>) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        let sum = self.scan(db, |cells| decode(cells).map(|value| found.push(value)))?;
        self.check_seal(db, found.len(), sum)?;
        Ok(found)
    }

    /// Verifies all rows; returns their number.
    pub(crate) fn verify(&self, db: &Db) -> Result<u64, StoreError> {
        let mut count = 0;
        let sum = self.scan(db, |_| {
            count += 1;
            Some(())
        })?;
        self.check_seal(db, count, sum)?;
        Ok(count as u64)
    }

    /// Gives every row, verified, to `each`; returns the sum of the checksums.
    fn scan(
        &self,
        db: &Db,
        mut each: impl FnMut(&Cells<'_>) -> Option<()>,
    ) -> Result<i64, StoreError> {
        let mut sum = 0_i64;
        self.walk(db, &self.sql().select, &[], |row| {
            sum += row
                .get::<_, i64>(self.columns.len())
                .map_err(|_| self.damaged(db, row))?;
            let cells = self.verified(db, row)?;
            each(&cells).ok_or_else(|| self.damaged(db, row))
        })?;
        Ok(sum)
    }

    fn walk(
        &self,
        db: &Db,
        sql: &str,
        values: &[ValueRef<'_>],
        mut each: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |error| db.failed(error);
        let mut statement = db.conn.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement
            .query(params_from_iter(
                values.iter().map(|v| ToSqlOutput::Borrowed(*v)),
            ))
            .map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(row)?;
        }
        Ok(())
    }

    fn checked<T>(
        &self,
        db: &Db,
        row: &Row<'_>,
        decode: &impl Fn(&Cells<'_>) -> Option<T>,
    ) -> Result<T, StoreError> {
        decode(&self.verified(db, row)?).ok_or_else(|| self.damaged(db, row))
    }

    fn verified<'r>(&self, db: &Db, row: &'r Row<'r>) -> Result<Cells<'r>, StoreError> {
        let count = self.columns.len();
        let mut crc = crc32c::crc32c(self.name.as_bytes());
        for index in 0..count {
            crc = digest(crc, row.get_ref(index).map_err(|e| db.failed(e))?);
        }
        match row.get_ref(count) {
            Ok(ValueRef::Integer(stored)) if stored == i64::from(crc) => Ok(Cells(row)),
            _ => Err(self.damaged(db, row)),
        }
    }

    fn damaged(&self, db: &Db, row: &Row<'_>) -> StoreError {
        let key: Vec<_> = (0..self.keys)
            .map(|index| row.get_ref(index).unwrap_or(ValueRef::Null))
            .collect();
        StoreError::DamagedRow {
            path: db.path.clone(),
            table: self.name,
            row: key_text(&key),
        }
    }

    fn check_seal(&self, db: &Db, count: usize, sum: i64) -> Result<(), StoreError> {
        let sealed = db
            .conn
            .prepare_cached("SELECT rows, sum FROM seal WHERE tbl = ?")
            .and_then(|mut statement| {
                statement
                    .query_row([self.name], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })
            .map_err(|error| db.failed(error))?;
        if sealed == Some((count as i64, sum)) {
            return Ok(());
        }
        Err(StoreError::DamagedTable {
            path: db.path.clone(),
            table: self.name,
        })
    }

    /// The error for a key without a row.
    pub(crate) fn absent(&self, key: &[ValueRef<'_>]) -> StoreError {
        StoreError::NoSuchRow {
            table: self.name,
            row: key_text(key),
        }
    }
}

/// A verified row. Reading a column as another type returns `None`.
pub(crate) struct Cells<'r>(&'r Row<'r>);

impl Cells<'_> {
    /// A whole number.
    pub(crate) fn int(&self, index: usize) -> Option<i64> {
        self.0.get_ref(index).ok()?.as_i64().ok()
    }

    /// A whole number that was written as unsigned.
    pub(crate) fn unsigned(&self, index: usize) -> Option<u64> {
        Some(self.int(index)?.cast_unsigned())
    }

    /// A whole number of 32 bits.
    pub(crate) fn small(&self, index: usize) -> Option<u32> {
        self.int(index)?.try_into().ok()
    }

    /// A whole number or NULL.
    pub(crate) fn maybe(&self, index: usize) -> Option<Option<i64>> {
        self.0.get_ref(index).ok()?.as_i64_or_null().ok()
    }

    /// A text.
    pub(crate) fn text(&self, index: usize) -> Option<String> {
        self.0.get_ref(index).ok()?.as_str().ok().map(str::to_owned)
    }

    /// Bytes.
    pub(crate) fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.0.get_ref(index).ok()?.as_blob().ok()
    }

    /// Bytes of a fixed length.
    pub(crate) fn exact<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        self.bytes(index)?.try_into().ok()
    }

    /// The column as it is stored.
    pub(crate) fn raw(&self, index: usize) -> Option<ValueRef<'_>> {
        self.0.get_ref(index).ok()
    }
}

/// Feeds one column into a checksum: its type, its length and its bytes.
pub(crate) fn digest(crc: u32, value: ValueRef<'_>) -> u32 {
    let number = |tag: u8, bytes: [u8; 8]| {
        let mut buffer = [tag; 9];
        buffer[1..].copy_from_slice(&bytes);
        crc32c::crc32c_append(crc, &buffer)
    };
    match value {
        ValueRef::Null => crc32c::crc32c_append(crc, &[0]),
        ValueRef::Integer(number_) => number(1, number_.to_le_bytes()),
        ValueRef::Real(number_) => number(2, number_.to_bits().to_le_bytes()),
        ValueRef::Text(bytes) => crc32c::crc32c_append(number(3, length(bytes)), bytes),
        ValueRef::Blob(bytes) => crc32c::crc32c_append(number(4, length(bytes)), bytes),
    }
}

fn length(bytes: &[u8]) -> [u8; 8] {
    (bytes.len() as u64).to_le_bytes()
}

fn key_text(key: &[ValueRef<'_>]) -> String {
    let mut text = String::new();
    for value in key {
        if !text.is_empty() {
            text.push('/');
        }
        match value {
            ValueRef::Null => text.push_str("null"),
            ValueRef::Integer(number) => write!(text, "{number}").expect("a string takes any text"),
            ValueRef::Real(number) => write!(text, "{number}").expect("a string takes any text"),
            ValueRef::Text(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
            ValueRef::Blob(bytes) => text.push_str(&nero_model::ids::hex(bytes)),
        }
    }
    text
}

/// Shorthands for columns to be written.
pub(crate) mod cell {
    use rusqlite::types::ValueRef;

    /// A whole number.
    pub(crate) fn int<'a>(value: impl Into<i64>) -> ValueRef<'a> {
        ValueRef::Integer(value.into())
    }

    /// An unsigned number; read back by `Cells::unsigned`.
    pub(crate) fn unsigned<'a>(value: u64) -> ValueRef<'a> {
        ValueRef::Integer(value.cast_signed())
    }

    /// A number or nothing.
    pub(crate) fn maybe<'a>(value: Option<i64>) -> ValueRef<'a> {
        value.map_or(ValueRef::Null, ValueRef::Integer)
    }

    /// A text.
    pub(crate) fn text(value: &str) -> ValueRef<'_> {
        ValueRef::Text(value.as_bytes())
    }

    /// Bytes.
    pub(crate) fn bytes(value: &[u8]) -> ValueRef<'_> {
        ValueRef::Blob(value)
    }
}
