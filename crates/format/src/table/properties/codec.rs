//! Decodes properties from the entries of a properties block, and encodes them.

use super::names::{
    COMPRESSION_MANAGER, EMBEDDED_BLOB_STATS, EXTERNAL_GLOBAL_SEQUENCE, EXTERNAL_VERSION, FLAGS,
    INDEX_TYPE, NUMBERS, STRINGS,
};
use super::{IndexType, Properties};
use crate::compress::Compression;
use crate::varint::{Reader, put_varint64};
use crate::{Error, Result};

impl Properties {
    /// Creates properties from the entries of a properties block, which are in the block's order.
    ///
    /// # Errors
    /// Corruption, for names that do not ascend or a value that is not of its property's kind;
    /// unsupported, for an unknown index type.
    pub fn from_entries<Name, Value>(
        entries: impl IntoIterator<Item = (Name, Value)>,
    ) -> Result<Self>
    where
        Name: AsRef<[u8]>,
        Value: AsRef<[u8]>,
    {
        let mut properties = Self::default();
        let mut last: Option<Name> = None;
        for (name, value) in entries {
            if last.is_some_and(|last| last.as_ref() >= name.as_ref()) {
                let expected = "names in order";
                return Err(malformed(name.as_ref(), expected, "one out of order"));
            }
            properties.insert(name.as_ref(), value.as_ref())?;
            last = Some(name);
        }
        Ok(properties)
    }

