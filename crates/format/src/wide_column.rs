//! Wide-column entities: values that consist of several named columns.
//!
//! ```text
//! version 1   version, number of columns;
//!             for each its name's length, its name and its value's length;
//!             values
//! version 2   version, number of columns;
//!             three section lengths: of the name lengths, the value lengths and the names;
//!             a type byte for each column; name lengths; value lengths; names; values
//! ```
//!
//! Numbers are 32-bit varints. Columns are sorted by the bytes of their names, so that the default
//! column, whose name is empty, comes first. In version 2 a column's value may be in a blob file:
//! the column then has the value type of a blob index, and the blob index is stored as its value.
//! RocksDB writes version 2 only if a column is in a blob file. Source:
//! `db/wide/wide_column_serialization.h`.

use crate::key::ValueType;
use crate::varint::{Reader, put_varint32};
use crate::{Error, Result};

const WHAT: &str = "wide-column entity";
/// Maximum number of columns for which memory is reserved before any has been read.
const MAX_ROOM: u32 = 1024;
/// Name of the column that a plain read of an entity returns.
pub const DEFAULT_COLUMN: &[u8] = b"";

/// One column of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideColumn<'a> {
    /// The name; empty for the default column.
    pub name: &'a [u8],
    /// The value, or the blob index that locates the value.
    pub value: &'a [u8],
    /// Whether `value` is a blob index.
    pub is_blob_index: bool,
}

impl<'a> WideColumn<'a> {
    /// Creates a column with an inline value.
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, is_blob_index: false }
    }
}

/// Returns the columns of an entity, in the order of their names.
///
/// # Errors
/// Corruption, for an unknown version or column type, names that do not ascend, lengths that do not
/// add up, or bytes after the last value.
pub fn decode(entity: &[u8]) -> Result<Vec<WideColumn<'_>>> {
    let mut reader = Reader::new(entity);
    let (version, count) = (version(&mut reader)?, reader.varint32(WHAT)?);
    match version {
        Version::One => decode_version_1(reader, count),
        Version::Two => decode_version_2(reader, count),
    }
}

/// Returns the default column of an entity; `None` if the entity has no default column. Allocates
/// nothing.
///
/// # Errors
/// Corruption, for an entity whose bytes up to the end of that column are damaged.
pub fn default_column(entity: &[u8]) -> Result<Option<WideColumn<'_>>> {
    let mut reader = Reader::new(entity);
    let (version, count) = (version(&mut reader)?, reader.varint32(WHAT)?);
    if count == 0 {
        return Ok(None);
    }
    match version {
        Version::One => {
            let mut value_length = 0;
            for number in 0..count {
                let name = reader.length_prefixed(WHAT)?;
                let length = reader.varint32(WHAT)?;
                match number {
                    0 if name != DEFAULT_COLUMN => return Ok(None),
                    0 => value_length = length,
                    _ => {}
                }
            }
            let value = reader.bytes(value_length as usize, WHAT)?;
            Ok(Some(WideColumn::new(DEFAULT_COLUMN, value)))
        }
        Version::Two => {
            let mut sections = Sections::split(reader, count)?;
            if sections.name_lengths.varint32(WHAT)? != 0 {
                return Ok(None);
            }
            sections.column(0, DEFAULT_COLUMN).map(Some)
        }
    }
}

/// Returns whether any column of an entity is in a blob file. Reads only the version and the types
/// of the columns.
///
/// # Errors
/// Corruption, for an unknown version or column type or an entity that ends before its types.
pub fn has_blob_columns(entity: &[u8]) -> Result<bool> {
    let mut reader = Reader::new(entity);
    match version(&mut reader)? {
        Version::One => Ok(false),
        Version::Two => {
            let count = reader.varint32(WHAT)?;
            let types = Sections::split(reader, count)?.types;
            Ok(types.contains(&(ValueType::BlobIndex as u8)))
        }
    }
}

/// Returns the blob indexes of an entity, one for each column whose value is in a blob file.
///
/// # Errors
/// The errors of [`decode`].
pub fn blob_indexes(entity: &[u8]) -> Result<Vec<&[u8]>> {
    if !has_blob_columns(entity)? {
        return Ok(Vec::new());
    }
    let blobs = decode(entity)?.into_iter().filter(|column| column.is_blob_index);
    Ok(blobs.map(|column| column.value).collect())
}

/// Appends an entity with these columns. It has version 2 if a column is in a blob file, and
/// version 1 otherwise.
///
/// # Errors
/// Corruption, for names that do not ascend; unsupported, for names, values or counts of 4 GiB or
/// more.
pub fn encode(columns: &[WideColumn<'_>], out: &mut Vec<u8>) -> Result<()> {
    check_order(columns)?;
    let too_large = || Error::unsupported("wide columns of 4 GiB or more");
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| too_large());
    let count = u32::try_from(columns.len()).map_err(|_| too_large())?;
    if !columns.iter().any(|column| column.is_blob_index) {
        put_varint32(out, Version::One as u32);
        put_varint32(out, count);
        for column in columns {
            put_varint32(out, length(column.name)?);
            out.extend_from_slice(column.name);
            put_varint32(out, length(column.value)?);
        }
    } else {
        let (mut name_lengths, mut value_lengths) = (Vec::new(), Vec::new());
        let (mut names, mut types) = (Vec::new(), Vec::new());
        for column in columns {
            put_varint32(&mut name_lengths, length(column.name)?);
            put_varint32(&mut value_lengths, length(column.value)?);
            names.extend_from_slice(column.name);
            let blob = column.is_blob_index;
            types.push(if blob { ValueType::BlobIndex } else { ValueType::Value } as u8);
        }
        put_varint32(out, Version::Two as u32);
        put_varint32(out, count);
        for section in [&name_lengths, &value_lengths, &names] {
            put_varint32(out, length(section)?);
        }
        for section in [&types, &name_lengths, &value_lengths, &names] {
            out.extend_from_slice(section);
        }
    }
    for column in columns {
        out.extend_from_slice(column.value);
    }
    Ok(())
}

