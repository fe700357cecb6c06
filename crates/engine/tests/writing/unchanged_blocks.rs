//! Compactions write the compressed form of an input block that they do not change.
//!
//! The compressed form shows which level compressed a block: with a higher acceleration, LZ4 finds
//! fewer matches.

use std::path::Path;

use fastrand::Rng;
use tailwater::inspect::table::TableFile;
use tailwater::{BottommostRewrite, CompactRangeOptions, Db};
use tailwater_format::checksum::ChecksumType;
use tailwater_format::table::BlockChecksum;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::support::{default_family, names, put, simulated};

const PATH: &str = "/db";
const FORCE: CompactRangeOptions =
    CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
/// Number of bytes at the start of a table that are compared. They are compressed data blocks.
const COMPARED: usize = 10_000;

fn open(disk: &SimStorage, level: &str) -> Db {
    let options = format!(
        "compression=kLZ4Compression;compression_opts={{level={level}}};\
         block_based_table_factory={{format_version=5}}"
    );
    Db::open(PATH, &simulated(disk, &options)).expect("a database")
}

fn value(key: u32) -> String {
    let mut rng = Rng::with_seed(key.into());
    (0..20).map(|_| ["compaction", "memtable", "of", "block", "and "][rng.usize(..5)]).collect()
}

/// Compacts everything. Returns the name and the contents of the only table.
fn rewrite(db: &Db, disk: &SimStorage) -> (String, Vec<u8>) {
    let before = names(disk, Path::new(PATH));
    db.compact_range_cf_opt(&default_family(db), None, None, &FORCE).expect("a compaction");
    let mut after = names(disk, Path::new(PATH)).into_iter();
    let name = after.find(|name| name.ends_with(".sst") && !before.contains(name));
    let name = name.expect("a new table");
    let path = Path::new(PATH).join(&name);
    let file = disk.open(&path, IoMode::Buffered, Purpose::Verification).expect("a table");
    let mut contents = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut contents, 0, Purpose::Verification).expect("its contents");
    (name, contents)
}

/// Creates a database with one table whose blocks were compressed with `level`. Returns the table.
fn compressed_with(disk: &SimStorage, level: &str) -> (String, Vec<u8>) {
    let db = open(disk, level);
    for key in 0..2000 {
        put(&db, &format!("{key:06}"), &value(key)).expect("a put");
    }
    rewrite(&db, disk)
}

#[test]
fn unchanged_blocks_are_not_compressed_again() {
    let disk = SimStorage::new(1);
    let (name, mut table) = compressed_with(&disk, "-50");
    // The table now states another level than the one that compressed its blocks.
    let path = Path::new(PATH).join(name);
    let properties = {
        let file = TableFile::open(&disk, &path).expect("a table");
        let entries = file.meta_blocks().as_ref().expect("a metaindex");
        entries.iter().find(|entry| entry.name == b"rocksdb.properties").expect("properties").handle
    };
    let (start, size) = (properties.offset as usize, properties.size as usize);
    let text = b"; level=-50; ";
    let at = table.windows(text.len()).position(|it| it == text).expect("the level");
    assert!(at > start && at < start + size);
    table[at..at + text.len()].copy_from_slice(b"; level=-99; ");
    let checksum = BlockChecksum { checksum_type: ChecksumType::Xxh3, base_context: 0 };
    let trailer = checksum.trailer(properties.offset, &table[start..start + size], 0);
    table[start + size..][..trailer.len()].copy_from_slice(&trailer);
    let mut file = disk
        .create(&path, Create::Existing, IoMode::Buffered, Purpose::FlushWrite)
        .expect("a table");
    file.write_all_at(&table, 0, Purpose::FlushWrite).expect("other bytes");

    let db = open(&disk, "-99");
    let (_, rewritten) = rewrite(&db, &disk);
    assert!(rewritten[..COMPARED] == table[..COMPARED], "blocks were compressed again");

    put(&db, "000000x", "changes the first block, and what is in the others").expect("a put");
    rewrite(&db, &disk);
    for key in 0..2000 {
        let found = db.get(format!("{key:06}")).expect("a get");
        assert_eq!(found, Some(value(key).into_bytes()), "{key}");
    }
    assert!(db.get("000000x").expect("a get").is_some());
}

#[test]
fn blocks_of_another_compression_level_are_compressed_again() {
    let disk = SimStorage::new(1);
    let (_, fast) = compressed_with(&disk, "-99");
    let (_, rewritten) = rewrite(&open(&disk, "-1"), &disk);
    let (_, expected) = compressed_with(&SimStorage::new(1), "-1");
    assert!(rewritten[..COMPARED] == expected[..COMPARED]);
    assert!(rewritten[..COMPARED] != fast[..COMPARED]);
}
