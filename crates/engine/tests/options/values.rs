//! Values of options as text: numbers, names, objects, groups, and option strings.

use std::path::Path;

use tailwater::for_tests::{change_column_family, change_database};
use tailwater::options::{
    CacheCapacity, ColumnFamilyOptions, CompressionType, DbOptions, FilterPolicy, ObjectName,
    OptionTable, OptionValue, PrefixExtractor, set_from_string,
};

fn set<T: OptionValue + Default>(text: &str) -> Option<T> {
    let mut value = T::default();
    value.set(text).ok().map(|()| value)
}

#[test]
fn numbers_take_binary_suffixes_and_nothing_else() {
    assert_eq!(set::<u64>("3"), Some(3));
    assert_eq!(set::<u64>("{3}"), Some(3));
    assert_eq!(set::<u64>("3k"), Some(3 << 10));
    assert_eq!(set::<u64>("3M"), Some(3 << 20));
    assert_eq!(set::<u64>("3g"), Some(3 << 30));
    assert_eq!(set::<u64>("3T"), Some(3 << 40));
    assert_eq!(set::<u64>("18446744073709551615"), Some(u64::MAX));
    assert_eq!(set::<i32>("-1"), Some(-1));
    assert_eq!(set::<i64>("-2k"), Some(-2048));
    for text in ["", "k", "3kb", "3 ", "0x3", "3.5", "-1", "18446744073709551616", "16777216t"] {
        assert_eq!(set::<u64>(text), None, "{text}");
    }
    assert_eq!(set::<u32>("4g"), None);
    assert_eq!(set::<i32>("2g"), None);
    assert_eq!(set::<u8>("256"), None);
    assert_eq!(set::<f64>("1e-1"), Some(0.1));
    for text in ["nan", "inf", "1x", ""] {
        assert_eq!(set::<f64>(text), None, "{text}");
    }
    assert_eq!(set::<bool>("1"), Some(true));
    assert_eq!(set::<bool>("yes"), None);
}

#[test]
fn texts_are_escaped_in_files() {
    let mut text = String::new();
    text.set("a\\#b\\:c").unwrap();
    assert_eq!((text.as_str(), text.print()), ("a#b:c", "a\\#b\\:c".to_owned()));
}

#[test]
fn list_items_are_separated_by_colons() {
    assert_eq!(set::<Vec<i32>>("1:-2:3"), Some(vec![1, -2, 3]));
    assert_eq!(set::<Vec<i32>>("{1:2}"), Some(vec![1, 2]));
    assert_eq!(set::<Vec<i32>>(""), Some(vec![]));
    assert_eq!(set::<Vec<i32>>("1::2"), None);
    let levels = vec![CompressionType::None, CompressionType::Zstd];
    assert_eq!(levels.print(), "kNoCompression:kZSTD");
}

#[test]
fn prefix_extractors_have_two_names_each() {
    for (text, extractor, printed) in [
        ("nullptr", PrefixExtractor::None, "nullptr"),
        ("", PrefixExtractor::None, "nullptr"),
        ("rocksdb.FixedPrefix.12", PrefixExtractor::Fixed(12), "rocksdb.FixedPrefix.12"),
        ("fixed:12", PrefixExtractor::Fixed(12), "rocksdb.FixedPrefix.12"),
        ("capped:3", PrefixExtractor::Capped(3), "rocksdb.CappedPrefix.3"),
        ("{id=rocksdb.CappedPrefix.3}", PrefixExtractor::Capped(3), "rocksdb.CappedPrefix.3"),
        ("rocksdb.Noop", PrefixExtractor::Noop, "rocksdb.Noop"),
        ("mine:1", PrefixExtractor::Custom("mine:1".to_owned()), "mine:1"),
    ] {
        assert_eq!(set::<PrefixExtractor>(text), Some(extractor.clone()), "{text}");
        assert_eq!(extractor.print(), printed);
    }
    assert_eq!(set::<PrefixExtractor>("fixed:x"), None);
}