#[derive(Clone, Copy)]
#[repr(u32)]
enum Version {
    One = 1,
    Two = 2,
}

fn version(reader: &mut Reader<'_>) -> Result<Version> {
    match reader.varint32(WHAT)? {
        1 => Ok(Version::One),
        2 => Ok(Version::Two),
        other => Err(Error::corruption(WHAT, 0, "version 1 or 2", format!("{other}"))),
    }
}

fn decode_version_1(mut reader: Reader<'_>, count: u32) -> Result<Vec<WideColumn<'_>>> {
    let mut columns = room_for(count);
    let mut lengths = Vec::with_capacity(columns.capacity());
    for _ in 0..count {
        columns.push(WideColumn::new(reader.length_prefixed(WHAT)?, &[]));
        lengths.push(reader.varint32(WHAT)?);
    }
    for (column, length) in columns.iter_mut().zip(lengths) {
        column.value = reader.bytes(length as usize, WHAT)?;
    }
    check_end(&reader)?;
    check_order(&columns)?;
    Ok(columns)
}

fn decode_version_2(reader: Reader<'_>, count: u32) -> Result<Vec<WideColumn<'_>>> {
    let mut sections = Sections::split(reader, count)?;
    let mut columns = room_for(count);
    for number in 0..sections.types.len() {
        let length = sections.name_lengths.varint32(WHAT)?;
        let name = sections.names.bytes(length as usize, WHAT)?;
        columns.push(sections.column(number, name)?);
    }
    for section in [sections.name_lengths, sections.value_lengths, sections.names, sections.values]
    {
        check_end(&section)?;
    }
    check_order(&columns)?;
    Ok(columns)
}

/// The sections of an entity of version 2. The reader of each section is at the next column.
struct Sections<'a> {
    types: &'a [u8],
    name_lengths: Reader<'a>,
    value_lengths: Reader<'a>,
    names: Reader<'a>,
    values: Reader<'a>,
}

impl<'a> Sections<'a> {
    /// Splits the bytes of an entity into its sections. `reader` is positioned after the number of
    /// columns, which is `count`.
    fn split(mut reader: Reader<'a>, count: u32) -> Result<Self> {
        let name_lengths = reader.varint32(WHAT)? as usize;
        let value_lengths = reader.varint32(WHAT)? as usize;
        let names = reader.varint32(WHAT)? as usize;
        let start = reader.offset();
        let types = reader.bytes(count as usize, WHAT)?;
        let known = [ValueType::Value as u8, ValueType::BlobIndex as u8];
        if let Some(at) = types.iter().position(|kind| !known.contains(kind)) {
            let found = format!("{:#04x}", types.get(at).copied().unwrap_or_default());
            return Err(Error::corruption(WHAT, start + at, "a known column type", found));
        }
        Ok(Self {
            types,
            name_lengths: Reader::new(reader.bytes(name_lengths, WHAT)?),
            value_lengths: Reader::new(reader.bytes(value_lengths, WHAT)?),
            names: Reader::new(reader.bytes(names, WHAT)?),
            values: Reader::new(reader.remaining()),
        })
    }

    /// Returns column `number`, whose name has been read. Columns must be read in order.
    fn column(&mut self, number: usize, name: &'a [u8]) -> Result<WideColumn<'a>> {
        let length = self.value_lengths.varint32(WHAT)?;
        let value = self.values.bytes(length as usize, WHAT)?;
        let is_blob_index = self.types.get(number) == Some(&(ValueType::BlobIndex as u8));
        Ok(WideColumn { name, value, is_blob_index })
    }
}

/// Returns a vector with reserved memory for `count` columns, but at most [`MAX_ROOM`], because a
/// damaged count may be huge.
fn room_for<'a>(count: u32) -> Vec<WideColumn<'a>> {
    Vec::with_capacity(count.min(MAX_ROOM) as usize)
}

fn check_order(columns: &[WideColumn<'_>]) -> Result<()> {
    let out_of_order = columns.windows(2).find_map(|pair| match pair {
        [a, b] if a.name >= b.name => Some(b.name),
        _ => None,
    });
    match out_of_order {
        None => Ok(()),
        Some(name) => {
            let found = format!("'{}' out of order", name.escape_ascii());
            Err(Error::corruption(WHAT, 0, "names that ascend", found))
        }
    }
}

fn check_end(reader: &Reader<'_>) -> Result<()> {
    if reader.is_empty() {
        return Ok(());
    }
    let found = format!("{} more bytes", reader.remaining().len());
    Err(Error::corruption(WHAT, reader.offset(), "the end", found))
}
