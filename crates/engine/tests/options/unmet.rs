//! Options that request features or objects that a database does not have. The database must report
//! them with a warning and work without them.

use std::path::Path;
use std::sync::Arc;

use tailwater::options::ColumnFamilyOptions;
use tailwater::{
    CompactRangeOptions, CompactionFilter, CustomCompactionFilter, CustomMergeOperator,
    CustomPrefixExtractor, Db, Error, ErrorKind, FilterContext, FilterDecision, FilteredValue,
    MergeOperator, OpenOptions, PrefixExtractor, ReadOptions, Result, WriteOptions,
};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

const DB: &str = "/db";

fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    options
        .set_from_string("create_if_missing=true;create_missing_column_families=true")
        .expect("text");
    options.set_from_string(text).expect(text);
    options
}

/// A compaction filter that keeps all records, a merge operator that appends operands, and a prefix
/// extractor that returns whole keys. The field is the object's name.
struct Mine(&'static str);

impl CustomCompactionFilter for Mine {
    fn name(&self) -> &str {
        self.0
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        FilterDecision::Keep
    }
}

impl CustomMergeOperator for Mine {
    fn name(&self) -> &str {
        self.0
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some([&[base.unwrap_or_default()], operands].concat().join(&b","[..]))
    }
}

impl CustomPrefixExtractor for Mine {
    fn name(&self) -> &str {
        self.0
    }

    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        Some(key)
    }
}

/// Registers the objects `my.Filter`, `my.Operator` and `my.Prefixes`.
fn register(options: &mut OpenOptions) {
    options
        .add_compaction_filter(CompactionFilter::Custom(Arc::new(Mine("my.Filter"))))
        .add_merge_operator(MergeOperator::Custom(Arc::new(Mine("my.Operator"))))
        .add_prefix_extractor(PrefixExtractor::Custom(Arc::new(Mine("my.Prefixes"))));
}

/// Returns the options recorded in the OPTIONS file of the database.
fn loaded(disk: &SimStorage) -> OpenOptions {
    let mut options = OpenOptions::load_from(Arc::new(disk.clone()), DB).expect("the OPTIONS file");
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    options
}

/// Returns the text of a file.
fn file_text(disk: &SimStorage, path: &str) -> String {
    let bytes = disk.read_file(Path::new(path), u64::MAX, Purpose::Metadata).expect("a file");
    String::from_utf8(bytes).expect("text")
}

fn put(db: &Db, key: &str, value: &str) {
    let family = db.cf_handle("default").expect("a family");
    db.put_cf_opt(&family, key.as_bytes(), value.as_bytes(), &WriteOptions::default())
        .expect("a put");
}

fn get(db: &Db, key: &str) -> Result<Option<Vec<u8>>> {
    let family = db.cf_handle("default").expect("a family");
    db.get_cf_opt(&family, key.as_bytes(), &ReadOptions::default())
}

fn compact(db: &Db) {
    let family = db.cf_handle("default").expect("a family");
    db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default())
        .expect("a compaction");
}

/// Returns the database's warning that contains `words`, or its option without effect. The database
/// must have exactly one such warning or option.
#[track_caller]
fn warning(db: &Db, words: &str) -> String {
    let mut all = db.warnings().to_vec();
    all.extend(db.options_without_effect().iter().map(ToString::to_string));
    let found: Vec<&String> = all.iter().filter(|warning| warning.contains(words)).collect();
    let [warning] = found[..] else { panic!("{words} stands {} times: {all:#?}", found.len()) };
    warning.clone()
}

