//! Measures the memory of objects that no option bounds: open databases, column families, open
//! tables, iterators, and the user's threads that read and write.
//!
//! Prints for each the anonymous memory of the process per object, in KiB.

use std::error::Error;
use std::sync::{Arc, Barrier};
use std::thread;

use tailwater::options::ColumnFamilyOptions;
use tailwater::{BlockCache, Db, OpenOptions, ProcessMemory};

const KIB: f64 = 1024.0;
const DATABASES: usize = 64;
const FAMILIES: usize = 200;
const TABLES: usize = 1000;
const ITERATORS: usize = 2000;
const THREADS: usize = 64;
/// Keys of each table.
const KEYS: u64 = 1000;

fn anonymous() -> f64 {
    ProcessMemory::now().anonymous().unwrap_or(0) as f64
}

/// Prints the growth of the memory since `before`, per object.
fn print(what: &str, before: f64, objects: usize) {
    println!("{what:<44} {:>8.1} KiB", (anonymous() - before) / KIB / objects as f64);
}

fn options() -> Result<OpenOptions, tailwater::Error> {
    let mut options = OpenOptions::default();
    options.set_from_string(
        "create_if_missing=true;max_background_jobs=2;disable_auto_compactions=true;\
         block_based_table_factory={filter_policy=bloomfilter:10;cache_index_and_filter_blocks=true}",
    )?;
    let cache = BlockCache::new(8 << 20);
    cache.set_strict_capacity_limit(true);
    options.set_block_cache(Arc::new(cache));
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    tailwater_io::descriptors::raise_open_files_max();
    let directory = tempfile::tempdir()?;
    let options = options()?;
    let open = |name: String| Db::open(directory.path().join(name), &options);
    // The first database also allocates what all share.
    let db = open("first".to_owned())?;

    let before = anonymous();
    let databases = (0..DATABASES).map(|number| open(number.to_string()));
    let databases = databases.collect::<Result<Vec<_>, _>>()?;
    print("an open database", before, DATABASES);
    drop(databases);

    let before = anonymous();
    for number in 0..FAMILIES {
        db.create_cf(&number.to_string(), &ColumnFamilyOptions::default())?;
    }
    print("a column family", before, FAMILIES);

    // Fills the cache, so that it does not grow below.
    let put_table = |first: u64| -> Result<(), tailwater::Error> {
        for key in first..first + KEYS {
            db.put(key.to_be_bytes(), [0; 100])?;
        }
        db.flush()
    };
    let get_all = |tables: u64| -> Result<(), tailwater::Error> {
        (0..tables * KEYS).try_for_each(|key| db.get(key.to_be_bytes()).map(drop))
    };
    put_table(0)?;
    for table in 1..200 {
        put_table(table * KEYS)?;
    }
    get_all(200)?;
    let before = anonymous();
    for table in 200..200 + TABLES as u64 {
        put_table(table * KEYS)?;
    }
    get_all(200 + TABLES as u64)?;
    print("an open table, index and filter in the cache", before, TABLES);
    drop(db);

    let db = open("one table".to_owned())?;
    db.put("key", "value")?;
    db.flush()?;
    db.put("key", "value")?;
    let before = anonymous();
    let mut iterators = Vec::new();
    for _ in 0..ITERATORS {
        let mut iterator = db.raw_iterator()?;
        iterator.seek("key")?;
        iterators.push(iterator);
    }
    print("an iterator over a memtable and a table", before, ITERATORS);
    drop(iterators);

    let before = anonymous();
    let (work, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, work, end) = (&db, &work, &end);
            scope.spawn(move || {
                for number in 0..100 {
                    let key = format!("{thread} {number}");
                    assert!(db.put(&key, "value").is_ok() && db.get(&key).is_ok());
                }
                work.wait();
                end.wait();
            });
        }
        work.wait();
        print("a thread of the user", before, THREADS);
        end.wait();
    });
    Ok(())
}
