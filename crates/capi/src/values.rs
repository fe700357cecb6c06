//! The conversion of option values between C and Rust, for the generated accessors.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};

use tailwater::BottommostRewrite;
use tailwater::options::{
    CacheTier, ChecksumType, CompactionPriority, CompactionStyle, CompressionType,
    DataBlockIndexType, IndexSearchType, IndexShortening, IndexType, InfoLogLevel, PinningTier,
    PrepopulateBlobCache, PrepopulateBlockCache, RecoveryMode, StopStyle, Temperature,
};
use tailwater_io::sync::Mutex;

use crate::boundary::{Failure, Outcome};
use crate::marks::Marks;

/// A type of option values, with its conversion from and to type `C` of the interface.
pub(crate) trait Value<C>: Sized {
    /// Returns the value; `None` if there is none for `value`.
    fn from_c(value: C) -> Option<Self>;
    fn to_c(&self) -> C;
}

/// Implements [`Value`] for numbers. As in RocksDB, numbers that do not fit are truncated.
macro_rules! numbers {
    ($($type:ty: $($c:ty),*;)*) => {
        $($(impl Value<$c> for $type {
            #[inline]
            fn from_c(value: $c) -> Option<Self> {
                Some(value as Self)
            }

            #[inline]
            fn to_c(&self) -> $c {
                *self as $c
            }
        })*)*
    };
}

numbers! {
    u8: u8;
    i32: i32, u32, usize, u64;
    u32: i32, u32, usize, u64;
    i64: i32, i64, usize, u64;
    u64: i32, u32, usize, u64;
    usize: usize, u64;
    f64: f64;
}

impl Value<u8> for bool {
    fn from_c(value: u8) -> Option<Self> {
        Some(value != 0)
    }

    fn to_c(&self) -> u8 {
        (*self).into()
    }
}

impl Value<c_int> for bool {
    fn from_c(value: c_int) -> Option<Self> {
        Some(value != 0)
    }

    fn to_c(&self) -> c_int {
        (*self).into()
    }
}

/// Implements [`Value`] for names that are numbers in C.
macro_rules! choices {
    ($($type:ty { $($number:literal = $value:ident),* $(,)? })*) => {
        $(impl Value<c_int> for $type {
            fn from_c(value: c_int) -> Option<Self> {
                match value {
                    $($number => Some(Self::$value),)*
                    _ => None,
                }
            }

            fn to_c(&self) -> c_int {
                [$((Self::$value, $number)),*]
                    .into_iter()
                    .find(|(value, _)| value == self)
                    .map_or(-1, |(_, number)| number)
            }
        })*
    };
}

choices! {
    CompressionType {
        0 = None, 1 = Snappy, 2 = Zlib, 3 = Bzip2, 4 = Lz4, 5 = Lz4Hc, 6 = Xpress, 7 = Zstd,
        255 = Inherited,
    }
    CompactionStyle { 0 = Level, 1 = Universal, 2 = Fifo, 3 = None }
    CompactionPriority {
        0 = ByCompensatedSize, 1 = OldestLargestSequenceFirst, 2 = OldestSmallestSequenceFirst,
        3 = MinOverlappingRatio, 4 = RoundRobin,
    }
    StopStyle { 0 = SimilarSize, 1 = TotalSize }
    InfoLogLevel { 0 = Debug, 1 = Info, 2 = Warn, 3 = Error, 4 = Fatal, 5 = Header }
    CacheTier { 0 = Volatile, 1 = VolatileCompressed, 2 = NonVolatileBlock }
    PrepopulateBlobCache { 0 = Disable, 1 = FlushOnly }
    PrepopulateBlockCache { 0 = Disable, 1 = FlushOnly, 2 = FlushAndCompaction }
    IndexSearchType { 0 = Binary, 1 = Interpolation, 2 = Auto }
    DataBlockIndexType { 0 = BinarySearch, 1 = BinaryAndHash }
    PinningTier { 0 = Fallback, 1 = None, 2 = FlushedAndSimilar, 3 = All }
    ChecksumType { 0 = None, 1 = Crc32c, 2 = XxHash, 3 = XxHash64, 4 = Xxh3 }
    IndexType {
        0 = BinarySearch, 1 = HashSearch, 2 = TwoLevelIndexSearch, 3 = BinarySearchWithFirstKey,
    }
    IndexShortening { 0 = None, 1 = Separators, 2 = SeparatorsAndSuccessor }
    RecoveryMode {
        0 = TolerateCorruptedTailRecords, 1 = AbsoluteConsistency, 2 = PointInTime,
        3 = SkipAnyCorruptedRecords,
    }
    BottommostRewrite { 0 = Skip, 1 = IfHaveCompactionFilter, 2 = Force, 3 = ForceOptimized }
}

impl Value<c_char> for ChecksumType {
    fn from_c(value: c_char) -> Option<Self> {
        Self::from_c(c_int::from(value))
    }

    fn to_c(&self) -> c_char {
        let number: c_int = self.to_c();
        number as c_char
    }
}

impl Value<u8> for BottommostRewrite {
    fn from_c(value: u8) -> Option<Self> {
        Self::from_c(c_int::from(value))
    }

    fn to_c(&self) -> u8 {
        let number: c_int = self.to_c();
        number as u8
    }
}

impl Value<c_int> for Temperature {
    fn from_c(value: c_int) -> Option<Self> {
        u8::try_from(value).ok().map(Self)
    }

    fn to_c(&self) -> c_int {
        c_int::from(self.0)
    }
}

/// Sets an option. A value that does not exist makes the next call that uses the options fail.
#[inline]
pub(crate) fn set<C: Copy + std::fmt::Display, V: Value<C>>(
    option: &mut V,
    value: C,
    marks: &Marks,
) -> Outcome<()> {
    match V::from_c(value) {
        Some(value) => {
            *option = value;
            Ok(())
        }
        None => {
            let failure = Failure::invalid(format!("{value} is not a value of the option"));
            marks.invalid(failure.clone());
            Err(failure)
        }
    }
}

/// Returns the value of an option.
#[inline]
pub(crate) fn get<C, V: Value<C>>(option: &V) -> Outcome<C> {
    Ok(option.to_c())
}

/// Returns the text of an option.
pub(crate) fn text_from(text: &CStr) -> Outcome<String> {
    text.to_str().map(str::to_owned).map_err(|error| Failure::invalid(format!("{text:?}: {error}")))
}

/// The texts that the getters of an object returned. A text lives until the getter is called after
/// the option was changed.
#[derive(Default)]
pub(crate) struct Texts(Mutex<BTreeMap<&'static str, CString>>);

impl Clone for Texts {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Texts {
    /// Returns the value of the option `name` as a C string, and its length in bytes.
    pub(crate) fn get(&self, name: &'static str, value: &str) -> (*const c_char, usize) {
        let mut texts = self.0.lock();
        let text = texts.entry(name).or_default();
        if text.as_bytes() != value.as_bytes() {
            *text = CString::new(value).unwrap_or_default();
        }
        (text.as_ptr(), text.as_bytes().len())
    }
}
