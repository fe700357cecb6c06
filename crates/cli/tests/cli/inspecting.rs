//! Inspection of a database's files: `manifest`, `wal`, `table`, `blob`, `verify`.

use serde_json::{Value, json};
use tailwater_testkit::golden;

use crate::support::{change, db, file, hex, read, write};

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

#[test]
fn a_manifest_is_shown_edit_by_edit() {
    let directory = golden::unpack("records");
    let text = db("manifest", directory.path(), []).well().output;
    for line in [
        "record 0 at 0, 46 bytes",
        "  database id                   e9ff81ad-00d5-4b77-af60-425a1d527bdc",
        "  changes nothing",
        "  adds the column family        counters",
        "record 9 at 301, 117 bytes",
        "  new table                     level 0  000009.sst          6926 bytes  \
         '0000000000000000' .. '0000000000000499'  sequence 43 .. 1534",
        "column family 3 'singles'",
        "  level 0                       7 tables, 55586 bytes",
    ] {
        assert!(text.lines().any(|found| found == line), "no '{line}' in:\n{text}");
    }

    let documents = db("manifest", directory.path(), ["--json"]).well().json_lines();
    let edits = of_kind(&documents, "edit");
    assert_eq!(edits.len() + 1, documents.len());
    assert_eq!(
        *edits[6],
        json!({
            "kind": "edit", "record": 6, "offset": 127, "length": 59,
            "edit": {
                "column_family": 1,
                "column_family_add": "counters",
                "comparator": "leveldb.BytewiseComparator",
                "log_number": 4,
                "next_file_number": 6,
                "last_sequence": 0,
                "persist_user_defined_timestamps": true,
            },
        })
    );
    let mut end = 0;
    for (number, edit) in edits.iter().enumerate() {
        assert_eq!((&edit["record"], &edit["offset"]), (&json!(number), &json!(end)));
        end += edit["length"].as_u64().expect("a length");
    }
    assert_eq!(end, 3176);
    let state = documents.last().expect("a state");
    assert_eq!(state["kind"], "state");
    let families = state["column_families"].as_array().expect("column families");
    let names: Vec<&Value> = families.iter().map(|family| &family["name"]).collect();
    assert_eq!(names, ["default", "counters", "ranges", "singles"]);

    // The file can also be given by its name or number.
    for name in ["MANIFEST-000005", "5"] {
        assert_eq!(db("manifest", directory.path(), [name]).well().output, text);
    }
    db("manifest", directory.path(), ["7"]).ended(1, "MANIFEST-000007");
}

#[test]
fn a_log_is_shown_batch_by_batch() {
    let directory = golden::unpack("wal");
    let documents = db("wal", directory.path(), ["--json"]).well().json_lines();
    let batches = of_kind(&documents, "batch");
    assert_eq!(batches.len(), 8);
    assert_eq!(batches[0]["sequence"], 1213);
    let split: Vec<&&Value> = batches.iter().filter(|batch| batch["fragments"] == 2).collect();
    assert_eq!(split.len(), 1);
    assert_eq!((&split[0]["offset"], &split[0]["length"]), (&json!(28156), &json!(7046)));
    let summary = documents.last().expect("a summary");
    assert_eq!(summary["kind"], "summary");
    assert_eq!(summary["sequences"], json!([1213, 1220]));
    assert_eq!(summary["verdict"], "end");
    assert_eq!(summary["recovery_mode"], "kPointInTimeRecovery");

    let text = db("wal", directory.path(), ["8"]).well().output;
    assert!(text.contains("8 batches, 8 operations, sequence numbers 1213 to 1220\n"), "{text}");
    assert!(text.ends_with("kPointInTimeRecovery accepts the whole log\n"), "{text}");
    for name in ["000008.log", "8"] {
        assert_eq!(db("wal", directory.path(), [name]).well().output, text);
    }
    db("wal", directory.path(), ["9"]).ended(1, "000009.log");
}

#[test]
fn operations_of_a_log_end_up_in_the_database() {
    let directory = golden::unpack("records");
    let arguments = ["--json", "--verbose", "--hex"];
    let documents = db("wal", directory.path(), arguments).well().json_lines();
    let operations: Vec<&Value> = of_kind(&documents, "batch")
        .iter()
        .flat_map(|batch| batch["operations"].as_array().expect("operations"))
        .collect();
    let count = documents.last().expect("a summary")["operations"].as_u64();
    assert_eq!(count, Some(operations.len() as u64));
    for name in ["Put", "Merge", "DeleteRange", "SingleDelete"] {
        let found = operations.iter().any(|operation| operation["operation"] == name);
        assert!(found, "no {name}");
    }
    // If the last operation on a key is a put, the database must hold the value that was put.
    let live = golden::dump("records");
    let last = operations.iter().rfind(|operation| operation["column_family"] == "singles");
    let last = last.expect("an operation on the singles");
    let entry =
        live.iter().find(|entry| last["key"] == hex(&entry.key) && entry.family == "singles");
    match last["operation"].as_str() {
        Some("Put") => assert_eq!(last["value"], hex(&entry.expect("a live entry").value)),
        _ => assert!(entry.is_none(), "{last}"),
    }

    let text = db("wal", directory.path(), ["--verbose"]).well().output;
    assert!(text.contains("Merge         counters  '0000000000000321'"), "{text}");
}