/// Regression test: each opening for writing returned and logged a warning for every option without
/// effect, of which an OPTIONS file that RocksDB wrote may have many.
#[test]
fn options_without_effect_are_counted_in_one_warning() {
    let disk = SimStorage::new(1);
    let text = "use_adaptive_mutex=true;memtable_huge_page_size=4096;bloom_locality=3;\
                block_based_table_factory={metadata_block_size=8192};bottommost_file_compaction_delay=5";
    let db = Db::open(DB, &options(&disk, text)).expect("a new database");
    let is_about_options = |warning: &&String| warning.contains("have no effect");
    let [warning] = db.warnings().iter().filter(is_about_options).collect::<Vec<_>>()[..] else {
        panic!("{:?}", db.warnings());
    };
    let found = db.options_without_effect();
    let count = format!("{} options that are set have no effect: ", found.len());
    assert!(warning.starts_with(&count) && warning.contains("options /db --without-effect"));
    assert!(found.len() >= 4, "{found:#?}");
    let table = found.iter().find(|option| option.name == "metadata_block_size");
    let table = table.expect("an option of tables");
    assert!(table.is_of_tables && table.value == "8192");
    assert_eq!(table.column_families, ["default"]);
    assert_eq!(options(&disk, text).without_effect(), found);
    let log = file_text(&disk, "/db/LOG");
    let warned: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(warned.len(), 1, "{log}");
    for option in found {
        assert!(log.contains(&option.to_string()), "{option}: {log}");
    }
    drop(db);
    // A database without such options has no such warning.
    let plain = SimStorage::new(1);
    let db = Db::open(DB, &options(&plain, "")).expect("a new database");
    assert_eq!((db.warnings(), db.options_without_effect()), (&[][..], &[][..]));
}

/// Regression test: an opening whose options lacked options that `TAILWATER-OPTIONS` recorded
/// removed them without a warning.
#[test]
fn an_opening_warns_of_recorded_options_that_it_drops() {
    let disk = SimStorage::new(1);
    let recorded = "flush_write_io_mode=fadvise;warm_handover=false";
    let opened = |options: &OpenOptions| Db::open(DB, options).expect("a database");
    assert_eq!(opened(&options(&disk, recorded)).warnings(), [""; 0]);

    // Loaded options keep what is recorded, and another value is not the lack of one.
    assert_eq!(opened(&loaded(&disk)).warnings(), [""; 0]);
    let other = recorded.replace("fadvise", "buffered");
    assert_eq!(opened(&options(&disk, &other)).warnings(), [""; 0]);

    let db = opened(&options(&disk, "flush_write_io_mode=fadvise"));
    let [dropped] = db.warnings() else { panic!("{:?}", db.warnings()) };
    let words = "TAILWATER-OPTIONS recorded warm_handover=false, which the options of this opening";
    assert!(dropped.contains(words), "{dropped}");
    assert!(file_text(&disk, "/db/LOG").contains(&format!("WARN {dropped}")), "{dropped}");
    drop(db);
    let db = opened(&options(&disk, ""));
    assert!(db.warnings()[0].contains("recorded flush_write_io_mode=fadvise, which"));
    drop(db);
    assert_eq!(opened(&options(&disk, "")).warnings(), [""; 0], "nothing is recorded any more");

    // An option string that goes on top of the recorded options resets them on purpose.
    drop(opened(&options(&disk, recorded)));
    let mut reset = options(&disk, "");
    reset.set_load_when_opened("flush_write_io_mode=default;warm_handover=true");
    assert_eq!(opened(&reset).warnings(), [""; 0]);

    // A file that cannot be parsed is replaced, as before, but not in silence.
    let path = Path::new("/db/TAILWATER-OPTIONS");
    let file = disk.create(path, Create::New, IoMode::Buffered, Purpose::Metadata);
    file.expect("a file").write_at(b"nonsense\n", 0, Purpose::Metadata).expect("written");
    let db = opened(&options(&disk, ""));
    let [replaced] = db.warnings() else { panic!("{:?}", db.warnings()) };
    for words in ["/db/TAILWATER-OPTIONS", "line 1", "nonsense", "no longer recorded"] {
        assert!(replaced.contains(words), "{words}: {replaced}");
    }
}

