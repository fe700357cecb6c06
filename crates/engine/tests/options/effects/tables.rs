//! Effects of options on how tables are written.

use tailwater_format::checksum::ChecksumType;

use super::support::{Scene, open};

/// Returns a database with one flushed table. `value` returns the value for each key.
fn flushed(family: &str, table: &str, value: impl Fn(usize) -> String) -> Scene {
    let scene = open(&format!(
        "{family};disable_auto_compactions=true;block_based_table_factory={{{table}}}"
    ));
    for key in 0..1000 {
        scene.put(&format!("{key:06}"), &value(key));
    }
    scene.flush();
    scene
}

/// Returns a value that compresses somewhat.
fn value(key: usize) -> String {
    format!("value-{}-{}", key % 7, "x".repeat(20))
}

/// Returns a value that compresses to about half its size.
fn half_random(key: usize) -> String {
    let mut random = fastrand::Rng::with_seed(key as u64);
    let half: String = (0..50).map(|_| random.alphanumeric()).collect();
    half + &"x".repeat(50)
}

/// Returns the length in bytes of an uncompressed table.
fn plain_size(table: &str) -> u64 {
    flushed("compression=kNoCompression", table, value).sizes()[0]
}

/// Returns the length in bytes of a table, which is compressed unless the options disable that.
fn packed_size(family: &str, table: &str, value: fn(usize) -> String) -> u64 {
    flushed(family, table, value).sizes()[0]
}

/// Returns the properties of an uncompressed table.
fn properties(table: &str) -> tailwater_format::table::Properties {
    flushed("compression=kNoCompression", table, value).properties()
}

/// Compacts a database to the last level. Returns the name and the options of the compression from
/// the properties of the resulting table.
fn compacted(family: &str) -> String {
    let scene = flushed(family, "", value);
    scene.put("000007", "1");
    scene.compact();
    let properties = scene.properties();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&properties.compression_name) + " " + &text(&properties.compression_options)
}

