//! The tables of `series.db`, and floats that survive bit for bit.

use rusqlite::types::ValueRef;

use crate::row::{Point, RunKey, Sample, Series};
use crate::table::{Cells, Table, cell};

pub(crate) static SERIES: Table = Table::new(
    "series",
    1,
    &[
        "id",
        "run",
        "name",
        "points",
        "last",
        "last_step",
        "last_ms",
        "generation",
        "min",
        "max",
    ],
);
pub(crate) static SAMPLE: Table = Table::new(
    "sample",
    3,
    &[
        "run",
        "time_ms",
        "incarnation",
        "cpu_cores",
        "cpu_ms",
        "rss_bytes",
        "peak_rss_bytes",
        "read_bytes",
        "written_bytes",
        "processes",
        "threads",
        "stdout_bytes",
        "stderr_bytes",
        "silent_ms",
    ],
);
pub(crate) static SPAN: Table = Table::new("span", 2, &["series", "first", "last", "content"]);

/// Range of the points that a series had in version 1: a row of `span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// CRC-32C over the points' content, in order.
    pub(crate) content: u32,
}

/// A float as SQLite can hold it: it has no NaN, and no -0.0 in a whole number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Float {
    Whole(i64),
    Plain(f64),
    Bits([u8; 8]),
}

impl Float {
    /// The smallest form that keeps every bit.
    pub(crate) fn new(value: f64) -> Self {
        /// Up to here every whole number is a float and survives the
        /// conversion.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.is_nan() || (value == 0.0 && value.is_sign_negative()) {
            Self::Bits(value.to_bits().to_le_bytes())
        } else if value.abs() < EXACT && value.fract() == 0.0 {
            Self::Whole(value as i64)
        } else {
            Self::Plain(value)
        }
    }

    /// The column to write.
    pub(crate) fn cell(&self) -> ValueRef<'_> {
        match self {
            Self::Whole(number) => ValueRef::Integer(*number),
            Self::Plain(number) => ValueRef::Real(*number),
            Self::Bits(bits) => ValueRef::Blob(bits),
        }
    }
}

/// Reads what [`Float`] wrote.
pub(crate) fn float(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Blob(bits) => Some(f64::from_bits(u64::from_le_bytes(bits.try_into().ok()?))),
        ValueRef::Null | ValueRef::Text(_) => None,
    }
}

/// Feeds a point into the checksum of its span.
pub(crate) fn digest(content: u32, point: &Point) -> u32 {
    let mut bytes = [0; 28];
    bytes[..8].copy_from_slice(&point.step.to_bits().to_le_bytes());
    bytes[8..16].copy_from_slice(&point.time_ms.to_le_bytes());
    bytes[16..24].copy_from_slice(&point.value.to_bits().to_le_bytes());
    bytes[24..].copy_from_slice(&point.generation.to_le_bytes());
    crc32c::crc32c_append(content, &bytes)
}

pub(crate) fn read_series(cells: &Cells<'_>) -> Option<Series> {
    Some(Series {
        id: cells.int(0)?,
        run: RunKey(cells.int(1)?),
        name: cells.text(2)?,
        count: cells.unsigned(3)?,
        last: float(cells.raw(4)?)?,
        last_step: float(cells.raw(5)?)?,
        last_ms: cells.int(6)?,
        generation: cells.small(7)?,
        min: float(cells.raw(8)?)?,
        max: float(cells.raw(9)?)?,
    })
}

/// Gives the columns of a series to `put`.
pub(crate) fn with_series<T>(series: &Series, put: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
    let floats = [series.last, series.last_step, series.min, series.max].map(Float::new);
    put(&[
        cell::int(series.id),
        cell::int(series.run.0),
        cell::text(&series.name),
        cell::unsigned(series.count),
        floats[0].cell(),
        floats[1].cell(),
        cell::int(series.last_ms),
        cell::int(series.generation),
        floats[2].cell(),
        floats[3].cell(),
    ])
}

pub(crate) fn read_sample(cells: &Cells<'_>) -> Option<Sample> {
    Some(Sample {
        time_ms: cells.int(1)?,
        incarnation: cells.small(2)?,
        cpu_cores: float(cells.raw(3)?)?,
        cpu_ms: cells.unsigned(4)?,
        rss_bytes: cells.unsigned(5)?,
        peak_rss_bytes: cells.unsigned(6)?,
        read_bytes: cells.unsigned(7)?,
        written_bytes: cells.unsigned(8)?,
        processes: cells.small(9)?,
        threads: cells.small(10)?,
        stdout_bytes: cells.unsigned(11)?,
        stderr_bytes: cells.unsigned(12)?,
        silent_ms: cells.unsigned(13)?,
    })
}

/// Gives the columns of a sample to `put`.
pub(crate) fn with_sample<T>(
    run: RunKey,
    sample: &Sample,
    put: impl FnOnce(&[ValueRef<'_>]) -> T,
) -> T {
    let cores = Float::new(sample.cpu_cores);
    put(&[
        cell::int(run.0),
        cell::int(sample.time_ms),
        cell::int(sample.incarnation),
        cores.cell(),
        cell::unsigned(sample.cpu_ms),
        cell::unsigned(sample.rss_bytes),
        cell::unsigned(sample.peak_rss_bytes),
        cell::unsigned(sample.read_bytes),
        cell::unsigned(sample.written_bytes),
        cell::int(sample.processes),
        cell::int(sample.threads),
        cell::unsigned(sample.stdout_bytes),
        cell::unsigned(sample.stderr_bytes),
        cell::unsigned(sample.silent_ms),
    ])
}

pub(crate) fn read_span(cells: &Cells<'_>) -> Option<Span> {
    Some(Span {
        first: cells.int(1)?,
        last: cells.int(2)?,
        content: cells.small(3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_comes_back_bit_for_bit() {
        let quiet = f64::from_bits(0x7ff8_0000_0000_1234);
        let signalling = f64::from_bits(0xfff0_0000_0000_0001);
        for value in [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            1e300,
            9_007_199_254_740_991.0,
            9_007_199_254_740_993.0,
            f64::MIN_POSITIVE,
            5e-324,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            quiet,
            signalling,
        ] {
            let back = float(Float::new(value).cell()).unwrap();
            assert_eq!(back.to_bits(), value.to_bits(), "{value}");
        }
    }
}
