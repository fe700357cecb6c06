//! The field that records the progress of a subcompaction, so that the subcompaction can be resumed
//! after an interruption.
//!
//! The whole field and its parts have the form `(custom tag: varint32, custom field: slice)*, 1`.
//! If bit 16 of a custom tag is set, a reader that does not know the tag ignores the custom field.
//! If it is not set, a reader must know the tag.

use super::{NewFile, field, put_field, put_number_field, tag};
use crate::varint::{Reader, put_length_prefixed, put_varint32};
use crate::{Error, Result};

/// Bit of a custom tag. If it is set, a reader that does not know the tag ignores the field.
const IGNORABLE: u32 = 1 << 16;

/// Tag that ends the custom fields.
const END: u32 = 1;

mod custom {
    pub(super) const NEXT_KEY: u32 = 2;
    pub(super) const INPUT_RECORDS: u32 = 3;
    pub(super) const OUTPUT_LEVEL: u32 = 4;
    pub(super) const PROXIMAL_LEVEL: u32 = 5;
}

mod level_custom {
    pub(super) const OUTPUT_FILES: u32 = 2;
    pub(super) const OUTPUT_RECORDS: u32 = 3;
}

/// The output of a subcompaction to one level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelProgress {
    /// Number of all records that the subcompaction has written to this level so far.
    pub output_records: u64,
    /// The tables that the subcompaction completed in this level since progress was last recorded.
    /// The level fields of these tables have no meaning. If there are no such tables, no progress
    /// is recorded for this level.
    pub output_files: Vec<NewFile>,
}

/// The progress of a subcompaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubcompactionProgress {
    /// The next internal key that the subcompaction processes; empty if it has not processed any
    /// key.
    pub next_key: Vec<u8>,
    /// Number of records that the subcompaction has read in total.
    pub input_records: u64,
    /// Progress in the output level.
    pub output_level: LevelProgress,
    /// Progress in the proximal level. This is the level before the output level. It receives
    /// recently written data.
    pub proximal_level: LevelProgress,
}

impl SubcompactionProgress {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut progress = Self::default();
        loop {
            let what = "progress of a subcompaction";
            match reader.varint32(what)? {
                END => return Ok(progress),
                custom::NEXT_KEY => progress.next_key = reader.length_prefixed(what)?.to_vec(),
                custom::INPUT_RECORDS => {
                    progress.input_records = field(reader, what, |field| field.varint64(what))?;
                }
                custom::OUTPUT_LEVEL => {
                    progress.output_level = field(reader, what, LevelProgress::decode)?;
                }
                custom::PROXIMAL_LEVEL => {
                    progress.proximal_level = field(reader, what, LevelProgress::decode)?;
                }
                tag => skip(reader, tag)?,
            }
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        if !self.next_key.is_empty() {
            put_field(out, custom::NEXT_KEY, &self.next_key);
        }
        put_number_field(out, custom::INPUT_RECORDS, self.input_records);
        for (tag, level) in [
            (custom::OUTPUT_LEVEL, &self.output_level),
            (custom::PROXIMAL_LEVEL, &self.proximal_level),
        ] {
            if !level.output_files.is_empty() {
                let mut field = Vec::new();
                level.encode(&mut field)?;
                put_field(out, tag, &field);
            }
        }
        put_varint32(out, END);
        Ok(())
    }
}

impl LevelProgress {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut progress = Self::default();
        loop {
            let what = "progress in a level";
            match reader.varint32(what)? {
                END => return Ok(progress),
                level_custom::OUTPUT_RECORDS => {
                    progress.output_records = field(reader, what, |field| field.varint64(what))?;
                }
                level_custom::OUTPUT_FILES => {
                    progress.output_files = field(reader, what, decode_files)?;
                }
                tag => skip(reader, tag)?,
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.output_records > 0 {
            put_number_field(out, level_custom::OUTPUT_RECORDS, self.output_records);
        }
        let mut files = Vec::new();
        put_varint32(&mut files, self.output_files.len() as u32);
        for file in &self.output_files {
            let mut field = Vec::new();
            file.encode(None, &mut field)?;
            put_length_prefixed(&mut files, &field);
        }
        put_field(out, level_custom::OUTPUT_FILES, &files);
        put_varint32(out, END);
        Ok(())
    }
}

fn decode_files(reader: &mut Reader<'_>) -> Result<Vec<NewFile>> {
    let what = "output file of a subcompaction";
    let count = reader.varint32(what)?;
    let mut files = Vec::new();
    for _ in 0..count {
        files.push(field(reader, what, |field| {
            let start = field.offset();
            match field.varint32(what)? {
                tag::NEW_FILE_4 => NewFile::decode_4(field, &mut None),
                found => {
                    let expected = format!("tag {}", tag::NEW_FILE_4);
                    Err(Error::corruption(what, start, expected, found.to_string()))
                }
            }
        })?);
    }
    Ok(files)
}

fn skip(reader: &mut Reader<'_>, tag: u32) -> Result<()> {
    if tag & IGNORABLE == 0 {
        return Err(Error::unsupported(format!("field {tag} of a subcompaction's progress")));
    }
    reader.length_prefixed("ignorable field of a subcompaction's progress")?;
    Ok(())
}