#[test]
fn recycled_and_compressed_logs_are_labelled() {
    let directory = golden::unpack("wal-recycled");
    let documents = db("wal", directory.path(), ["--json"]).well().json_lines();
    assert!(of_kind(&documents, "batch").iter().all(|batch| batch["recyclable"] == true));
    let directory = golden::unpack("wal-zstd");
    let documents = db("wal", directory.path(), ["--json"]).well().json_lines();
    let batches = of_kind(&documents, "batch");
    assert!(batches.iter().all(|batch| batch["compressed"] == true));
    assert_eq!(batches[0]["offset"], 11);
    assert_eq!(batches[0]["payload_bytes"], 7032);
    assert_eq!(documents.last().expect("a summary")["compression"], 7);
    let text = db("wal", directory.path(), []).well().output;
    assert!(text.contains("compressed with zstd"), "{text}");
}

#[test]
fn remains_of_an_earlier_use_of_a_log_are_not_shown_as_records() {
    let directory = golden::unpack("wal-recycled");
    let (earlier, log) = (file(directory.path(), "000014.log"), file(directory.path(), ".log"));
    assert_ne!(earlier, log);
    let old = read(&earlier);
    // The new log is cut after its first batch, and records of the old log follow. They are
    // complete, but they carry the number of the old log.
    let rest = db("wal", &earlier, ["--json"]).json_lines();
    let at = of_kind(&rest, "batch")[500]["offset"].as_u64().expect("an offset") as usize;
    let new = read(&log);
    let documents = db("wal", &log, ["--json"]).json_lines();
    let second = of_kind(&documents, "batch")[1]["offset"].as_u64().expect("an offset") as usize;
    let mut bytes = new[..second].to_vec();
    bytes.extend(&old[at..at + 20_000]);
    write(&log, &bytes);
    let documents = db("wal", &log, ["--json"]).json_lines();
    assert_eq!(of_kind(&documents, "batch").len(), 1);
    let stale = of_kind(&documents, "stale");
    assert_eq!(stale[0]["offset"], second);
    assert_eq!(db("wal", &log, []).code, 0);
}

#[test]
fn space_that_was_never_written_is_no_damage() {
    let directory = golden::unpack("wal");
    let log = file(directory.path(), ".log");
    change(&log, |bytes| bytes.resize(bytes.len() + 200_000, 0));
    let answer = db("wal", directory.path(), []).well();
    assert_eq!(answer.output.matches("unwritten").count(), 1, "{}", answer.output);
    assert!(answer.output.contains("56319      200000  unwritten"), "{}", answer.output);
    assert!(answer.output.ends_with("kPointInTimeRecovery accepts the whole log\n"));
}

#[test]
fn recovery_modes_differ_in_their_verdicts() {
    let directory = golden::unpack("wal");
    change(&file(directory.path(), ".log"), |bytes| bytes[10_000] ^= 1);
    let verdict = |mode: &str| {
        let options = format!("wal_recovery_mode={mode}");
        let answer = db("wal", directory.path(), ["--json", "--options", &options]);
        assert_eq!(answer.code, 1);
        let summary = answer.json_lines().pop().expect("a summary");
        (summary["verdict"].clone(), summary["batches"].clone())
    };
    assert_eq!(verdict("kPointInTimeRecovery"), (json!("stop_replay"), json!(1)));
    assert_eq!(verdict("kAbsoluteConsistency"), (json!("fail"), json!(1)));
    assert_eq!(verdict("kTolerateCorruptedTailRecords"), (json!("fail"), json!(1)));
    assert_eq!(verdict("kSkipAnyCorruptedRecords"), (json!("end"), json!(4)));
}

#[test]
fn tables_are_shown_in_their_parts() {
    let directory = golden::unpack("formats");
    let arguments = ["--blocks", "--entries", "--json"];
    let documents = db("table", directory.path(), arguments).well().json_lines();
    let tables = of_kind(&documents, "table");
    let number = |value: &Value| -> u64 {
        value.as_str().and_then(|text| text.parse().ok()).expect("a number")
    };
    let mut versions = std::collections::BTreeSet::new();
    let mut filters = std::collections::BTreeSet::new();
    for table in tables {
        let of_table = |kind: &str| {
            let documents = of_kind(&documents, kind).into_iter();
            documents.filter(|document| document["file"] == table["file"]).count() as u64
        };
        let properties = &table["properties"];
        let tombstones = number(&properties["rocksdb.num.range-deletions"]);
        assert_eq!(of_table("range_tombstone"), tombstones);
        assert_eq!(of_table("entry"), number(&properties["rocksdb.num.entries"]) - tombstones);
        assert_eq!(table["index"]["data_blocks"], of_table("block"));
        versions.insert(table["footer"]["format_version"].as_u64());
        let structure = table["filter"]["structure"].as_str().unwrap_or("none");
        filters.insert(structure.split(',').next().map(str::to_owned));
    }
    assert_eq!(versions.len(), 6);
    assert_eq!(filters.len(), 3, "{filters:?}");
    let compressions: std::collections::BTreeSet<&str> = of_kind(&documents, "block")
        .iter()
        .filter_map(|block| block["compression"].as_str())
        .collect();
    for name in ["kSnappyCompression", "kLZ4Compression", "kZSTD", "kZlibCompression"] {
        assert!(compressions.contains(name), "{name}");
    }
    assert!(of_kind(&documents, "block").iter().all(|block| block["checksum_holds"] == true));
}

