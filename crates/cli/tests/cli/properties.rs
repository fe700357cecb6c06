//! Tests of the verb `properties`.

use tailwater_testkit::golden;

use crate::support::db;

/// Pairs of a property's name, without the prefix that all names share, and the property's value.
type Properties = [(&'static str, &'static str)];

/// The properties that RocksDB 11.8.1 reports for golden databases opened for reading.
const PROPERTIES: [(&str, &str, &Properties); 3] = [
    (
        "basic",
        "default",
        &[
            ("num-entries-active-mem-table", "1500"),
            ("num-deletes-active-mem-table", "138"),
            ("estimate-num-keys", "17389"),
            ("estimate-live-data-size", "992812"),
            ("total-sst-files-size", "992812"),
            ("num-files-at-level0", "0"),
            ("num-files-at-level6", "4"),
            ("compression-ratio-at-level0", "-1.000000"),
            ("compression-ratio-at-level6", "2.018972"),
            ("num-blob-files", "0"),
            (
                "blob-stats",
                "Number of blob files: 0\nTotal size of blob files: 0\nTotal size of garbage in \
                 blob files: 0\nBlob file space amplification: 0",
            ),
        ],
    ),
    (
        "records",
        "ranges",
        &[
            ("num-entries-active-mem-table", "1212"),
            ("estimate-num-keys", "7181"),
            ("estimate-live-data-size", "41860"),
            ("live-sst-files-size", "283318"),
            ("num-files-at-level0", "7"),
            ("compression-ratio-at-level0", "1.813496"),
            (
                "levelstats",
                "Level Files Size(MB)\n--------------------\n  0        7        0\n\
                 \u{20} 1        0        0\n  2        0        0\n  3        0        0\n\
                 \u{20} 4        0        0\n  5        0        0\n  6        0        0",
            ),
        ],
    ),
    (
        "blobs",
        "default",
        &[
            ("estimate-num-keys", "644"),
            ("estimate-live-data-size", "417225"),
            ("num-blob-files", "13"),
            ("total-blob-file-size", "843904"),
            ("live-blob-file-size", "843904"),
            ("live-blob-file-garbage-size", "465496"),
            ("compression-ratio-at-level0", "1.720015"),
            ("compression-ratio-at-level6", "1.963557"),
            (
                "blob-stats",
                "Number of blob files: 13\nTotal size of blob files: 843904\nTotal size of garbage \
                 in blob files: 465496\nBlob file space amplification: 2.23014",
            ),
        ],
    ),
];

#[test]
fn properties_have_rocksdb_s_values() {
    for (name, family, properties) in PROPERTIES {
        let directory = golden::unpack(name);
        for (property, expected) in properties {
            let property = format!("rocksdb.{property}");
            let arguments = [property.as_str(), "--column-family", family];
            let answer = db("properties", directory.path(), arguments).well();
            assert_eq!(answer.output.trim_end(), *expected, "{name}, {property}");
        }
    }
}

#[test]
fn tables_are_listed_as_rocksdb_lists_them() {
    let directory = golden::unpack("basic");
    let answer = db("properties", directory.path(), ["rocksdb.sstables"]).well();
    let last = answer.output.lines().last().expect("a last line");
    assert_eq!(
        last,
        " 83:193277[0 .. 0]['30303030303030303030303136313532' seq:0, type:1 .. \
         '30303030303030303030303139393939' seq:0, type:1](0)"
    );
    assert!(answer.output.starts_with("--- level 0 --- version# 1 ---\n"));

    let document = db("properties", directory.path(), ["rocksdb.sstables", "--json"]).json();
    assert_eq!(document["name"], "rocksdb.sstables");
    assert_eq!(document["column_family"], "default");
    assert_eq!(document["value"], answer.output);
}

