//! Reads the records of a batch.

use crate::key::Sequence;
use crate::varint::Reader;
use crate::{Error, Result};

use super::COUNT_OFFSET;
use super::record::{Layout, Record, RecordKind};

/// An iterator over the records of a batch, in order. It does not allocate. It does not check the
/// values of the records; [`Record::check`] does.
///
/// The iterator ends after the first error. After the last record, it returns an error if the count
/// in the header is not the number of records that change a key.
#[derive(Debug, Clone)]
pub struct BatchReader<'a> {
    sequence: Sequence,
    count: u32,
    found: u32,
    reader: Reader<'a>,
    finished: bool,
}

impl<'a> BatchReader<'a> {
    /// Reads the header of a batch.
    ///
    /// # Errors
    /// Corruption if `bytes` is shorter than a header.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let sequence = reader.fixed64("write batch header")?;
        let count = reader.fixed32("write batch header")?;
        Ok(Self { sequence, count, found: 0, reader, finished: false })
    }

    /// Returns the sequence number of the batch, which is that of the first record that changes a
    /// key.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the number of records that change a key, as recorded in the header.
    pub fn record_count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn read(&mut self) -> Result<Record<'a>> {
        let offset = self.reader.offset();
        let tag = self.reader.u8("write batch record")?;
        let Some((kind, has_column_family)) = RecordKind::from_tag(tag) else {
            let found = format!("tag {tag:#x}");
            return Err(Error::corruption("write batch record", offset, "a known tag", found));
        };
        let column_family =
            if has_column_family { self.reader.varint32("column family id")? } else { 0 };
        let (key, value): (&[u8], &[u8]) = match kind.layout() {
            Layout::Key => (self.key()?, &[]),
            Layout::KeyAndValue => (self.key()?, self.value()?),
            Layout::Value => (&[], self.value()?),
            Layout::ValueAndKey => {
                let value = self.value()?;
                (self.key()?, value)
            }
            Layout::Nothing => (&[], &[]),
        };
        self.found = self.found.saturating_add(u32::from(kind.value_type().is_some()));
        Ok(Record { offset, column_family, kind, key, value })
    }

    #[inline]
    fn key(&mut self) -> Result<&'a [u8]> {
        self.reader.length_prefixed("write batch key")
    }

    #[inline]
    fn value(&mut self) -> Result<&'a [u8]> {
        self.reader.length_prefixed("write batch value")
    }

    #[cold]
    fn check_count(&self) -> Option<Result<Record<'a>>> {
        (self.found != self.count).then(|| {
            let expected = format!("{} records that change a key", self.count);
            let found = self.found.to_string();
            Err(Error::corruption("write batch", COUNT_OFFSET, expected, found))
        })
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Result<Record<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        if self.reader.is_empty() {
            self.finished = true;
            return self.check_count();
        }
        let record = self.read();
        self.finished = record.is_err();
        Some(record)
    }
}
