//! Output: results to standard output, as text or as JSON; messages to standard error.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::outcome::Result;
use crate::text::{escape, hex};

/// How much is collected before it is written, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, and the form that answers have there.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    json: bool,
    hex: bool,
}

impl Output {
    /// Standard output in the form that was asked for.
    pub(crate) fn new(json: bool, hex: bool) -> Self {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
        Self { writer, json, hex }
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether bytes are shown in hex rather than escaped.
    pub(crate) fn is_hex(&self) -> bool {
        self.hex
    }

    /// Bytes of the database in the form that was asked for.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> String {
        if self.hex { hex(bytes) } else { escape(bytes) }
    }

    /// A key for people: quoted where it is text, so that its ends are seen.
    pub(crate) fn key(&self, key: &[u8]) -> String {
        if self.hex { hex(key) } else { format!("'{}'", escape(key)) }
    }

    /// One line of text.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<()> {
        Ok(writeln!(self.writer, "{line}")?)
    }

    /// One JSON document on one line.
    pub(crate) fn json_line(&mut self, value: &Value) -> Result<()> {
        self.line(value)
    }

    /// One JSON document, laid out for people.
    pub(crate) fn json_document(&mut self, value: &Value) -> Result<()> {
        self.line(format_args!("{value:#}"))
    }

    /// Bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.writer.write_all(bytes)?)
    }

    /// A name and a value, the values below each other.
    pub(crate) fn field(&mut self, indent: usize, name: &str, value: impl Display) -> Result<()> {
        let width = 30 - indent;
        self.line(format_args!("{:indent$}{name:width$}  {value}", ""))
    }

    /// Writes what was collected.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}

/// Says on standard error what went wrong. If nobody can be told, nobody is.
pub(crate) fn complain(what: &impl Display) {
    say(format_args!("tailwater: {what}"));
}

/// Says something on standard error.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{what}");
}
