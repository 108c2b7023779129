//! Points in blocks: the rows of `block`.
//!
//! A fold adds one row for the points that it brings of a series. When a series has
//! [`POINTS`] points behind its last full block, their rows become one, in the same
//! transaction. No row reaches beyond a multiple of [`POINTS`].

use rusqlite::types::ValueRef;

use crate::db::Db;
use crate::error::StoreError;
use crate::row::{Point, Series};
use crate::series::Float;
use crate::table::{Cells, Table, cell};

pub(crate) static BLOCK: Table = Table::new("block", 2, &["series", "first", "points"]);

/// Points of a full block.
const POINTS: u64 = 256;

/// Limit of the bytes of a number of [`put_number`].
const NUMBER_BYTES_MAX: u32 = 10;

/// The bytes of a row, and the number of its first point.
struct Block {
    first: u64,
    bytes: Vec<u8>,
}

/// The rows from the last multiple of [`POINTS`] on that is no higher than `count`.
fn from(db: &Db, series: &Series, count: u64) -> Result<Vec<Block>, StoreError> {
    let read = |cells: &Cells<'_>| {
        Some(Block {
            first: cells.unsigned(1)?,
            bytes: cells.bytes(2)?.to_vec(),
        })
    };
    BLOCK.some(
        db,
        "WHERE series = ? AND first >= ? ORDER BY first",
        &[cell::int(series.id), cell::unsigned(count - count % POINTS)],
        read,
    )
}

/// Adds points behind those that the series counts.
pub(crate) fn append(db: &Db, series: &Series, points: &[Point]) -> Result<(), StoreError> {
    let mut first = series.count;
    let mut all = Vec::new();
    let open = series.count % POINTS;
    if open > 0 && open + points.len() as u64 >= POINTS {
        let rows = from(db, series, series.count)?;
        first = rows.first().map_or(first, |row| row.first);
        read_all(db, series, rows, first, &mut all)?;
        if first + all.len() as u64 != series.count {
            return Err(damaged(db, series));
        }
        db.change(
            "DELETE FROM block WHERE series = ? AND first >= ?",
            [series.id, first.cast_signed()],
        )?;
    }
    all.extend_from_slice(points);
    let mut rest = all.as_slice();
    while !rest.is_empty() {
        let room = (POINTS - first % POINTS) as usize;
        let (points, behind) = rest.split_at(room.min(rest.len()));
        let bytes = encode(points);
        BLOCK.insert(
            db,
            &[
                cell::int(series.id),
                cell::unsigned(first),
                ValueRef::Blob(&bytes),
            ],
        )?;
        first += points.len() as u64;
        rest = behind;
    }
    Ok(())
}

/// Adds the points of a series from number `count` on to `points`.
pub(crate) fn read_on(
    db: &Db,
    series: &Series,
    count: u64,
    points: &mut Vec<Point>,
) -> Result<(), StoreError> {
    let rows = from(db, series, count)?;
    let first = rows.first().map_or(count, |row| row.first);
    let begin = points.len();
    read_all(db, series, rows, first, points)?;
    // Of the first block the points before `count` were read earlier.
    let before = count.checked_sub(first).map(|before| before as usize);
    let before = before.filter(|before| *before <= points.len() - begin);
    points.drain(begin..begin + before.ok_or_else(|| damaged(db, series))?);
    Ok(())
}

/// Adds the points of these rows to `points`. The first row begins at point number `first` of its
/// series, and each row where the one before ends; else the series counts as damaged.
fn read_all(
    db: &Db,
    series: &Series,
    rows: Vec<Block>,
    first: u64,
    points: &mut Vec<Point>,
) -> Result<(), StoreError> {
    let begin = points.len();
    for row in rows {
        if row.first != first + (points.len() - begin) as u64 {
            return Err(damaged(db, series));
        }
        decode(&row.bytes, points).ok_or_else(|| damaged(db, series))?;
    }
    Ok(())
}

/// The error for points that are not those that were written.
pub(crate) fn damaged(db: &Db, series: &Series) -> StoreError {
    StoreError::DamagedRow {
        path: db.path.clone(),
        table: "point",
        row: format!("of series {} ({})", series.id, series.name),
    }
}

