//! Makes the same calls through the Rust interface and through the C interface, so that their costs
//! can be compared. `ci/capi/cost.sh` does that.
//!
//! usage: `boundary_cost rust|LIBRARY DIRECTORY WORKLOAD COUNT`
//!
//! LIBRARY is the path of `librocksdb.so`, which is loaded. The workload `prepare` fills the
//! database that the others read: `get`, `get_pinned`, `seek` and `multi_get`. The workload `fill`
//! writes another one. Prints the number of operations per second.
//!
//! Both sides prepare their options once, and reuse one iterator. For both, keys are slices of any
//! length, and a result is an address and a length. The keys are chosen beforehand, and a part of
//! the calls is made beforehand, so that blocks are in the cache and the allocator has its lists.
//! What remains is in the function `measured`.

#![expect(unsafe_code, reason = "calls the C interface")]

use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Instant;

use tailwater::{
    BlockCache, ColumnFamily, Db, DbIterator, OpenOptions, PinnedValue, ReadOptions, WriteOptions,
};

const KEYS: u64 = 200_000;
const KEY_SIZE: usize = 16;
const VALUE_SIZE: usize = 100;
const CACHE_SIZE: usize = 256 << 20;
/// Number of keys of a multi-get.
const GROUP: usize = 8;
/// Number of entries that are read after a seek.
const NEXTS: usize = 10;
/// Number of operations before those that are measured.
const WARM_UP: usize = 2000;

type Key = [u8; KEY_SIZE];

/// An open database, through one of the two interfaces. Each call returns the number of bytes that
/// it read.
trait Calls {
    fn put(&self, key: &Key, value: &[u8]);
    fn get(&self, key: &Key) -> usize;
    fn get_pinned(&self, key: &Key) -> usize;
    fn multi_get(&self, keys: &[Key; GROUP]) -> usize;
    fn seek(&mut self, key: &Key) -> usize;
    fn flush_and_compact(&self);
}

/// Returns the length of a result, and makes use of its address.
fn length(result: &[u8]) -> usize {
    black_box(result.as_ptr());
    result.len()
}

struct Rust {
    db: Db,
    family: ColumnFamily,
    iterator: DbIterator,
    reads: ReadOptions,
    writes: WriteOptions,
}

impl Rust {
    fn open(path: &Path) -> Self {
        let mut options = OpenOptions::default();
        options.create_if_missing(true);
        options.set_block_cache(Arc::new(BlockCache::new(CACHE_SIZE)));
        let db = Db::open(path, &options).expect("a database");
        let family = db.default_cf().clone();
        let reads = ReadOptions::new();
        let iterator = db.raw_iterator_cf_opt(&family, &reads).expect("an iterator");
        Self { db, family, iterator, reads, writes: WriteOptions::new() }
    }
}

impl Calls for Rust {
    fn put(&self, key: &Key, value: &[u8]) {
        self.db.put_cf_opt(&self.family, key, value, &self.writes).expect("a put");
    }

    fn get(&self, key: &Key) -> usize {
        let value = self.db.get_cf_opt(&self.family, key, &self.reads).expect("a get");
        value.map_or(0, |value| length(&value))
    }

    fn get_pinned(&self, key: &Key) -> usize {
        let value = self.db.get_pinned_cf_opt(&self.family, key, &self.reads).expect("a get");
        value.map_or(0, |value| length(&value))
    }

    fn multi_get(&self, keys: &[Key; GROUP]) -> usize {
        let keys = keys.each_ref().map(|key| &key[..]);
        let values = self.db.batched_multi_get_cf_opt(&self.family, &keys, &self.reads);
        let value = |value: tailwater::Result<Option<PinnedValue>>| value.expect("a get");
        let values = values.into_iter().filter_map(value);
        values.map(|value| length(&value)).sum()
    }

    fn seek(&mut self, key: &Key) -> usize {
        let iterator = &mut self.iterator;
        iterator.seek(key).expect("a seek");
        let mut bytes = 0;
        for _ in 0..NEXTS {
            if !iterator.valid() {
                break;
            }
            bytes += length(iterator.key()) + length(iterator.value());
            iterator.next().expect("a step");
        }
        bytes
    }

    fn flush_and_compact(&self) {
        self.db.flush_all().expect("a flush");
        self.db.compact_range(None, None).expect("a compaction");
    }
}

type Error = *mut *mut c_char;

/// Declares the functions of the C interface that are loaded.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            /// `library` comes from `dlopen`, and is RocksDB's C interface.
            unsafe fn load(library: *mut c_void) -> Self {
                $(
                    let name = CString::new(stringify!($name)).expect("a name");
                    // SAFETY: see above.
                    let $name = unsafe { libc::dlsym(library, name.as_ptr()) };
                    assert!(!$name.is_null(), stringify!($name));
                )*
                // SAFETY: the functions have these types in RocksDB's header.
                unsafe {
                    Self {
                        $($name: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?,
                        >($name),)*
                    }
                }
            }
        }
    };
}