/// Regression test: an OPTIONS file named user-defined objects, such as a compaction filter, that
/// were not registered for the opening. The database then either could not be opened for writing,
/// or ignored the objects without a warning.
#[test]
fn missing_objects_are_reported_and_ignored() {
    let objects = [
        ("listeners", "{my.Listener:{id=your.Listener;port=7}}"),
        ("wal_filter", "my.WalFilter"),
        ("file_checksum_gen_factory", "my.Checksums"),
        ("compaction_filter", "my.Filter"),
        ("compaction_filter_factory", "my.FilterFactory"),
        ("prefix_extractor", "my.Prefixes"),
        ("merge_operator", "{id=my.Operator;depth=3}"),
        ("table_properties_collectors", "{my.Collector:{id=your.Collector;size=3}}"),
        ("sst_partitioner_factory", "my.Partitioner"),
        ("compression_manager", "my.Compression"),
        ("memtable_factory", "my.MemTable"),
    ];
    let tables = [("filter_policy", "my.Filters:3"), ("user_defined_index_factory", "my.Index")];
    let assign = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| format!("{name}={value};")).collect::<String>()
    };
    let text = format!("{}block_based_table_factory={{{}}}", assign(&objects), assign(&tables));
    let disk = SimStorage::new(1);
    let mut complete = options(&disk, &text);
    register(&mut complete);
    drop(Db::open(DB, &complete).expect("a new database"));
    let mut before = Vec::new();
    for _ in 0..2 {
        let options = loaded(&disk);
        let db = Db::open(DB, &options).expect("a database");
        for id in [
            "my.Listener",
            "your.Listener",
            "my.WalFilter",
            "my.Checksums",
            "my.Filter'",
            "my.FilterFactory",
            "my.Prefixes",
            "my.Operator",
            "my.Collector",
            "your.Collector",
            "my.Partitioner",
            "my.Compression",
            "my.MemTable",
            "my.Filters:3",
            "my.Index",
        ] {
            warning(&db, id);
        }
        put(&db, "a", "1");
        let family = db.cf_handle("default").expect("a family");
        db.flush_cf(&family).expect("a flush");
        put(&db, "b", "2");
        compact(&db);
        assert_eq!(get(&db, "a").expect("a get").as_deref(), Some(&b"1"[..]));
        let error =
            db.merge_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect_err("a merge");
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.message().contains("'my.Operator'"), "{error}");
        // The options still name the missing objects, so the next OPTIONS file does too.
        let now: Vec<_> = family.options().print_all();
        assert!(before.is_empty() || before == now);
        before = now;
    }
}

/// Adds a method to column family options that returns the name and the value of each option.
trait PrintAll {
    fn print_all(&self) -> Vec<(&'static str, String)>;
}

impl PrintAll for ColumnFamilyOptions {
    fn print_all(&self) -> Vec<(&'static str, String)> {
        use tailwater::options::OptionTable;
        self.print_options().chain(self.table_factory.print_options()).collect()
    }
}

#[test]
fn merge_operands_stay_until_their_operator_is_registered() {
    let disk = SimStorage::new(1);
    let mut known = options(&disk, "merge_operator=my.Operator");
    register(&mut known);
    let db = Db::open(DB, &known).expect("a new database");
    let family = db.cf_handle("default").expect("a family");
    put(&db, "a", "1");
    put(&db, "b", "1");
    let snapshot = db.snapshot();
    db.merge_cf_opt(&family, b"a", b"2", &WriteOptions::default()).expect("a merge");
    db.flush_cf(&family).expect("a flush");
    drop((family, snapshot, db));

    // The OPTIONS file names the operator, so the program's options may, too.
    let unknown = options(&disk, "merge_operator=my.Operator");
    let db = Db::open(DB, &unknown).expect("the database");
    let reported = warning(&db, "my.Operator");
    assert!(reported.contains("merges are refused, and so are reads of keys"), "{reported}");
    compact(&db);
    assert_eq!(get(&db, "b").expect("a get").as_deref(), Some(&b"1"[..]));
    let error = get(&db, "a").expect_err("operands that cannot be folded");
    assert!(error.message().contains("'my.Operator'"), "{error}");
    drop(db);

    let db = Db::open(DB, &known).expect("the database");
    assert_eq!(db.warnings(), [] as [String; 0]);
    assert_eq!(get(&db, "a").expect("a get").as_deref(), Some(&b"1,2"[..]));
}

/// A misspelt name in a program's own options must not silently switch its compaction filter off.
#[test]
fn the_programs_own_options_must_name_registered_objects() {
    let objects = [
        ("compaction_filter", "my.Filter"),
        ("merge_operator", "my.Operator"),
        ("prefix_extractor", "my.Prefixes"),
    ];
    for (option, name) in objects {
        let disk = SimStorage::new(1);
        let refusal =
            format!("option {option} names 'not.{name}', which is neither built in nor registered");
        let misspelt = format!("{option}=not.{name}");
        let refused = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().ends_with(&refusal), "{error}");
        };
        let mut wrong = options(&disk, &misspelt);
        register(&mut wrong);
        refused(Db::open(DB, &wrong).expect_err(&misspelt));
        let nothing = Db::open_read_only(DB, &wrong).expect_err("no database was created");
        assert_eq!(nothing.kind(), ErrorKind::NotFound);

