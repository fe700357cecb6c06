//! Names of a partition's files.
//!
//! ```text
//! 00000000000000001000-00001700000000000000-0.log
//! |                    |                    |  `- or .index
//! |                    |                    `- generation: 0 as written, 1 rewritten without gaps
//! |                    `- lower bound on the timestamps of its batches, in us since 1970
//! `- offset of its first message
//! ```
//!
//! A segment ends at the offset where the next one begins, so the names alone determine which
//! offsets a partition has. The last segment may contain no messages; its name then preserves the
//! offset of the next message. A file that is still being written has the suffix `.tmp`.
//!
//! While several segments are removed from the beginning of a partition, an empty file
//! `00000000000000001000.start` names the offset with which the partition begins. Segments below it
//! no longer belong to the partition.

use std::fmt;

/// Suffix of the name of an incomplete file.
pub const TEMPORARY: &str = ".tmp";

/// Name of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// Offset of the segment's first message.
    pub base_offset: u64,
    /// Lower bound on the timestamps of the segment's batches, in microseconds since 1970.
    pub base_timestamp_us: u64,
    /// Generation: 0 for a segment as first written, 1 for a segment that was rewritten without
    /// gaps.
    pub generation: u8,
}

/// Kind of a file of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A file of batches: the segment itself.
    Log,
    /// An index: the positions of some of the segment's batches.
    Index,
}

impl Kind {
    /// Returns the file name's extension, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
        }
    }
}

impl SegmentName {
    /// Returns the name of the segment's file of this kind.
    pub fn file(self, kind: Kind) -> FileName {
        FileName { segment: self, kind }
    }
}

/// Name of a file of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// The segment to which the file belongs.
    pub segment: SegmentName,
    /// The file's kind.
    pub kind: Kind,
}

impl FileName {
    /// Parses a file name; `None` if it is not the name of a segment's file.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, extension) = name.split_once('.')?;
        let kind = match extension {
            "log" => Kind::Log,
            "index" => Kind::Index,
            _ => return None,
        };
        let mut parts = stem.split('-');
        let mut number = |digits: usize| {
            let part = parts.next()?;
            let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<u64>().ok()).flatten()
        };
        let (base_offset, base_timestamp_us) = (number(20)?, number(20)?);
        let generation = u8::try_from(number(1)?).ok()?;
        if parts.next().is_some() {
            return None;
        }
        Some(Self { segment: SegmentName { base_offset, base_timestamp_us, generation }, kind })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentName { base_offset, base_timestamp_us, generation } = self.segment;
        let extension = self.kind.extension();
        write!(f, "{base_offset:020}-{base_timestamp_us:020}-{generation}.{extension}")
    }
}

/// Name of the file that records the offset with which a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartName(pub u64);

impl StartName {
    /// Parses a file name; `None` if it is not such a name.
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".start")?;
        let start = Self(digits.parse().ok()?);
        (start.to_string() == name).then_some(start)
    }
}

impl fmt::Display for StartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}.start", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_names_round_trip() {
        for start in [StartName(0), StartName(1000), StartName(u64::MAX)] {
            assert_eq!(StartName::parse(&start.to_string()), Some(start));
        }
        for name in ["1000.start", "00000000000000001000.log", "0000000000000000100x.start"] {
            assert_eq!(StartName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn names_round_trip() {
        let segment = SegmentName {
            base_offset: 1000,
            base_timestamp_us: 1_700_000_000_000_000,
            generation: 0,
        };
        let name = segment.file(Kind::Log);
        assert_eq!(name.to_string(), "00000000000000001000-00001700000000000000-0.log");
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
        let last =
            SegmentName { base_offset: u64::MAX, base_timestamp_us: u64::MAX, generation: 1 };
        assert_eq!(
            FileName::parse(&last.file(Kind::Index).to_string()),
            Some(last.file(Kind::Index))
        );
    }

    #[test]
    fn other_names_are_not_parsed() {
        for name in [
            "",
            "x",
            "00000000000000001000.log",
            "00000000000000001000-00001700000000000000-0.log.tmp",
            "00000000000000001000-00001700000000000000-10.log",
            "+0000000000000001000-00001700000000000000-0.log",
            "00000000000000001000-00001700000000000000-0-0.log",
            "99999999999999999999-00001700000000000000-0.log",
            "00000000000000001000-00001700000000000000-0.data",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
