//! Output: results to standard output, as text or as JSON; messages to standard error.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::outcome::Result;
use crate::text::{escape, hex};

/// Size of the output buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, and the format of results.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    json: bool,
    hex: bool,
    /// Whether the verb goes on if the reader of standard output has closed it.
    outlasts_reader: bool,
}

impl Output {
    /// Opens standard output with the requested format.
    pub(crate) fn new(json: bool, hex: bool) -> Self {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
        Self { writer, json, hex, outlasts_reader: false }
    }

    /// Makes the verb go on without output if the reader of standard output closes it. For verbs
    /// whose purpose is what they change or their exit code.
    pub(crate) fn outlasting_reader(mut self) -> Self {
        self.outlasts_reader = true;
        self
    }

    /// Returns whether results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Returns whether bytes are shown in hex rather than escaped.
    pub(crate) fn is_hex(&self) -> bool {
        self.hex
    }

    /// Returns bytes of the database in the requested format.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> String {
        if self.hex { hex(bytes) } else { escape(bytes) }
    }

    /// Returns a key in the requested format. Escaped text is quoted, to show where it begins and
    /// ends.
    pub(crate) fn key(&self, key: &[u8]) -> String {
        if self.hex { hex(key) } else { format!("'{}'", escape(key)) }
    }

    /// Writes a line of text.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<()> {
        let written = writeln!(self.writer, "{line}");
        self.accept(written)
    }

    /// Writes a JSON document on one line.
    pub(crate) fn json_line(&mut self, value: &Value) -> Result<()> {
        self.line(value)
    }

    /// Writes a JSON document, indented.
    pub(crate) fn json_document(&mut self, value: &Value) -> Result<()> {
        self.line(format_args!("{value:#}"))
    }

    /// Writes what a verb did, as a JSON document, if results are JSON.
    pub(crate) fn report(&mut self, value: &Value) -> Result<()> {
        if self.json { self.json_document(value) } else { Ok(()) }
    }

    /// Writes raw bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writer.write_all(bytes);
        self.accept(written)
    }

    /// Writes a line with a name and a value. `indent` is a number of spaces; all values begin in
    /// the same column.
    pub(crate) fn field(&mut self, indent: usize, name: &str, value: impl Display) -> Result<()> {
        let width = 30 - indent;
        self.line(format_args!("{:indent$}{name:width$}  {value}", ""))
    }

    /// Flushes the buffer.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let flushed = self.writer.flush();
        self.accept(flushed)
    }

    fn accept(&self, written: io::Result<()>) -> Result<()> {
        match written {
            Err(error) if self.outlasts_reader && error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(())
            }
            written => Ok(written?),
        }
    }
}

/// Prints an error on standard error. If this fails, the failure is ignored.
pub(crate) fn complain(what: &impl Display) {
    say(format_args!("tailwater: {what}"));
}

/// Prints a line on standard error.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{what}");
}
