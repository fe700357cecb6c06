//! The input file, read line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::outcome::{Failure, Result};

/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// The path that denotes standard input.
const STANDARD_INPUT: &str = "-";

/// Text that is read line by line and may have any length.
pub(super) struct Lines<R> {
    reader: R,
    /// Name of the input in messages.
    name: String,
    /// Number of lines read.
    number: u64,
    /// Number of bytes read.
    bytes: u64,
}

/// Opens a file, or standard input.
///
/// # Errors
/// [`Failure::Input`], if the file cannot be opened.
pub(super) fn open(path: &Path) -> Result<Lines<Box<dyn BufRead>>> {
    if path == Path::new(STANDARD_INPUT) {
        let reader = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
        return Ok(Lines::new(Box::new(reader), "standard input"));
    }
    let name = path.display().to_string();
    #[expect(clippy::disallowed_methods, reason = "not a database's file, and may be a pipe")]
    let file = File::open(path)
        .map_err(|error| Failure::Input(format!("{name}: cannot open the file: {error}")))?;
    Ok(Lines::new(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), name))
}

impl<R: BufRead> Lines<R> {
    /// Creates a reader of the lines of `reader`. Error messages call the input `name`.
    pub(super) fn new(reader: R, name: impl Into<String>) -> Self {
        Self { reader, name: name.into(), number: 0, bytes: 0 }
    }

    /// Returns the number of lines read, which is the number of the last line.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes read, including line ends.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Replaces `line` by the next line, without its line end. Returns false if no line is left.
    ///
    /// # Errors
    /// [`Failure::Input`], if the file cannot be read, or the last line has no line end: if the
    /// file was truncated, the end of a value may be missing.
    pub(super) fn read(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let count = self.reader.read_until(b'\n', line).map_err(|error| {
            Failure::Input(format!("{} after line {}: {error}", self.name, self.number))
        })?;
        if count == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.bytes += count as u64;
        match line.pop_if(|last| *last == b'\n') {
            Some(_) => Ok(true),
            None => Err(self.malformed(
                self.number,
                "the input ends within this line: it may be truncated (if not, add a line end)",
            )),
        }
    }

    /// Returns the error for a malformed line.
    pub(super) fn malformed(&self, line: u64, reason: &str) -> Failure {
        Failure::Input(format!("{} line {line}: {reason}", self.name))
    }
}