#[test]
fn filter_policies_are_parsed_and_printed() {
    let ribbon = |bits, level| FilterPolicy::Ribbon {
        bloom_equivalent_bits_per_key: bits,
        bloom_before_level: level,
    };
    for (text, policy) in [
        ("nullptr", FilterPolicy::None),
        ("bloomfilter", FilterPolicy::ReadOnly("bloomfilter".to_owned())),
        (
            "rocksdb.BuiltinBloomFilter",
            FilterPolicy::ReadOnly("rocksdb.BuiltinBloomFilter".to_owned()),
        ),
        ("mine:3", FilterPolicy::ReadOnly("mine:3".to_owned())),
        ("{id=mine;bits=3;}", FilterPolicy::ReadOnly("{id=mine;bits=3;}".to_owned())),
        ("bloomfilter:9.5:false", FilterPolicy::Bloom { bits_per_key: 9.5 }),
        ("rocksdb.BloomFilter:10", FilterPolicy::Bloom { bits_per_key: 10.0 }),
        ("ribbonfilter:10", ribbon(10.0, 0)),
        ("rocksdb.RibbonFilter:7.25:-1", ribbon(7.25, -1)),
        ("{id=ribbonfilter:10.5:2;bloom_before_level=3;}", ribbon(10.5, 3)),
    ] {
        assert_eq!(set::<FilterPolicy>(text), Some(policy.clone()), "{text}");
        assert_eq!(set::<FilterPolicy>(&policy.print()), Some(policy));
    }
    for text in [
        "bloom",
        "blomfilter",
        "10",
        "bloomfilter:x",
        "bloomfilter:1:2",
        "bloomfilter:nan",
        "ribbonfilter:1:x",
    ] {
        assert_eq!(set::<FilterPolicy>(text), None, "{text}");
    }
}

/// Regression test: when a list of objects was written as text, an object with options of its own
/// lost its braces. A list of listeners also lost the braces around the whole list.
#[test]
fn lists_of_objects_are_written_as_rocksdb_writes_them() {
    let mut database = DbOptions::default();
    for text in ["{mine}", "{mine:yours}", "{mine:{id=yours;size=3;}}"] {
        database.set_option("listeners", text).unwrap();
        let printed = database.print_options().find(|(name, _)| *name == "listeners");
        assert_eq!(printed, Some(("listeners", text.to_owned())));
    }
    let mut family = ColumnFamilyOptions::default();
    for text in ["mine", "mine:yours", "{mine:{id=yours;size=3;}}", "{{a::b}:{id=yours;size=3;}}"] {
        family.set_option("table_properties_collectors", text).unwrap();
        let mut printed = family.print_options();
        let printed = printed.find(|(name, _)| *name == "table_properties_collectors");
        assert_eq!(printed.map(|(_, value)| value), Some(text.to_owned()));
    }
}

#[test]
fn objects_have_ids() {
    let id = |text: &str| set::<ObjectName>(text).unwrap().id().map(str::to_owned);
    assert_eq!(id("nullptr"), None);
    assert_eq!(id(""), None);
    assert_eq!(id("Mine"), Some("Mine".to_owned()));
    assert_eq!(id("{id=Mine;size=3}"), Some("Mine".to_owned()));
    for text in ["{id=Mine", "Mine}", "{Mine", "{Mine}{Yours}", "}Mine{", "{}Mine"] {
        assert_eq!(set::<ObjectName>(text), None, "{text}");
    }
}

