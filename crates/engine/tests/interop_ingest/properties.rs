//! Tests that external tables built by the two engines have the same properties.

use tailwater::inspect::table::TableFile;
use tailwater_format::table::Properties;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::oracle::Script;

use crate::files::{ExternalTable, Maker};
use crate::laboratory::{CREATE, in_laboratory};
use crate::shape::Shape;

/// Options of column families that affect the properties of a table. Each string is tried.
const FAMILIES: [&str; 4] = [
    "compression=kZSTD;block_based_table_factory={filter_policy=bloomfilter:10:false}",
    "bottommost_compression=kNoCompression;compression_per_level=kZSTD:kSnappyCompression",
    "compression_per_level=kZSTD:kNoCompression;prefix_extractor=fixed:4;\
     block_based_table_factory={filter_policy=ribbonfilter:10;format_version=6}",
    "comparator=rocksdb.ReverseBytewiseComparator;compression=kNoCompression;\
     block_based_table_factory={format_version=5;checksum=kCRC32c;block_size=500}",
];

#[test]
fn external_tables_of_both_engines_have_equal_properties() {
    in_laboratory("external tables of both engines have equal properties", |laboratory| {
        for options in FAMILIES {
            let shape = Shape::new("", options);
            let model = shape.model();
            let place = laboratory.next_place();
            let context = format!("{}, {options}", laboratory.context);
            let mut script = shape.describe(&place, &model, CREATE);
            script.line(&[&"open"]);
            laboratory.rocksdb_does(&script, &context);
            for (at, family) in model.families().into_iter().enumerate() {
                let path = |who: &str| place.root().join(format!("{who}{at}.sst"));
                let mut table = ExternalTable::random(
                    &mut laboratory.rng,
                    family,
                    path("theirs"),
                    Maker::RocksDb,
                );
                let mut script = Script::default();
                table.tell(&mut script);
                laboratory.rocksdb_does(&script, &context);
                let theirs = properties(&table, &context);
                table.path = path("ours");
                table
                    .write(&shape.open_options(&place, &model, ""))
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(properties(&table, &context), theirs, "{context}");
            }
            laboratory.rocksdb_closes(&context);
        }
    });
}

/// Returns the properties of a table, except those that identify the session that built it.
fn properties(table: &ExternalTable, context: &str) -> Properties {
    let fail = |error: &tailwater::Error| -> ! { panic!("{context}: {error}") };
    let file = TableFile::open(&PosixStorage::new(), table.path());
    let file = file.unwrap_or_else(|error| fail(&error));
    let mut properties = file.properties().clone().unwrap_or_else(|error| fail(&error));
    assert_eq!(properties.db_session_id.len(), 20, "{context}");
    properties.db_session_id.clear();
    properties
}