        let right = format!("{option}={name}");
        let mut complete = options(&disk, &right);
        register(&mut complete);
        let db = Db::open(DB, &complete).expect("a database");
        assert_eq!(db.warnings(), [] as [String; 0]);
        refused(db.create_cf("other", wrong.column_family("other")).expect_err(&misspelt));
        if option == "prefix_extractor" {
            let change = [(option, &*format!("not.{name}"))];
            refused(db.set_options_cf(db.default_cf(), &change).expect_err(&misspelt));
        }
        drop(db);
        refused(Db::open(DB, &wrong).expect_err(&misspelt));
        drop(Db::open_read_only(DB, &wrong).expect("reading is allowed"));

        // Options that name what the OPTIONS file names are accepted, wherever they come from.
        let mut copied = options(&disk, "");
        copied.set_column_family("default", loaded(&disk).column_family("default").clone());
        let mut over = options(&disk, "");
        over.set_load_when_opened(&right);
        for accepted in [loaded(&disk), options(&disk, &right), copied, over] {
            let db = Db::open(DB, &accepted).expect("the database");
            assert!(warning(&db, name).contains("is not registered"));
        }

        let mut added = loaded(&disk);
        added.set_column_family_from_string("default", &misspelt).expect("options");
        refused(Db::open(DB, &added).expect_err(&misspelt));
        let mut over = options(&disk, "");
        over.set_load_when_opened(&misspelt);
        let error = Db::open(DB, &over).expect_err(&misspelt);
        if option == "merge_operator" {
            let words = "option merge_operator is recorded as 'my.Operator', whose operands";
            assert!(error.message().contains(words), "{error}");
            drop(Db::open_read_only(DB, &over).expect("reading records nothing"));
        } else {
            refused(error);
        }
        // A name of one kind of object does not permit it for another kind.
        let other = if option == "merge_operator" { "compaction_filter" } else { "merge_operator" };
        let error = Db::open(DB, &options(&disk, &format!("{other}={name}")));
        error.expect_err("an object of another kind");
    }
}

#[test]
fn opening_fails_without_the_comparator() {
    let disk = SimStorage::new(1);
    let error = Db::open(DB, &options(&disk, "comparator=my.Order"));
    let error = error.expect_err("an unknown order");
    assert!(error.message().contains("'my.Order'"), "{error}");
}

#[test]
fn options_shared_by_column_families_are_reported_once() {
    let disk = SimStorage::new(1);
    let mut options = options(&disk, "memtable_huge_page_size=4096");
    let common = options.column_family("default").clone();
    for name in ["default", "one", "two"] {
        options.set_column_family(name, common.clone());
    }
    options.set_column_family("three", common);
    options.column_family_mut("three").bloom_locality = 3;
    let db = Db::open(DB, &options).expect("a new database");
    drop(db);
    let db = Db::open(DB, &options).expect("the database");
    assert_eq!(
        warning(&db, "memtable_huge_page_size"),
        "option memtable_huge_page_size=4096 of 'default', 'one', 'two' and 'three' has no effect: \
         memtables use pages of the system's default size"
    );
    assert!(warning(&db, "bloom_locality").contains("of 'three' has no effect"));
}

/// Regression test: with a compression level that zlib does not support, every flush failed. The
/// database then could not be opened again either.
#[test]
fn blocks_stay_uncompressed_at_levels_that_zlib_lacks() {
    for level in ["10", "-2", "2147483647", "-2147483648"] {
        let disk = SimStorage::new(1);
        let text = format!("compression=kZlibCompression;compression_opts={{level={level}}}");
        let db = Db::open(DB, &options(&disk, &text)).expect("a new database");
        assert!(warning(&db, &format!("compression_opts.level={level}")).contains("-1 to 9"));
        put(&db, "a", &"1".repeat(10_000));
        let family = db.cf_handle("default").expect("a family");
        db.flush_cf(&family).expect("a flush");
        put(&db, "b", "1");
        compact(&db);
        drop((family, db));
        let db = Db::open(DB, &loaded(&disk)).expect("the database");
        assert_eq!(get(&db, "a").expect("a get").map(|value| value.len()), Some(10_000));
    }
}