#[test]
fn caches_have_a_capacity() {
    assert_eq!(set::<CacheCapacity>("8m"), Some(CacheCapacity::Bytes(8 << 20)));
    let group = "{capacity=1k;num_shard_bits=4}";
    assert_eq!(set::<CacheCapacity>(group), Some(CacheCapacity::Bytes(1024)));
    let strict = Some(CacheCapacity::Strict(1024));
    assert_eq!(set::<CacheCapacity>("{capacity=1k;strict_capacity_limit=true}"), strict);
    assert_eq!(set::<CacheCapacity>("{strict_capacity_limit=1;capacity=1k}"), strict);
    let lenient = "{strict_capacity_limit=true;capacity=1k;strict_capacity_limit=false}";
    assert_eq!(set::<CacheCapacity>(lenient), Some(CacheCapacity::Bytes(1024)));
    let default = set::<CacheCapacity>("{strict_capacity_limit=true}");
    assert_eq!(default, Some(CacheCapacity::Strict(32 << 20)));
    assert_eq!(set::<CacheCapacity>("{strict_capacity_limit=maybe}"), None);
    assert_eq!(set::<CacheCapacity>("nullptr"), Some(CacheCapacity::Unset));
    assert_eq!(set::<CacheCapacity>("auto"), Some(CacheCapacity::Auto));
    assert_eq!(set::<CacheCapacity>("{size=1k}"), None);
}

#[test]
fn a_string_may_set_database_and_column_family_options() {
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    let text = "max_open_files=100; block_based_table_factory={block_size=8k;\
                filter_policy=bloomfilter:10}; write_buffer_size=1m;\
                compression_opts.level=3;table_factory.block_restart_interval=4;\
                use_direct_reads_for_compaction=true;memtable=skip_list;\
                experimental_mempurge_threshold=0.5;max_mem_compaction_level=7;\
                preserve_deletes=yes";
    set_from_string(&mut database, &mut family, text).unwrap();
    assert_eq!(database.max_open_files, 100);
    assert!(database.use_direct_io_for_compaction_reads);
    assert_eq!(family.write_buffer_size, 1 << 20);
    assert_eq!(family.compression_opts.level, 3);
    assert_eq!(family.table_factory.block_size, 8192);
    assert_eq!(family.table_factory.block_restart_interval, 4);
    assert_eq!(family.experimental_mempurge_threshold, 0.5);
}