    /// Sets the property that one entry of a properties block states.
    ///
    /// # Errors
    /// Corruption, for a value that is not of its property's kind; unsupported, for an unknown
    /// index type.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        let text = str::from_utf8(name).unwrap_or_default();
        if let Some(property) = NUMBERS.iter().find(|property| property.name == text) {
            let number = Reader::new(value)
                .varint64("table property")
                .map_err(|_| malformed(name, "a varint", format!("{value:02x?}")))?;
            (property.set)(self, number);
        } else if let Some(property) = STRINGS.iter().find(|property| property.name == text) {
            *(property.place)(self) = value.to_vec();
        } else if let Some(flag) = FLAGS.iter().find(|flag| flag.name == text) {
            *(flag.place)(self) = value != b"0";
        } else if text == INDEX_TYPE {
            let number = Reader::new(value).fixed32("index type property")?;
            let kind = IndexType::from_number(number)
                .ok_or_else(|| Error::unsupported(format!("index type {number}")))?;
            self.index_type = Some(kind);
        } else if text == EXTERNAL_VERSION {
            self.external_version = Some(Reader::new(value).fixed32("external file version")?);
        } else if text == EXTERNAL_GLOBAL_SEQUENCE {
            let sequence = Reader::new(value).fixed64("global sequence number property")?;
            self.external_global_sequence = Some(sequence);
        } else {
            self.user_collected.insert(name.to_vec(), value.to_vec());
        }
        Ok(())
    }

    /// Returns the entries of the properties block, sorted by name. Properties that are zero or
    /// empty are left out if RocksDB also omits them.
    pub fn to_entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.user_collected.clone();
        let mut put = |name: &str, value: Vec<u8>| {
            entries.insert(name.as_bytes().to_vec(), value);
        };
        for property in NUMBERS {
            if let Some(number) = (property.written)(self) {
                let mut value = Vec::new();
                put_varint64(&mut value, number);
                put(property.name, value);
            }
        }
        for property in STRINGS {
            let value = (property.value)(self);
            if !value.is_empty() {
                put(property.name, value.clone());
            }
        }
        for flag in FLAGS {
            if let Some(value) = (flag.written)(self) {
                put(flag.name, vec![b'0' + u8::from(value)]);
            }
        }
        if let Some(kind) = self.index_type {
            put(INDEX_TYPE, (kind as u32).to_le_bytes().to_vec());
        }
        if let Some(version) = self.external_version {
            put(EXTERNAL_VERSION, version.to_le_bytes().to_vec());
        }
        if let Some(sequence) = self.external_global_sequence {
            put(EXTERNAL_GLOBAL_SEQUENCE, sequence.to_le_bytes().to_vec());
        }
        entries.into_iter().collect()
    }

    /// Rejects tables with features that Tailwater does not support.
    ///
    /// # Errors
    /// Unsupported, for keys that were stripped of their timestamps and for blob records inside the
    /// table; corruption, if the index type is missing.
    pub fn check_supported(&self) -> Result<()> {
        if !self.user_defined_timestamps_persisted {
            return Err(Error::unsupported("user-defined timestamps"));
        }
        if self.user_collected.contains_key(EMBEDDED_BLOB_STATS.as_bytes()) {
            return Err(Error::unsupported("embedded blob records"));
        }
        if self.index_type.is_none() {
            return Err(malformed(INDEX_TYPE.as_bytes(), "an index type", "none"));
        }
        Ok(())
    }

    /// Returns the compression types other than [`Compression::None`] that blocks of this table may
    /// have. `format_version` is that of the table's footer. Below version 7 the property is the
    /// name of one type. From version 7 on it consists of the name of the compression manager and
    /// the numbers of the types in hex: `BuiltinV2;0407;`.
    ///
    /// # Errors
    /// Corruption, for a malformed property; unsupported, for a user-defined compression manager.
    pub fn compressions(&self, format_version: u32) -> Result<Vec<Compression>> {
        let expected = "compression types";
        let name = "rocksdb.compression".as_bytes();
        let found = || String::from_utf8_lossy(&self.compression_name).into_owned();
        let text = str::from_utf8(&self.compression_name)
            .map_err(|_| malformed(name, expected, found()))?;
        if format_version < 7 || text.is_empty() {
            if text.is_empty() {
                // A writer that did not record the property may have used any compression type.
                return Ok(Compression::BUILT_IN.into_iter().skip(1).collect());
            }
            let kind = Compression::from_property_name(text)
                .ok_or_else(|| malformed(name, expected, found()))?;
            return Ok((kind != Compression::None).then_some(kind).into_iter().collect());
        }
        let mut fields = text.split(';');
        let (Some(manager), Some(types), Some(_)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(malformed(name, expected, found()));
        };
        if !matches!(manager, COMPRESSION_MANAGER | "" | "nullptr") {
            return Err(Error::unsupported(format!("compression manager {manager}")));
        }
        let pair = |pair: &[u8]| {
            let hex = str::from_utf8(pair).ok()?;
            let digits = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let byte = u8::from_str_radix(hex, 16).ok().filter(|_| digits)?;
            Compression::from_byte(byte).filter(|&kind| kind != Compression::None)
        };
        types
            .as_bytes()
            .chunks(2)
            .map(|chunk| pair(chunk).ok_or_else(|| malformed(name, expected, found())))
            .collect()
    }

    /// Returns the value of the compression property for a table of `format_version`. `configured`
    /// is the compression type in the options, and `used` has the types of the table's blocks.
    /// Below version 7 the property can name only one type: ZSTD if it was used, else the used type
    /// with the lowest number, else `configured`.
    pub fn compression_property(
        format_version: u32,
        configured: Compression,
        used: &[Compression],
    ) -> Vec<u8> {
        let mut types: Vec<u8> = used.iter().map(|kind| kind.to_byte()).collect();
        types.retain(|&byte| byte != Compression::None.to_byte());
        types.sort_unstable();
        types.dedup();
        if format_version < 7 {
            let zstd = Compression::Zstd.to_byte();
            let first = if types.contains(&zstd) { Some(zstd) } else { types.first().copied() };
            let named = first.and_then(Compression::from_byte).unwrap_or(configured);
            return named.property_name().into_owned().into_bytes();
        }
        let manager = if configured == Compression::None { "" } else { COMPRESSION_MANAGER };
        let hex: String = types.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("{manager};{hex};").into_bytes()
    }
}

#[cold]
fn malformed(name: &[u8], expected: &'static str, found: impl Into<String>) -> Error {
    let what = format!("table property {}", name.escape_ascii());
    Error::corruption(what, 0, expected, found.into())
}