functions! {
    rocksdb_options_create() -> *mut c_void;
    rocksdb_options_set_create_if_missing(*mut c_void, u8);
    rocksdb_options_set_block_based_table_factory(*mut c_void, *mut c_void);
    rocksdb_block_based_options_create() -> *mut c_void;
    rocksdb_block_based_options_set_block_cache(*mut c_void, *mut c_void);
    rocksdb_cache_create_lru(usize) -> *mut c_void;
    rocksdb_open(*const c_void, *const c_char, Error) -> *mut c_void;
    rocksdb_get_default_column_family_handle(*mut c_void) -> *mut c_void;
    rocksdb_readoptions_create() -> *mut c_void;
    rocksdb_writeoptions_create() -> *mut c_void;
    rocksdb_flushoptions_create() -> *mut c_void;
    rocksdb_put_cf(*mut c_void, *const c_void, *mut c_void, *const u8, usize, *const u8, usize, Error);
    rocksdb_get_cf(*mut c_void, *const c_void, *mut c_void, *const u8, usize, *mut usize, Error) -> *mut c_char;
    rocksdb_free(*mut c_void);
    rocksdb_get_pinned_cf(*mut c_void, *const c_void, *mut c_void, *const u8, usize, Error) -> *mut c_void;
    rocksdb_pinnableslice_value(*const c_void, *mut usize) -> *const c_char;
    rocksdb_pinnableslice_destroy(*mut c_void);
    rocksdb_batched_multi_get_cf(*mut c_void, *const c_void, *mut c_void, usize, *const *const u8, *const usize, *mut *mut c_void, *mut *mut c_char, bool);
    rocksdb_create_iterator_cf(*mut c_void, *const c_void, *mut c_void) -> *mut c_void;
    rocksdb_iter_seek(*mut c_void, *const u8, usize);
    rocksdb_iter_valid(*const c_void) -> u8;
    rocksdb_iter_key(*const c_void, *mut usize) -> *const c_char;
    rocksdb_iter_value(*const c_void, *mut usize) -> *const c_char;
    rocksdb_iter_next(*mut c_void);
    rocksdb_flush(*mut c_void, *const c_void, Error);
    rocksdb_compact_range(*mut c_void, *const c_char, usize, *const c_char, usize);
}

struct C {
    call: Functions,
    db: *mut c_void,
    family: *mut c_void,
    iterator: *mut c_void,
    reads: *mut c_void,
    writes: *mut c_void,
}

impl C {
    fn open(library: &str, path: &Path) -> Self {
        let library = CString::new(library).expect("a path");
        let path = CString::new(path.to_str().expect("a path")).expect("a path");
        // SAFETY: the library has RocksDB's C interface, which is called as its header demands.
        unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "the library is not there");
            let call = Functions::load(library);
            let options = (call.rocksdb_options_create)();
            (call.rocksdb_options_set_create_if_missing)(options, 1);
            let table = (call.rocksdb_block_based_options_create)();
            let cache = (call.rocksdb_cache_create_lru)(CACHE_SIZE);
            (call.rocksdb_block_based_options_set_block_cache)(table, cache);
            (call.rocksdb_options_set_block_based_table_factory)(options, table);
            let mut error = null_mut();
            let db = (call.rocksdb_open)(options, path.as_ptr(), &raw mut error);
            assert!(error.is_null(), "the database was not opened");
            let family = (call.rocksdb_get_default_column_family_handle)(db);
            let reads = (call.rocksdb_readoptions_create)();
            let writes = (call.rocksdb_writeoptions_create)();
            let iterator = (call.rocksdb_create_iterator_cf)(db, reads, family);
            Self { call, db, family, iterator, reads, writes }
        }
    }
}

impl Calls for C {
    fn put(&self, key: &Key, value: &[u8]) {
        let mut error = null_mut();
        // SAFETY: see `open`.
        unsafe {
            (self.call.rocksdb_put_cf)(
                self.db,
                self.writes,
                self.family,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &raw mut error,
            );
        }
        assert!(error.is_null());
    }

    fn get(&self, key: &Key) -> usize {
        let (mut error, mut length) = (null_mut(), 0);
        // SAFETY: see `open`.
        unsafe {
            let value = (self.call.rocksdb_get_cf)(
                self.db,
                self.reads,
                self.family,
                key.as_ptr(),
                key.len(),
                &raw mut length,
                &raw mut error,
            );
            (self.call.rocksdb_free)(value.cast());
        }
        assert!(error.is_null());
        length
    }

    fn get_pinned(&self, key: &Key) -> usize {
        let (mut error, mut length) = (null_mut(), 0);
        // SAFETY: see `open`.
        unsafe {
            let value = (self.call.rocksdb_get_pinned_cf)(
                self.db,
                self.reads,
                self.family,
                key.as_ptr(),
                key.len(),
                &raw mut error,
            );
            (self.call.rocksdb_pinnableslice_value)(value, &raw mut length);
            if !value.is_null() {
                (self.call.rocksdb_pinnableslice_destroy)(value);
            }
        }
        assert!(error.is_null());
        length
    }

