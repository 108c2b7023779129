//! Files of numbers: little-endian doubles one after the other.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

/// A column of numbers.
pub type Numbers = Vec<f64>;

/// Reads the columns of a file in their order.
#[derive(Debug)]
pub struct NumbersReader(BufReader<File>);

impl NumbersReader {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(|file| Self(BufReader::new(file)))
    }

    /// The next column, of so many numbers.
    ///
    /// # Errors
    /// When the file has fewer.
    pub fn column(&mut self, count: u64) -> io::Result<Numbers> {
        let mut column = Numbers::new();
        let mut number = [0; 8];
        // A count that lies reserves nothing.
        for _ in 0..count {
            self.0.read_exact(&mut number)?;
            column.push(f64::from_le_bytes(number));
        }
        Ok(column)
    }
}
