//! Compression of a table's blocks, chosen by the options and the level.
//!
//! Source: `GetCompressionFlush` in `db/db_impl/db_impl.cc`, `GetCompressionType` and
//! `GetCompressionOptions` in `db/compaction/compaction_picker.cc`, and
//! `CompressionOptionsToString` in `util/compression.cc`.

use std::fmt::Write;

use tailwater_format::compress::{Compression, Compressor, CompressorOptions};

use crate::options::{ColumnFamilyOptions, CompactionStyle, CompressionOptions, CompressionType};

/// The compression of a table's blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct TableCompression {
    /// The algorithm.
    pub kind: Compression,
    /// The algorithm's parameters.
    pub options: CompressionOptions,
}

impl TableCompression {
    /// Returns the settings for tables that are not compressed.
    pub fn none() -> Self {
        Self { kind: Compression::None, options: CompressionOptions::default() }
    }

    /// Returns the compression settings for a table that is written by a flush.
    pub fn for_flush(options: &ColumnFamilyOptions) -> Self {
        let universal = options.compaction_style == CompactionStyle::Universal;
        let spared =
            universal && options.compaction_options_universal.compression_size_percent >= 0;
        let first = options.compression_per_level.first();
        let kind = match first {
            _ if spared => CompressionType::None,
            Some(first) => *first,
            None => options.compression,
        };
        Self { kind: format_compression(kind), options: options.compression_opts.clone() }
    }

    /// Returns the compression settings for a table that a compaction writes into `level`.
    /// `base_level` is the first level below level 0 that has tables, or 1. `bottommost` says
    /// whether no deeper level has tables.
    pub fn for_level(
        options: &ColumnFamilyOptions,
        level: usize,
        base_level: usize,
        bottommost: bool,
    ) -> Self {
        let per_level = &options.compression_per_level;
        let place = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level) };
        let kind = match options.bottommost_compression {
            CompressionType::Inherited => None,
            own => Some(own).filter(|_| bottommost),
        };
        let kind = kind
            .or_else(|| per_level.get(place).or(per_level.last()).copied())
            .unwrap_or(options.compression);
        let own_options = bottommost && options.bottommost_compression_opts.enabled;
        let options = if own_options {
            &options.bottommost_compression_opts
        } else {
            &options.compression_opts
        };
        Self { kind: format_compression(kind), options: options.clone() }
    }

    /// Returns the compression of tables created outside a database: that of the last level.
    pub fn for_external(options: &ColumnFamilyOptions) -> Self {
        let is_bottommost = options.bottommost_compression != CompressionType::Inherited;
        let kind = match options.compression_per_level.last() {
            _ if is_bottommost => options.bottommost_compression,
            Some(last) => *last,
            None => options.compression,
        };
        let own_options = is_bottommost && options.bottommost_compression_opts.enabled;
        let options = if own_options {
            &options.bottommost_compression_opts
        } else {
            &options.compression_opts
        };
        Self { kind: format_compression(kind), options: options.clone() }
    }

    /// Creates a compressor of blocks.
    ///
    /// # Errors
    /// Unsupported, for an algorithm that cannot be written or a compression level that the
    /// algorithm does not have.
    pub(super) fn compressor(&self) -> tailwater_format::Result<Compressor> {
        let options = CompressorOptions {
            level: self.options.level,
            max_compressed_bytes_per_kb: self.options.max_compressed_bytes_per_kb,
            checksum: self.options.checksum,
        };
        Compressor::new(self.kind, &options, &[])
    }

    /// Returns the text that describes these compression settings in a table's properties.
    pub(super) fn description(&self) -> String {
        let options = &self.options;
        let numbers = [
            ("window_bits", i64::from(options.window_bits)),
            ("level", options.level.into()),
            ("strategy", options.strategy.into()),
            // Dictionaries are never written, whatever the column family's options say.
            ("max_dict_bytes", 0),
            ("zstd_max_train_bytes", 0),
            ("enabled", options.enabled.into()),
            ("max_dict_buffer_bytes", options.max_dict_buffer_bytes.cast_signed()),
            ("use_zstd_dict_trainer", options.use_zstd_dict_trainer.into()),
            ("max_compressed_bytes_per_kb", options.max_compressed_bytes_per_kb.into()),
            ("checksum", options.checksum.into()),
            ("_type", self.kind.to_byte().into()),
        ];
        let mut text = String::new();
        for (name, number) in numbers {
            let _ = write!(text, "{name}={number}; ");
        }
        text
    }
}

/// Converts a compression type of the options to that of the table format. `Inherited` does not
/// occur here: validation of the options accepts it only for `bottommost_compression`, and there it
/// is handled before this call.
fn format_compression(kind: CompressionType) -> Compression {
    match kind {
        CompressionType::None | CompressionType::Inherited => Compression::None,
        CompressionType::Snappy => Compression::Snappy,
        CompressionType::Zlib => Compression::Zlib,
        CompressionType::Bzip2 => Compression::Bzip2,
        CompressionType::Lz4 => Compression::Lz4,
        CompressionType::Lz4Hc => Compression::Lz4Hc,
        CompressionType::Xpress => Compression::Xpress,
        CompressionType::Zstd => Compression::Zstd,
    }
}