/// The bytes of points. Each is told by its difference from the one before: a number, whose two
/// lowest bits tell whether the step is whole, and whether the generation is another one; the
/// step's bytes where it is not whole; the generation where it is another one; the time; and
/// the bytes of the value.
fn encode(points: &[Point]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(points.len() * 12);
    let (mut step, mut time_ms, mut generation) = (0, 0, 0);
    for point in points {
        let whole = match Float::new(point.step) {
            Float::Whole(whole) => Some(whole),
            Float::Plain(_) | Float::Bits(_) => None,
        };
        let difference = folded(whole.unwrap_or(step) - step);
        let is_later = point.generation != generation;
        let flags = u64::from(whole.is_some()) | (u64::from(is_later) << 1);
        put_number((difference << 2) | flags, &mut bytes);
        match whole {
            Some(whole) => step = whole,
            None => bytes.extend(point.step.to_bits().to_le_bytes()),
        }
        if is_later {
            put_number(u64::from(point.generation), &mut bytes);
        }
        put_number(folded(point.time_ms.wrapping_sub(time_ms)), &mut bytes);
        bytes.extend(point.value.to_bits().to_le_bytes());
        (time_ms, generation) = (point.time_ms, point.generation);
    }
    bytes
}

/// Adds the points that [`encode`] wrote; `None` where the bytes are no such.
fn decode(mut bytes: &[u8], points: &mut Vec<Point>) -> Option<()> {
    let (mut step, mut time_ms, mut generation) = (0_i64, 0_i64, 0);
    while !bytes.is_empty() {
        let head = take_number(&mut bytes)?;
        step = step.wrapping_add(unfolded(head >> 2));
        let step = if head & 1 > 0 {
            step as f64
        } else {
            take_float(&mut bytes)?
        };
        if head & 2 > 0 {
            generation = take_number(&mut bytes)?.try_into().ok()?;
        }
        time_ms = time_ms.wrapping_add(unfolded(take_number(&mut bytes)?));
        points.push(Point {
            step,
            time_ms,
            value: take_float(&mut bytes)?,
            generation,
        });
    }
    Some(())
}

/// A number without a sign that is small where `number` is near 0.
fn folded(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The inverse of [`folded`].
fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Adds a number in groups of seven bits, the lowest first; a group with the highest bit is not
/// the last one.
fn put_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for group in 0..NUMBER_BYTES_MAX {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << (7 * group);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take_float(bytes: &mut &[u8]) -> Option<f64> {
    let float = bytes.split_off(..8)?;
    Some(f64::from_bits(u64::from_le_bytes(float.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(point: &Point) -> (u64, i64, u64, u32) {
        let Point {
            step,
            time_ms,
            value,
            generation,
        } = *point;
        (step.to_bits(), time_ms, value.to_bits(), generation)
    }

    fn float() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            any::<i32>().prop_map(f64::from),
            (0..400_i32).prop_map(|tenths| f64::from(tenths) / 10.0),
            Just(-0.0),
            Just(9_007_199_254_740_991.0),
            Just(-9_007_199_254_740_991.0),
        ]
    }

    proptest! {
        #[test]
        fn points_come_back_bit_for_bit(
            points in proptest::collection::vec((float(), any::<i64>(), float(), any::<u32>(), 0..3_u32), 0..300),
        ) {
            let points: Vec<Point> = points.into_iter().map(|(step, time_ms, value, generation, kind)| {
                let (time_ms, generation) = match kind {
                    0 => (time_ms, generation),
                    kind => (1_700_000_000_000 + (time_ms & 0xfff), kind),
                };
                Point { step, time_ms, value, generation }
            }).collect();
            let mut back = Vec::new();
            prop_assert!(decode(&encode(&points), &mut back).is_some());
            let bits = |points: &[Point]| points.iter().map(bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&points));
        }

        #[test]
        fn any_bytes_are_points_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, &mut Vec::new());
        }
    }

    #[test]
    fn a_point_of_a_usual_series_takes_ten_bytes() {
        let point = |step: i32| Point {
            step: f64::from(step),
            time_ms: 1_700_000_000_000 + i64::from(step) / 100,
            value: 0.1,
            generation: 1,
        };
        let points: Vec<Point> = (100_000..100_256).map(point).collect();
        let length = encode(&points).len();
        assert!(length < 256 * 10 + 16, "{length}");
    }
}