#[test]
fn unknown_properties_are_reported() {
    let directory = golden::unpack("basic");
    for name in [
        "rocksdb.nope",
        "levelstats",
        "rocksdb.num-files-at-level",
        "rocksdb.num-files-at-level7",
        "rocksdb.num-files-at-level+1",
    ] {
        let words = format!("property '{name}' is unknown");
        let answer = db("properties", directory.path(), [name]).ended(1, &words);
        assert_eq!(answer.output, "");
        assert!(answer.complaints.contains("rocksdb.levelstats"));
    }
}

#[test]
fn the_overview_lists_the_contents_of_the_database() {
    let directory = golden::unpack("blobs");
    let text = db("properties", directory.path(), []).well().output;
    for line in [
        "sequence number                 1700",
        "  comparator                    leveldb.BytewiseComparator",
        "  level 6                       1 table, 39623 bytes",
        "    000010.blob        71814 bytes  83 blobs  garbage: 71 blobs in 62754 bytes",
        "  keys, estimated               644",
    ] {
        assert!(text.lines().any(|found| found == line), "no '{line}' in:\n{text}");
    }

    let document = db("properties", directory.path(), ["--json"]).well().json();
    assert_eq!(document["database_id"], "c4fa1391-fa7b-453b-9670-7a367b471532");
    assert_eq!(document["latest_sequence"], 1700);
    assert_eq!(document["last_sequence"], 1636);
    let family = &document["column_families"][0];
    assert_eq!(family["name"], "default");
    assert_eq!(family["log_number"], 47);
    assert_eq!(family["table_count"], 2);
    assert_eq!(family["table_bytes"], 50270);
    assert_eq!(family["estimated_keys"], 644);
    assert_eq!(family["blob_files"].as_array().map(Vec::len), Some(13));
    let table = &family["levels"][0]["tables"][0];
    assert_eq!(table["file"], "000048.sst");
    assert_eq!(table["smallest"]["key"], "0000000000000007");
    assert_eq!(table["smallest"]["type"], "BlobIndex");
    assert_eq!(table["oldest_blob_file"], 49);
}

/// Regression test: `properties` printed figures of background work, such as whether writes are
/// stopped, as those of the reading process: always 0, whatever the process that writes does.
#[test]
fn figures_of_the_process_that_writes_are_refused() {
    let directory = golden::unpack("basic");
    for name in [
        "rocksdb.is-write-stopped",
        "rocksdb.actual-delayed-write-rate",
        "rocksdb.background-errors",
        "rocksdb.num-running-compactions",
        "rocksdb.min-log-number-to-keep",
        "rocksdb.block-cache-usage",
        "tailwater.contract-violations",
        "tailwater.num-obsolete-files",
        "tailwater.io-stats",
    ] {
        let words =
            format!("property '{name}' is a figure of the process that has the database open");
        let answer = db("properties", directory.path(), [name]).ended(1, &words);
        assert_eq!(answer.output, "", "{name}");
        // They are not suggested either.
        let unknown = db("properties", directory.path(), ["rocksdb.nope"]).ended(1, "is unknown");
        assert!(!unknown.complaints.lines().any(|line| line.trim() == name), "{name}");
    }
    for name in ["rocksdb.estimate-pending-compaction-bytes", "rocksdb.num-files-at-level0"] {
        db("properties", directory.path(), [name]).well();
    }
}

/// Regression test: nothing but a warning of the verbs that write said that a database has a
/// compaction style whose compactions run only on request.
#[test]
fn the_overview_names_compaction_styles_that_run_on_request() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("db");
    let universal = ["--options", "compaction_style=kCompactionStyleUniversal"];
    db("put", &path, ["a", "1", "--create"].into_iter().chain(universal)).ended(0, "");
    let text = db("properties", &path, []).well().output;
    let line =
        "  compaction style              kCompactionStyleUniversal, compacted only on request";
    assert!(text.lines().any(|found| found == line), "no '{line}' in:\n{text}");
    let document = db("properties", &path, ["--json"]).well().json();
    let family = &document["column_families"][0];
    assert_eq!(family["compaction_style"], "kCompactionStyleUniversal");

    let directory = golden::unpack("basic");
    let text = db("properties", directory.path(), []).well().output;
    assert!(!text.contains("compaction style"), "{text}");
}
