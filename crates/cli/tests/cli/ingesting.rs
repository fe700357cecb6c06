//! `ingest`: its output, and the tables that it rejects.

use tailwater_testkit::golden;

use crate::support::{change, db, external_table, read, write};

#[test]
fn files_are_ingested() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = &scratch.path().join("database");
    let files = ["1.sst", "2.sst"].map(|name| scratch.path().join(name));
    external_table(&files[0], &["a", "b"]);
    external_table(&files[1], &["b", "c", "d"]);
    let names = files.each_ref().map(|file| file.to_str().expect("a path in UTF-8"));
    db("put", path, ["c", "older", "--create"]);
    let answer = db("ingest", path, names).well();
    let (first, second) = answer.output.split_once('\n').expect("two lines");
    assert!(first.starts_with(&format!("{}: 2 entries of ", names[0])), "{first}");
    assert!(first.contains(" went to level 6 as 0"), "{first}");
    assert!(first.ends_with(".sst, at sequence number 2"), "{first}");
    assert!(second.contains(": 3 entries of "), "{second}");
    assert!(second.contains(" went to level 0 as "), "{second}");
    assert_eq!(db("get", path, ["c"]).well().output, "ingested\n");
    assert_eq!(db("scan", path, ["--count"]).well().output, "4\n");
    assert!(files.iter().all(|file| file.exists()));
    db("verify", path, []).well();

    external_table(&files[0], &["e"]);
    let document = db("ingest", path, ["--move", "--json", names[0]]).well().json();
    let file = &document["files"][0];
    assert_eq!((&document["column_family"], &file["file"]), (&"default".into(), &names[0].into()));
    assert_eq!((&file["level"], &file["sequence"]), (&6.into(), &0.into()));
    assert_eq!((&file["entries"], &file["range_deletions"]), (&1.into(), &0.into()));
    assert_eq!(file["copied"], false);
    assert!(!files[0].exists());
    assert_eq!(db("get", path, ["e"]).well().output, "ingested\n");
}

#[test]
fn a_refused_file_is_named_and_nothing_changes() {
    let database = golden::unpack("basic");
    let path = database.path();
    db("flush", path, []).well();
    let dump = || db("dump", path, ["--all"]).well().output;
    let before = dump();
    let scratch = tempfile::tempdir().expect("a directory");
    let file = |name: &str| scratch.path().join(name);
    let ingest = |name: &str| {
        let (good, bad) = (file("good.sst"), file(name));
        external_table(&good, &["good"]);
        let arguments = [&good, &bad].map(|path| path.to_str().expect("a path in UTF-8"));
        let answer = db("ingest", path, arguments).ended(1, name);
        assert_eq!(dump(), before);
        answer
    };
    ingest("missing.sst");
    write(&file("text.sst"), b"no table");
    ingest("text.sst");
    external_table(&file("damaged.sst"), &["a", "b"]);
    change(&file("damaged.sst"), |bytes| bytes[5] ^= 1);
    ingest("damaged.sst").ended(1, "checksum");
    let own = crate::support::file(path, ".sst");
    write(&file("own.sst"), &read(&own));
    ingest("own.sst").ended(1, "not made to be ingested");
    let good = file("good.sst");
    let good = good.to_str().expect("a path in UTF-8");
    db("ingest", path, ["--column-family", "nope", good]).ended(1, "no column family 'nope'");
    db("ingest", path, []).ended(2, "<FILE>");
    db("ingest", path, [good]).well();
    assert_eq!(db("get", path, ["good"]).well().output, "ingested\n");
}
