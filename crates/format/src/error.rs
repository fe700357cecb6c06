//! Errors from decoders and encoders.

use std::borrow::Cow;
use std::fmt;

/// Errors from decoders and encoders.
///
/// An offset counts from the start of the slice that the decoder was given. A caller that knows the
/// slice's offset in the file adds it with [`Error::at`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The bytes are damaged: a checksum, a length or a value contradicts the format.
    Corruption {
        /// The structure being decoded, in the format's terms: "block trailer", "version edit".
        what: Cow<'static, str>,
        /// Offset of the error, in bytes from the start of the decoded slice.
        offset: u64,
        /// The value that the format requires at this offset.
        expected: Cow<'static, str>,
        /// The value that was found at `offset`.
        found: Cow<'static, str>,
    },
    /// The bytes are well formed but use an unsupported feature. The error names the feature.
    Unsupported {
        /// The feature's name: "user-defined timestamps", "plain table".
        feature: Cow<'static, str>,
    },
}

/// The result of a decoder.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates the error for damage at `offset` of the decoded slice.
    #[cold]
    pub fn corruption(
        what: impl Into<Cow<'static, str>>,
        offset: usize,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Corruption {
            what: what.into(),
            offset: offset as u64,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Creates the error for a slice that ends at `offset`, before `what` is complete.
    #[cold]
    pub fn truncated(what: impl Into<Cow<'static, str>>, offset: usize) -> Self {
        Self::corruption(what, offset, "more bytes", "the end")
    }

    /// Creates the error for an unsupported feature.
    #[cold]
    pub fn unsupported(feature: impl Into<Cow<'static, str>>) -> Self {
        Self::Unsupported { feature: feature.into() }
    }

    /// Returns the error with its offset increased by `base`, the offset at which the decoded slice
    /// begins in its file or in a larger slice.
    #[must_use]
    pub fn at(mut self, base: u64) -> Self {
        if let Self::Corruption { offset, .. } = &mut self {
            *offset = offset.saturating_add(base);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corruption { what, offset, expected, found } => {
                write!(f, "corrupt {what} at offset {offset}: expected {expected}, found {found}")
            }
            Self::Unsupported { feature } => write!(f, "not supported: {feature}"),
        }
    }
}

impl std::error::Error for Error {}