#[test]
fn a_string_that_is_refused_changes_nothing() {
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    for (text, message) in [
        (
            "max_open_files=1;write_bufer_size=1",
            "unknown option write_bufer_size; is it write_buffer_size?",
        ),
        ("max_open_files=1;b", "at byte 17: 'b' is not followed by '='"),
        (
            "max_open_files=1;block_based_table_factory={block_sizes=1}",
            "unknown option block_based_table_factory.block_sizes; is it block_size?",
        ),
        (
            "max_open_files=1;block_based_table_factory={block_size=1",
            "at byte 17: block_based_table_factory: a brace that is not closed",
        ),
        (
            "max_open_files=1;compression=kFast",
            "option compression: 'kFast' is not one of kNoCompression, kSnappyCompression, \
             kZlibCompression, kBZip2Compression, kLZ4Compression, kLZ4HCCompression, \
             kXpressCompression, kZSTD, kDisableCompressionOption",
        ),
        (
            "max_open_files=1;plain_table_factory={}",
            "option plain_table_factory: '{}' is not supported: only block-based tables are built",
        ),
    ] {
        let error = set_from_string(&mut database, &mut family, text).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(database, DbOptions::default());
    assert_eq!(family, ColumnFamilyOptions::default());
}

/// Makes these changes to default options, one after another. Returns the resulting options of a
/// database and of a column family.
fn changed(
    changes: &[(&str, &str)],
) -> (Result<DbOptions, String>, Result<ColumnFamilyOptions, String>) {
    let (database, family) = (DbOptions::default(), ColumnFamilyOptions::default());
    let of_database = change_database(&database, Path::new("/db"), changes);
    let of_family = change_column_family(&family, &database, changes);
    let reported = |error: tailwater::options::Error| error.to_string();
    (of_database.map_err(reported), of_family.map_err(reported))
}

#[test]
fn mutable_options_can_be_changed_in_an_open_database() {
    assert_eq!(changed(&[("bytes_per_sync", "7")]).0.unwrap().bytes_per_sync, 7);
    let family = changed(&[
        ("write_buffer_size", "2m"),
        ("compression_opts.level", "2"),
        ("compression_opts", "{max_compressed_bytes_per_kb=100}"),
        ("block_based_table_factory", "{block_size=1k}"),
        ("table_factory", "{block_restart_interval=3;id=BlockBasedTable}"),
        ("table_factory.block_size_deviation", "5"),
        ("max_mem_compaction_level", "anything"),
    ]);
    let family = family.1.unwrap();
    assert_eq!(family.write_buffer_size, 2 << 20);
    assert_eq!(family.compression_opts.level, 2);
    assert_eq!(family.compression_opts.max_compressed_bytes_per_kb, 100);
    assert_eq!(family.table_factory.block_size, 1024);
    assert_eq!(family.table_factory.block_restart_interval, 3);
    assert_eq!(family.table_factory.block_size_deviation, 5);
}

#[test]
fn changed_options_are_sanitized() {
    let family = changed(&[("write_buffer_size", "1"), ("level0_stop_writes_trigger", "1")]);
    let family = family.1.unwrap();
    assert_eq!(family.write_buffer_size, 64 << 10);
    assert_eq!(family.level0_stop_writes_trigger, 20);
    assert_eq!(changed(&[("max_open_files", "3")]).0.unwrap().max_open_files, 20);
}

#[test]
fn changes_of_an_open_database_are_refused_with_the_reason() {
    let fixed = "cannot be changed while the database is open: it can be set when the database is \
                 opened";
    for (name, value, message) in [
        ("create_if_missing", "true", format!("option create_if_missing {fixed}")),
        ("max_openfiles", "1", "unknown option max_openfiles; is it max_open_files?".to_owned()),
        ("ttl", "1", "option ttl is a column family's".to_owned()),
        ("bytes_per_sync", "x", {
            let expected = "a whole number of 64 bits without a sign";
            format!("option bytes_per_sync: 'x' is not {expected}")
        }),
        ("daily_offpeak_time_utc", "1", {
            let expected = "it must be two different times, such as 04:30-07:30";
            format!("option daily_offpeak_time_utc: '1': {expected}")
        }),
    ] {
        assert_eq!(changed(&[("bytes_per_sync", "5"), (name, value)]).0, Err(message));
    }
    for (name, value, message) in [
        ("num_levels", "4", format!("option num_levels {fixed}")),
        ("comparator", "x", format!("option comparator {fixed}")),
        ("table_factory", "{block_cache=1m}", {
            format!("option table_factory.block_cache {fixed}")
        }),
        ("max_open_files", "4", "option max_open_files is the database's".to_owned()),
        ("quiet_background", "true", "option quiet_background is the database's".to_owned()),
        ("write_bufer_size", "4", {
            "unknown option write_bufer_size; is it write_buffer_size?".to_owned()
        }),
        ("table_factory.format_version", "8", {
            let why = "it must be from 2 to 7";
            format!("option table_factory.format_version: '8': {why}")
        }),
    ] {
        assert_eq!(changed(&[("write_buffer_size", "2m"), (name, value)]).1, Err(message));
    }
}

#[test]
fn no_text_makes_the_parsers_panic() {
    let given = std::env::var("TAILWATER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("TAILWATER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let names: Vec<&str> = DbOptions::names().chain(ColumnFamilyOptions::names()).collect();
    let alphabet: Vec<char> = "0189ktx.:;={}-e\\idnullptr ü".chars().collect();
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    for _ in 0..20_000 {
        let length = random.usize(..12);
        let value: String = (0..length).map(|_| *random.choice(&alphabet).unwrap()).collect();
        let name = random.choice(&names).unwrap();
        let part = if random.u8(..) < 30 { ".level" } else { "" };
        let _ = database.set_option(&format!("{name}{part}"), &value);
        let _ = family.set_option(&format!("{name}{part}"), &value);
        let _ = family.table_factory.set_option(&format!("filter_policy{part}"), &value);
        let _ = set_from_string(&mut database, &mut family, &format!("{name}{part}={value}"));
    }
    // Some of the random values were accepted. Their text form must be accepted as well.
    for (name, value) in database.print_options() {
        DbOptions::default().set_option(name, &value).unwrap();
    }
    for (name, value) in family.print_options() {
        ColumnFamilyOptions::default().set_option(name, &value).unwrap();
    }
}