#[test]
fn a_lone_table_needs_no_database() {
    let database = golden::unpack("records");
    let alone = tempfile::tempdir().expect("a directory");
    let table = alone.path().join("any name");
    write(&table, &read(&file(database.path(), "000014.sst")));
    let text = db("table", &table, ["--entries"]).well().output;
    for part in [
        "format version                7",
        "rocksdb.comparator                                       leveldb.BytewiseComparator",
        "no filter",
        "range tombstones",
        "sequence       6090  '0000000000003517' .. '0000000000003579'",
        "    '0000000000003997'  6077  Value  'xmlrmybbztlhhmlwfpfiefbzctjeclxmlrmybbztlhhmlw",
    ] {
        assert!(text.contains(part), "no '{part}'");
    }
    let by_number = db("table", database.path(), ["14"]).well().output;
    assert!(by_number.starts_with(&*file(database.path(), "000014.sst").to_string_lossy()));
    db("table", database.path(), ["15555"]).ended(1, "no table with number 15555");
}

#[test]
fn raw_blocks_are_the_file_s_bytes() {
    let database = golden::unpack("records");
    let table = file(database.path(), "000014.sst");
    let documents = db("table", &table, ["--raw", "--json"]).well().json_lines();
    let bytes = read(&table);
    let blocks = of_kind(&documents, "raw");
    assert!(!blocks.is_empty());
    let mut end = 0;
    for block in blocks {
        assert_eq!(block["offset"], end);
        let stored = block["stored"].as_str().expect("hex");
        let length = stored.len() / 2;
        assert!(stored == hex(&bytes[end..end + length]));
        end += length;
    }
    let text = db("table", &table, ["--raw"]).well().output;
    assert!(text.contains(&format!("{:>16}  {}", 0, hex(&bytes[..32]))), "{text}");
}

#[test]
fn blob_files_are_shown_record_by_record() {
    let directory = golden::unpack("blobs");
    let documents = db("blob", directory.path(), ["10", "--json", "--hex"]).well().json_lines();
    let header = &documents[0];
    assert_eq!((&header["kind"], &header["compression"]), (&json!("header"), &json!("kZSTD")));
    assert_eq!(header["bytes"], 71876);
    let records = of_kind(&documents, "record");
    assert_eq!(records.len(), 83);
    assert_eq!(records[0]["offset"], 30);
    assert_eq!(records[0]["key"], hex(b"0000000000000007"));
    assert_eq!(records[0]["value_bytes"], 1367);
    let total: u64 = records.iter().filter_map(|record| record["length"].as_u64()).sum();
    assert_eq!(total, 71814);
    assert_eq!(documents.last().expect("a footer")["blobs"], 83);

    let text = db("blob", directory.path(), ["10"]).well().output;
    assert!(text.contains("header: column family 0, kZSTD\n"), "{text}");
    assert!(text.contains(" 1367  hold       '0000000000000007'\n"), "{text}");
    assert!(text.contains("footer: 83 blobs\n"), "{text}");
    let all = db("blob", directory.path(), ["--json"]).well().json_lines();
    assert_eq!(of_kind(&all, "header").len(), 13);
}

#[test]
fn verification_reports_what_it_read() {
    let directory = golden::unpack("blobs");
    let text = db("verify", directory.path(), []).well().output;
    assert!(text.ends_with("all is well\n"), "{text}");
    let document = db("verify", directory.path(), ["--json"]).well().json();
    assert_eq!(document["verdict"], "well");
    assert_eq!(document["findings"], json!([]));
    assert_eq!((&document["tables"], &document["blob_files"]), (&json!(2), &json!(13)));

    change(&file(directory.path(), "000046.sst"), |bytes| bytes[50] ^= 1);
    let answer = db("verify", directory.path(), ["--json"]);
    assert_eq!((answer.code, &answer.json()["verdict"]), (1, &json!("damage")));
    let document = answer.json();
    let found = document["findings"].as_array().expect("findings").iter().any(|finding| {
        finding["severity"] == "damage"
            && finding["file"].as_str().is_some_and(|file| file.ends_with("000046.sst"))
            && finding["offset"].is_u64()
    });
    assert!(found, "{document}");
    let text = db("verify", directory.path(), []).output;
    assert!(text.starts_with("damage ") && text.ends_with("DAMAGED\n"), "{text}");
}