effects! {
    blocks_are_compressed shows "compression", "compression_opts.max_compressed_bytes_per_kb" {
        let (none, lz4) = (
            packed_size("compression=kNoCompression", "", half_random),
            packed_size("compression=kLZ4Compression", "", half_random),
        );
        assert!(lz4 < none * 3 / 4, "{lz4} of {none}");
        let strict = "compression=kLZ4Compression;compression_opts={max_compressed_bytes_per_kb=200}";
        assert!(packed_size(strict, "", half_random) > none * 9 / 10);
    }

    compressions_have_levels shows "compression_opts.level", "compression_opts.checksum" {
        let size = |options: &str| {
            packed_size(&format!("compression=kZSTD;compression_opts={{{options}}}"), "", half_random)
        };
        assert!(size("level=19") < size("level=-7"));
        // The checksum adds four bytes to each block.
        let (without, with) = (size("level=3"), size("level=3;checksum=true"));
        assert!(with > without + 30, "{without} and {with}");
    }

    levels_have_compressions shows
        "compression_per_level", "bottommost_compression",
        "bottommost_compression_opts", "compression_opts.enabled"
    {
        assert!(compacted("").contains("LZ4") || compacted("").contains("04;"));
        let flushed_table = flushed("compression_per_level=kZSTD:kNoCompression", "", value);
        let name = flushed_table.properties().compression_options;
        let name = String::from_utf8_lossy(&name).into_owned();
        assert!(name.contains("_type=7;"), "{name}");
        assert!(compacted("compression_per_level=kZSTD:kNoCompression").contains("_type=0;"));
        assert!(compacted("bottommost_compression=kZSTD").contains("_type=7;"));
        let own = "bottommost_compression=kZSTD;compression_opts={level=2}";
        assert!(compacted(own).contains("; level=2;"));
        let off = format!("{own};bottommost_compression_opts={{level=5}}");
        assert!(compacted(&off).contains("; level=2;"));
        let on = format!("{own};bottommost_compression_opts={{level=5;enabled=true}}");
        assert!(compacted(&on).contains("; level=5;"), "{}", compacted(&on));
    }

    universal_flushes_may_skip_compression shows
        "compaction_options_universal.compression_size_percent" {
        let style = "compaction_style=kCompactionStyleUniversal";
        let spared = format!("{style};compaction_options_universal={{compression_size_percent=50}}");
        assert!(packed_size(style, "", value) < packed_size(&spared, "", value) / 2);
    }

    tables_have_a_version shows "format_version" {
        // Tailwater writes version 5 if the option asks for a lower version.
        for (version, written) in [(2, 5), (4, 5), (5, 5), (6, 6), (7, 7)] {
            let table = flushed("", &format!("format_version={version}"), value).table();
            assert_eq!(table.footer().format_version, written, "{version}");
        }
    }

    blocks_have_checksums shows "checksum" {
        for (name, checksum) in [
            ("kNoChecksum", ChecksumType::None),
            ("kCRC32c", ChecksumType::Crc32c),
            ("kxxHash", ChecksumType::XxHash),
            ("kxxHash64", ChecksumType::XxHash64),
            ("kXXH3", ChecksumType::Xxh3),
        ] {
            let table = flushed("", &format!("checksum={name}"), value).table();
            assert_eq!(table.footer().checksum_type, checksum, "{name}");
        }
    }

    blocks_have_a_size shows "block_size", "block_size_deviation" {
        let blocks = |table: &str| properties(table).num_data_blocks;
        let usual = blocks("");
        assert!(blocks("block_size=512") > usual * 6);
        // With a `block_size_deviation` of 0, a block ends only after the record that exceeds the
        // block size. Then there are fewer and longer blocks.
        let large = "block_size=90";
        let (exact, over) = (
            blocks(&format!("{large};block_size_deviation=50")),
            blocks(&format!("{large};block_size_deviation=0")),
        );
        assert!(exact > over, "{exact} and {over}");
    }

    blocks_do_not_cross_pages shows "block_align" {
        let without = plain_size("");
        assert!(plain_size("block_align=true") > without);
        assert_eq!(flushed("compression=kNoCompression", "block_align=true", value).scan(), 1000);
    }

    keys_are_delta_encoded shows "use_delta_encoding", "block_restart_interval" {
        let usual = plain_size("");
        assert!(plain_size("use_delta_encoding=false") > usual + 2000);
        assert!(plain_size("block_restart_interval=1") > usual + 2000);
        assert_eq!(properties("block_restart_interval=5").data_block_restart_interval, 5);
    }

    index_keys_are_shortened_and_delta_encoded shows
        "index_block_restart_interval", "index_shortening" {
        let index = |table: &str| properties(&format!("block_size=128;{table}")).index_size;
        let usual = index("enable_index_compression=false");
        let denser = index("enable_index_compression=false;index_block_restart_interval=16");
        assert!(denser < usual, "{denser} and {usual}");
        let long = |shortening: &str| {
            let scene = open(&format!(
                "compression=kNoCompression;\
                 block_based_table_factory={{block_size=64;index_shortening={shortening}}}"
            ));
            for key in 0..100 {
                scene.put(&format!("{key:03}{}", "k".repeat(50)), "v");
            }
            scene.flush();
            scene.properties().index_size
        };
        let (none, between, all) = (
            long("kNoShortening"),
            long("kShortenSeparators"),
            long("kShortenSeparatorsAndSuccessor"),
        );
        assert!(none > between && between > all, "{none}, {between}, {all}");
    }

    indexes_are_compressed shows "enable_index_compression" {
        let size = |table: &str| {
            packed_size("compression=kZSTD", &format!("block_size=64;{table}"), value)
        };
        assert!(size("") < size("enable_index_compression=false"));
    }

    blocks_have_a_hash_index shows "data_block_index_type", "data_block_hash_table_util_ratio" {
        let hashed = "data_block_index_type=kDataBlockBinaryAndHash";
        let (usual, with) = (plain_size(""), plain_size(hashed));
        let fuller = plain_size(&format!("{hashed};data_block_hash_table_util_ratio=0.3"));
        assert!(usual < with && with < fuller, "{usual}, {with}, {fuller}");
    }

    tables_have_filters shows "filter_policy", "whole_key_filtering", "prefix_extractor" {
        let filter = |family: &str, table: &str| {
            let properties = flushed(family, table, value).properties();
            (properties.filter_size, properties.num_filter_entries)
        };
        assert_eq!(filter("", ""), (0, 0));
        let (size, entries) = filter("", "filter_policy=bloomfilter:10");
        assert!(size > 1200 && entries == 1000, "{size} for {entries}");
        assert!(filter("", "filter_policy=bloomfilter:20").0 > size * 3 / 2);
        let (_, both) = filter("prefix_extractor=fixed:4", "filter_policy=bloomfilter:10");
        assert_eq!(both, 1010);
        let only = "filter_policy=bloomfilter:10;whole_key_filtering=false";
        assert_eq!(filter("prefix_extractor=fixed:4", only).1, 10);
    }
}
