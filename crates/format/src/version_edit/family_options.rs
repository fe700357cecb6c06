//! The options of a new column family, which a MANIFEST records until an OPTIONS file has them.

use crate::Result;
use crate::varint::{Reader, put_length_prefixed, put_varint64};

/// The options of a new column family.
///
/// Encoded as the number, a varint64, and the text, a slice. The text is that of an OPTIONS file in
/// which the column family `default` has the options, and `[DBOptions]` is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyOptions {
    /// An OPTIONS file with this number or a higher one was written after the column family was
    /// created: if the file has options of the column family, these are newer.
    pub options_number: u64,
    /// The text of the options.
    pub text: String,
}

impl FamilyOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// Corruption, if the bytes end too early; unsupported, for text that is not UTF-8.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let options_number = reader.varint64("OPTIONS file number")?;
        let text = super::text(reader, "text of options")?;
        Ok(Self { options_number, text })
    }

    /// Appends the encoded options to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.options_number);
        put_length_prefixed(out, self.text.as_bytes());
    }
}