    fn multi_get(&self, keys: &[Key; GROUP]) -> usize {
        let pointers = keys.each_ref().map(|key| key.as_ptr());
        let lengths = keys.each_ref().map(|key| key.len());
        let (mut values, mut errors) = ([null_mut(); GROUP], [null_mut(); GROUP]);
        let mut bytes = 0;
        // SAFETY: see `open`.
        unsafe {
            (self.call.rocksdb_batched_multi_get_cf)(
                self.db,
                self.reads,
                self.family,
                GROUP,
                pointers.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
            for (value, error) in values.into_iter().zip(errors) {
                assert!(error.is_null());
                let mut length = 0;
                (self.call.rocksdb_pinnableslice_value)(value, &raw mut length);
                bytes += length;
                if !value.is_null() {
                    (self.call.rocksdb_pinnableslice_destroy)(value);
                }
            }
        }
        bytes
    }

    fn seek(&mut self, key: &Key) -> usize {
        let mut bytes = 0;
        // SAFETY: see `open`.
        unsafe {
            (self.call.rocksdb_iter_seek)(self.iterator, key.as_ptr(), key.len());
            let (mut key_length, mut value_length) = (0, 0);
            for _ in 0..NEXTS {
                if (self.call.rocksdb_iter_valid)(self.iterator) == 0 {
                    break;
                }
                (self.call.rocksdb_iter_key)(self.iterator, &raw mut key_length);
                (self.call.rocksdb_iter_value)(self.iterator, &raw mut value_length);
                bytes += key_length + value_length;
                (self.call.rocksdb_iter_next)(self.iterator);
            }
        }
        bytes
    }

    fn flush_and_compact(&self) {
        let mut error = null_mut();
        // SAFETY: see `open`.
        unsafe {
            let options = (self.call.rocksdb_flushoptions_create)();
            (self.call.rocksdb_flush)(self.db, options, &raw mut error);
            (self.call.rocksdb_compact_range)(self.db, null(), 0, null(), 0);
        }
        assert!(error.is_null());
    }
}

fn key(number: u64) -> Key {
    let mut key = *b"key-000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Keys that are chosen at random, always the same ones.
fn choose(count: usize) -> Vec<Key> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..count).map(|_| key(random.u64(..KEYS))).collect()
}

/// Makes the calls of a workload, with a key or a group of keys each. Returns the number of bytes
/// read.
fn run(calls: &mut dyn Calls, workload: &str, keys: &[Key]) -> usize {
    let value = [b'v'; VALUE_SIZE];
    match workload {
        "fill" => {
            keys.iter().for_each(|key| calls.put(key, &value));
            0
        }
        "get" => keys.iter().map(|key| calls.get(key)).sum(),
        "get_pinned" => keys.iter().map(|key| calls.get_pinned(key)).sum(),
        "seek" => keys.iter().map(|key| calls.seek(key)).sum(),
        "multi_get" => {
            let (groups, _) = keys.as_chunks::<GROUP>();
            groups.iter().map(|keys| calls.multi_get(keys)).sum()
        }
        _ => panic!("there is no workload {workload}"),
    }
}

/// Calls [`run`]. Not inlined, because callgrind counts only the instructions inside it.
#[inline(never)]
fn measured(calls: &mut dyn Calls, workload: &str, keys: &[Key]) -> usize {
    black_box(run(calls, workload, black_box(keys)))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, directory, workload, count] = arguments.as_slice() else {
        panic!("usage: boundary_cost rust|LIBRARY DIRECTORY WORKLOAD COUNT");
    };
    let count: usize = count.parse().expect("a number");
    let writes = workload == "fill";
    let path = Path::new(directory).join(if writes { "filled" } else { "read" });
    if writes || workload == "prepare" {
        let _ = std::fs::remove_dir_all(&path);
    }
    let mut calls: Box<dyn Calls> = match interface.as_str() {
        "rust" => Box::new(Rust::open(&path)),
        library => Box::new(C::open(library, &path)),
    };
    if workload == "prepare" {
        (0..KEYS).for_each(|number| calls.put(&key(number), &[b'v'; VALUE_SIZE]));
        calls.flush_and_compact();
        return;
    }
    if !writes {
        let read: usize = (0..KEYS).step_by(10).map(|number| calls.get_pinned(&key(number))).sum();
        assert!(read > 0, "the database was prepared");
    }
    let group = if workload == "multi_get" { GROUP } else { 1 };
    let keys = choose((WARM_UP + count) * group);
    let (warm_up, keys) = keys.split_at(WARM_UP * group);
    run(&mut *calls, workload, warm_up);
    let begun = Instant::now();
    let bytes = measured(&mut *calls, workload, keys);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{:.0} {bytes}", count as f64 / seconds);
}
