//! Checks that the real disk and the simulated one return the same results for the same calls.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::SimStorage;
use tailwater_io::{
    Create, DirectIo, FileLock, IoMode, Purpose, ReadFile, Result, Storage, WriteFile,
};
use tailwater_testkit::filesystem::{say, writes_directly};

const MODE: IoMode = IoMode::Buffered;
const PURPOSE: Purpose = Purpose::Metadata;

/// Runs the same test against both backends, the real disk and the simulated one, each in an empty
/// directory.
fn on_both(test: impl Fn(&dyn Storage, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    test(&PosixStorage::new(), directory.path());
    on_the_simulated_disk(test);
}

fn on_the_simulated_disk(test: impl Fn(&dyn Storage, &Path)) {
    let sim = SimStorage::new(1);
    sim.create_directory(Path::new("/base")).unwrap();
    test(&sim, Path::new("/base"));
}

fn kind<T>(answer: Result<T>) -> Option<ErrorKind> {
    answer.err().map(|error| error.source.kind())
}

fn put(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let mut file = storage.create(path, Create::Truncate, MODE, PURPOSE).unwrap();
    file.write_all_at(bytes, 0, PURPOSE).unwrap();
}

fn get(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, MODE, PURPOSE).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize + 1];
    let count = file.read_full_at(&mut bytes, 0, PURPOSE).unwrap();
    bytes.truncate(count);
    bytes
}

fn names(storage: &dyn Storage, directory: &Path) -> Vec<(String, bool)> {
    let entries = storage.list(directory).unwrap();
    entries.into_iter().map(|entry| (entry.name, entry.is_directory)).collect()
}

#[test]
fn creating() {
    on_both(|storage, base| {
        let path = base.join("file");
        assert_eq!(
            kind(storage.create(&path, Create::Existing, MODE, PURPOSE)),
            Some(ErrorKind::NotFound)
        );
        let mut file = storage.create(&path, Create::New, MODE, PURPOSE).unwrap();
        assert_eq!((file.path(), file.mode(), file.length().unwrap()), (path.as_path(), MODE, 0));
        assert_eq!(
            kind(storage.create(&path, Create::New, MODE, PURPOSE)),
            Some(ErrorKind::AlreadyExists)
        );
        assert_eq!(file.write_at(b"hello", 3, PURPOSE).unwrap(), 5);
        assert_eq!(get(storage, &path), b"\0\0\0hello");
        let mut kept = storage.create(&path, Create::Existing, MODE, PURPOSE).unwrap();
        kept.write_all_at(b"J", 3, PURPOSE).unwrap();
        assert_eq!(get(storage, &path), b"\0\0\0Jello");
        kept.truncate(4).unwrap();
        kept.truncate(6).unwrap();
        kept.allocate(0, 100_000).unwrap();
        kept.start_writeback(0, 4).unwrap();
        kept.start_writeback(0, 0).unwrap();
        kept.sync_data(PURPOSE).unwrap();
        kept.sync_all(PURPOSE).unwrap();
        assert_eq!(get(storage, &path), b"\0\0\0J\0\0");
        drop(storage.create(&path, Create::Truncate, MODE, PURPOSE).unwrap());
        assert_eq!(get(storage, &path), b"");
        assert_eq!(kept.length().unwrap(), 0);
    });
}

#[test]
fn reading() {
    on_both(|storage, base| {
        let path = base.join("file");
        assert_eq!(kind(storage.open(&path, MODE, PURPOSE)), Some(ErrorKind::NotFound));
        put(storage, &path, b"0123456789");
        let file = storage.open(&path, MODE, PURPOSE).unwrap();
        let mut buffer = [b'-'; 4];
        assert_eq!(file.read_at(&mut buffer, 8, PURPOSE).unwrap(), 2);
        assert_eq!(&buffer, b"89--");
        assert_eq!(file.read_at(&mut buffer, 10, PURPOSE).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, 1 << 40, PURPOSE).unwrap(), 0);
        assert_eq!(file.read_full_at(&mut buffer, 2, PURPOSE).unwrap(), 4);
        assert_eq!(&buffer, b"2345");
        assert_eq!(kind(storage.open(base, MODE, PURPOSE)), Some(ErrorKind::IsADirectory));
    });
}

#[test]
fn reading_whole_files() {
    on_both(|storage, base| {
        let path = base.join("file");
        assert_eq!(kind(storage.read_file(&path, 9, PURPOSE)), Some(ErrorKind::NotFound));
        assert_eq!(storage.read_if_exists(&path, 9, PURPOSE).unwrap(), None);
        put(storage, &path, b"0123456789");
        assert_eq!(storage.read_file(&path, u64::MAX, PURPOSE).unwrap(), b"0123456789");
        let start = storage.read_if_exists(&path, 9, PURPOSE).unwrap();
        assert_eq!(start.as_deref(), Some(&b"012345678"[..]));
    });
}

#[test]
fn renaming() {
    on_both(|storage, base| {
        let [a, b, directory] = ["a", "b", "directory"].map(|name| base.join(name));
        assert_eq!(kind(storage.rename(&a, &b)), Some(ErrorKind::NotFound));
        put(storage, &a, b"a");
        put(storage, &b, b"b");
        let old = storage.open(&b, MODE, PURPOSE).unwrap();
        storage.rename(&a, &b).unwrap();
        assert_eq!(
            (names(storage, base), get(storage, &b)),
            (vec![("b".into(), false)], b"a".into())
        );
        // A handle to the replaced file still reads the replaced file.
        let mut byte = [0];
        assert_eq!((old.read_full_at(&mut byte, 0, PURPOSE).unwrap(), byte), (1, *b"b"));
        storage.rename(&b, &b).unwrap();
        storage.create_directory(&directory).unwrap();
        assert_eq!(kind(storage.rename(&b, &directory)), Some(ErrorKind::IsADirectory));
        assert_eq!(kind(storage.rename(&directory, &b)), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(storage.rename(&b, &b.join("x"))), Some(ErrorKind::NotADirectory));
        storage.rename(&b, &directory.join("c")).unwrap();
        let moved = base.join("moved");
        storage.rename(&directory, &moved).unwrap();
        assert_eq!(get(storage, &moved.join("c")), b"a");
        storage.create_directory(&directory).unwrap();
        assert_eq!(kind(storage.rename(&directory, &moved)), Some(ErrorKind::DirectoryNotEmpty));
        assert_eq!(kind(storage.rename(&moved, &moved.join("d"))), Some(ErrorKind::InvalidInput));
        storage.rename(&moved, &directory).unwrap();
        assert_eq!(names(storage, base), [("directory".into(), true)]);
        // Both names refer to the same file. POSIX requires that rename then changes nothing.
        let (c, d) = (directory.join("c"), directory.join("d"));
        storage.link(&c, &d).unwrap();
        storage.rename(&c, &d).unwrap();
        assert_eq!(names(storage, &directory).len(), 2);
    });
}

#[test]
fn linking_and_removing() {
    on_both(|storage, base| {
        let [a, b, directory] = ["a", "b", "directory"].map(|name| base.join(name));
        assert_eq!(kind(storage.link(&a, &b)), Some(ErrorKind::NotFound));
        put(storage, &a, b"shared");
        storage.link(&a, &b).unwrap();
        assert_eq!(kind(storage.link(&a, &b)), Some(ErrorKind::AlreadyExists));
        storage
            .create(&b, Create::Existing, MODE, PURPOSE)
            .unwrap()
            .write_all_at(b"S", 0, PURPOSE)
            .unwrap();
        storage.create_directory(&directory).unwrap();
        assert_eq!(
            kind(storage.link(&directory, &base.join("x"))),
            Some(ErrorKind::PermissionDenied)
        );
        assert_eq!(kind(storage.remove(&directory)), Some(ErrorKind::IsADirectory));
        assert_eq!(kind(storage.remove_directory(&a)), Some(ErrorKind::NotADirectory));
        let open = storage.open(&a, MODE, PURPOSE).unwrap();
        storage.remove(&a).unwrap();
        assert_eq!(kind(storage.remove(&a)), Some(ErrorKind::NotFound));
        assert_eq!(get(storage, &b), b"Shared");
        storage.remove(&b).unwrap();
        let mut buffer = [0; 6];
        assert_eq!(open.read_full_at(&mut buffer, 0, PURPOSE).unwrap(), 6);
        put(storage, &directory.join("x"), b"");
        assert_eq!(kind(storage.remove_directory(&directory)), Some(ErrorKind::DirectoryNotEmpty));
        storage.remove(&directory.join("x")).unwrap();
        storage.remove_directory(&directory).unwrap();
        assert_eq!(kind(storage.remove_directory(&directory)), Some(ErrorKind::NotFound));
        assert!(names(storage, base).is_empty());
    });
}

#[test]
fn directories_and_metadata() {
    on_both(|storage, base| {
        let deep = base.join("one/two/three");
        storage.create_directory(&deep).unwrap();
        storage.create_directory(&deep).unwrap();
        put(storage, &deep.join("file"), b"12345");
        assert_eq!(
            kind(storage.create_directory(&deep.join("file"))),
            Some(ErrorKind::AlreadyExists)
        );
        assert_eq!(
            kind(storage.create_directory(&deep.join("file/x"))),
            Some(ErrorKind::NotADirectory)
        );
        for name in ["b", "c", "a"] {
            put(storage, &base.join(name), b"");
        }
        let listed = [("a", false), ("b", false), ("c", false), ("one", true)];
        assert_eq!(names(storage, base), listed.map(|(name, is)| (name.to_owned(), is)));
        let file = storage.metadata(&deep.join("file")).unwrap();
        assert_eq!((file.length, file.is_directory), (5, false));
        assert!(file.modified_us > 1_600_000_000_000_000);
        let directory = storage.metadata(&deep).unwrap();
        assert_eq!((directory.length, directory.is_directory), (0, true));
        assert_eq!(kind(storage.metadata(&base.join("x"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.metadata(&base.join("a/x"))), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(storage.list(&base.join("a"))), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(storage.list(&base.join("x"))), Some(ErrorKind::NotFound));
        storage.sync_directory(&deep).unwrap();
        assert_eq!(kind(storage.sync_directory(&base.join("a"))), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(storage.sync_directory(&base.join("x"))), Some(ErrorKind::NotFound));
    });
}

#[test]
fn paths_through_a_missing_directory_or_a_file_are_refused() {
    on_both(|storage, base| {
        let (file, missing) = (base.join("file"), base.join("missing/x"));
        put(storage, &file, b"f");
        for (place, expected) in
            [(missing, ErrorKind::NotFound), (file.join("x"), ErrorKind::NotADirectory)]
        {
            let expected = Some(expected);
            assert_eq!(kind(storage.open(&place, MODE, PURPOSE)), expected);
            for create in [Create::New, Create::Truncate, Create::Existing] {
                assert_eq!(kind(storage.create(&place, create, MODE, PURPOSE)), expected);
            }
            assert_eq!(kind(storage.rename(&file, &place)), expected);
            assert_eq!(kind(storage.rename(&place, &file)), expected);
            assert_eq!(kind(storage.link(&file, &place)), expected);
            assert_eq!(kind(storage.link(&place, &base.join("new"))), expected);
            assert_eq!(kind(storage.remove(&place)), expected);
            assert_eq!(kind(storage.remove_directory(&place)), expected);
            assert_eq!(kind(storage.lock(&place)), expected);
            assert_eq!(kind(storage.capabilities(&place)), expected);
        }
        assert_eq!(get(storage, &file), b"f");
    });
}

#[test]
fn files_stay_open_while_their_directories_move() {
    on_both(|storage, base| {
        let [one, two] = ["one", "two"].map(|name| base.join(name));
        storage.create_directory(&one.join("inner")).unwrap();
        let path = one.join("inner/file");
        let mut file = storage.create(&path, Create::New, MODE, PURPOSE).unwrap();
        file.write_all_at(b"before", 0, PURPOSE).unwrap();
        let reader = storage.open(&path, MODE, PURPOSE).unwrap();
        let lock = storage.lock(&one.join("LOCK")).unwrap();
        storage.rename(&one, &two).unwrap();
        file.write_all_at(b"B", 0, PURPOSE).unwrap();
        file.sync_data(PURPOSE).unwrap();
        assert_eq!(get(storage, &two.join("inner/file")), b"Before");
        let mut buffer = [0; 6];
        assert_eq!(reader.read_full_at(&mut buffer, 0, PURPOSE).unwrap(), 6);
        assert_eq!((&buffer, file.path()), (b"Before", path.as_path()));
        // The directory was renamed, so the path through which the handle was opened no longer
        // exists.
        assert_eq!(kind(storage.sync_directory(&one)), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.open(&path, MODE, PURPOSE)), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.lock(&two.join("LOCK"))), Some(ErrorKind::WouldBlock));
        // A new directory at the old path is independent of the renamed one.
        storage.create_directory(&one.join("inner")).unwrap();
        put(storage, &path, b"other");
        drop(storage.lock(&one.join("LOCK")).unwrap());
        assert_eq!(get(storage, &two.join("inner/file")), b"Before");
        drop(lock);
        drop(storage.lock(&two.join("LOCK")).unwrap());
    });
}

#[test]
fn locks_are_of_files_and_not_of_names() {
    on_both(|storage, base| {
        let [path, other, more] = ["LOCK", "OTHER", "MORE"].map(|name| base.join(name));
        let lock = storage.lock(&path).unwrap();
        storage.link(&path, &other).unwrap();
        assert_eq!(kind(storage.lock(&other)), Some(ErrorKind::WouldBlock));
        // Reading the locked file opens and closes another handle. That must not release the lock.
        assert_eq!(get(storage, &other), b"");
        assert_eq!(kind(storage.lock(&path)), Some(ErrorKind::WouldBlock));
        storage.rename(&path, &more).unwrap();
        assert_eq!(kind(storage.lock(&more)), Some(ErrorKind::WouldBlock));
        let second = storage.lock(&path).unwrap();
        storage.remove(&more).unwrap();
        storage.remove(&other).unwrap();
        // The file that was locked first has no name any more, so a new file at `other` can be
        // locked.
        let third = storage.lock(&other).unwrap();
        drop((lock, second));
        assert_eq!(kind(storage.lock(&other)), Some(ErrorKind::WouldBlock));
        drop(third);
    });
}

#[test]
fn names_and_offsets_have_bounds() {
    on_both(|storage, base| {
        let long = base.join("x".repeat(255));
        put(storage, &long, b"long");
        assert_eq!(get(storage, &long), b"long");
        let longer = base.join("x".repeat(256));
        let expected = Some(ErrorKind::InvalidFilename);
        assert_eq!(kind(storage.open(&longer, MODE, PURPOSE)), expected);
        assert_eq!(kind(storage.create(&longer, Create::New, MODE, PURPOSE)), expected);
        assert_eq!(kind(storage.create_directory(&longer)), expected);
        assert_eq!(kind(storage.rename(&long, &longer)), expected);
        assert_eq!(kind(storage.link(&long, &longer)), expected);
        assert_eq!(kind(storage.metadata(&longer.join("y"))), expected);
        let nul = base.join("a\0b");
        let expected = Some(ErrorKind::InvalidInput);
        assert_eq!(kind(storage.open(&nul, MODE, PURPOSE)), expected);
        assert_eq!(kind(storage.create(&nul, Create::New, MODE, PURPOSE)), expected);

        let mut file = storage.create(&long, Create::Existing, MODE, PURPOSE).unwrap();
        let reader = storage.open(&long, MODE, PURPOSE).unwrap();
        for offset in [1 << 63, u64::MAX] {
            assert_eq!(kind(reader.read_at(&mut [0], offset, PURPOSE)), expected);
            assert_eq!(kind(file.write_at(b"x", offset, PURPOSE)), expected);
            assert_eq!(kind(file.write_durably_at(b"x", offset, PURPOSE)), expected);
            assert_eq!(kind(file.truncate(offset)), expected);
        }
        assert_eq!(get(storage, &long), b"long");
    });
}

#[test]
fn locking() {
    on_both(|storage, base| {
        let path = base.join("LOCK");
        let lock = storage.lock(&path).unwrap();
        assert_eq!(kind(storage.lock(&path)), Some(ErrorKind::WouldBlock));
        // Opening and closing another handle to the file must not release the lock.
        assert_eq!(get(storage, &path), b"");
        drop(storage.create(&path, Create::Existing, MODE, PURPOSE).unwrap());
        assert_eq!(kind(storage.lock(&path)), Some(ErrorKind::WouldBlock));
        drop(lock);
        drop(storage.lock(&path).unwrap());
        assert_eq!(kind(storage.lock(base)), Some(ErrorKind::IsADirectory));
        assert_eq!(kind(storage.lock(&base.join("x/LOCK"))), Some(ErrorKind::NotFound));
    });
}

#[test]
fn direct_transfers_are_aligned() {
    let directory = tempfile::tempdir().unwrap();
    // Transfers that go through the page cache need no alignment.
    if writes_directly(directory.path(), "the alignment of direct transfers on the real disk") {
        check_direct_transfers(&PosixStorage::new(), directory.path());
    }
    on_the_simulated_disk(check_direct_transfers);
}

fn check_direct_transfers(storage: &dyn Storage, base: &Path) {
    let path = base.join("direct");
    let mut file = storage.create(&path, Create::New, IoMode::Direct, PURPOSE).unwrap();
    let mut buffer = AlignedBuffer::with_capacity(3 * 4096);
    buffer.append(&[5; 3 * 4096]);
    file.write_all_at(&buffer[..8192], 0, PURPOSE).unwrap();
    file.write_durably_at(&buffer[..4096], 4096, PURPOSE).unwrap();
    assert_eq!(kind(file.write_durably_at(&buffer, 7, PURPOSE)), Some(ErrorKind::InvalidInput));
    file.truncate(6000).unwrap();
    let read = storage.open(&path, IoMode::Direct, PURPOSE).unwrap();
    assert_eq!(read.mode(), IoMode::Direct);
    assert_eq!(read.read_at(&mut buffer, 0, PURPOSE).unwrap(), 6000);
    assert_eq!(read.read_full_at(&mut buffer, 4096, PURPOSE).unwrap(), 1904);
    assert_eq!(read.read_full_at(&mut buffer, 8192, PURPOSE).unwrap(), 0);
    // In direct I/O, all filesystems refuse these lengths and offsets, which are not multiples of
    // any block size.
    assert_eq!(kind(read.read_at(&mut buffer[..4095], 0, PURPOSE)), Some(ErrorKind::InvalidInput));
    assert_eq!(kind(read.read_at(&mut buffer, 1, PURPOSE)), Some(ErrorKind::InvalidInput));
    assert_eq!(kind(file.write_at(&buffer[..100], 0, PURPOSE)), Some(ErrorKind::InvalidInput));
    assert_eq!(kind(file.write_at(&buffer, 77, PURPOSE)), Some(ErrorKind::InvalidInput));
}

/// Makes random calls on one backend and records every result, to compare the backends.
struct Script<'a> {
    storage: &'a dyn Storage,
    base: PathBuf,
    random: fastrand::Rng,
    writers: Vec<Box<dyn WriteFile>>,
    readers: Vec<Arc<dyn ReadFile>>,
    locks: Vec<Box<dyn FileLock>>,
    answers: Vec<String>,
}

impl Script<'_> {
    fn path(&mut self) -> PathBuf {
        let directory = self.random.choice(["", "", "d", "d/e", "a"]).unwrap();
        let name = self.random.choice(["a", "b", "c", "d", "e"]).unwrap();
        self.base.join(directory).join(name)
    }

    fn directory(&mut self) -> PathBuf {
        self.base.join(self.random.choice(["", "d", "d/e", "a"]).unwrap())
    }

    fn note<T>(
        &mut self,
        call: String,
        answer: Result<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let text = match &answer {
            Ok(value) => show(value),
            Err(error) => format!("{:?} {:?}", error.operation, error.source.kind()),
        };
        let call = call.replace(&*self.base.to_string_lossy(), "");
        self.answers.push(format!("{call} -> {text}"));
        answer.ok()
    }

    fn step(&mut self) {
        match self.random.u8(..16) {
            0 | 1 => {
                let path = self.path();
                let create =
                    self.random.choice([Create::New, Create::Truncate, Create::Existing]).unwrap();
                let answer = self.storage.create(&path, create, MODE, PURPOSE);
                let call = format!("create {path:?} {create:?}");
                let file = self.note(call, answer, |_| "file".into());
                self.writers.extend(file);
            }
            2 => {
                let path = self.path();
                let answer = self.storage.open(&path, MODE, PURPOSE);
                let file = self.note(format!("open {path:?}"), answer, |_| "file".into());
                self.readers.extend(file);
            }
            3..=5 => self.step_writer(),
            6 | 7 => self.step_reader(),
            8 => {
                let (from, to) = (self.path(), self.path());
                let answer = self.storage.rename(&from, &to);
                self.note(format!("rename {from:?} {to:?}"), answer, |()| "done".into());
            }
            9 => {
                let (from, to) = (self.path(), self.path());
                let answer = self.storage.link(&from, &to);
                self.note(format!("link {from:?} {to:?}"), answer, |()| "done".into());
            }
            10 => {
                let path = self.path();
                let answer = self.storage.remove(&path);
                self.note(format!("remove {path:?}"), answer, |()| "done".into());
            }
            11 => {
                let path = self.path();
                let answer = self.storage.create_directory(&path);
                self.note(format!("create directory {path:?}"), answer, |()| "done".into());
            }
            12 => {
                let path = self.directory();
                let answer = self.storage.list(&path);
                self.note(format!("list {path:?}"), answer, |names| format!("{names:?}"));
            }
            13 => {
                let path = self.path();
                let answer = self.storage.metadata(&path);
                self.note(format!("stat {path:?}"), answer, |there| {
                    format!("{} {}", there.length, there.is_directory)
                });
            }
            14 => self.step_lock(),
            _ => {
                let path = self.directory();
                let answer = if self.random.bool() {
                    self.storage.remove_directory(&path)
                } else {
                    self.storage.sync_directory(&path)
                };
                self.note(format!("directory {path:?}"), answer, |()| "done".into());
            }
        }
    }

    fn step_writer(&mut self) {
        if self.writers.is_empty() {
            return;
        }
        let index = self.random.usize(..self.writers.len());
        let offset = self.random.u64(..3000);
        let length = self.random.usize(..2000);
        let bytes = vec![self.random.u8(..); length];
        let file = &mut self.writers[index];
        let (name, answer) = match self.random.u8(..9) {
            0..=3 => ("write", file.write_at(&bytes, offset, PURPOSE)),
            8 => ("durable", file.write_durably_at(&bytes, offset, PURPOSE).map(|()| 0)),
            4 => ("truncate", file.truncate(offset).map(|()| 0)),
            5 => ("sync", file.sync_data(PURPOSE).map(|()| 0)),
            6 => ("length", file.length().map(|length| length as usize)),
            _ => {
                drop(self.writers.swap_remove(index));
                return;
            }
        };
        self.note(format!("{name} {index} {offset} {length}"), answer, usize::to_string);
    }

    fn step_reader(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let index = self.random.usize(..self.readers.len());
        let offset = self.random.u64(..4000);
        let mut buffer = vec![0; self.random.usize(..3000)];
        if self.random.u8(..10) == 0 {
            self.readers.swap_remove(index);
            return;
        }
        let answer = self.readers[index].read_full_at(&mut buffer, offset, PURPOSE);
        self.note(format!("read {index} {offset}"), answer, |count| {
            format!("{count} {:?}", &buffer[..*count])
        });
    }

    fn step_lock(&mut self) {
        if self.random.bool() && !self.locks.is_empty() {
            self.locks.swap_remove(self.random.usize(..self.locks.len()));
            return;
        }
        let path = self.base.join("a");
        let answer = self.storage.lock(&path);
        let lock = self.note(format!("lock {path:?}"), answer, |_| "lock".into());
        self.locks.extend(lock);
    }
}

fn run_script(storage: &dyn Storage, base: &Path, seed: u64) -> Vec<String> {
    let mut script = Script {
        storage,
        base: base.to_owned(),
        random: fastrand::Rng::with_seed(seed),
        writers: Vec::new(),
        readers: Vec::new(),
        locks: Vec::new(),
        answers: Vec::new(),
    };
    for _ in 0..400 {
        script.step();
    }
    script.answers
}

#[test]
fn random_calls_return_the_same_on_both() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 40 {
        let directory = tempfile::tempdir().unwrap();
        let real = run_script(&PosixStorage::new(), directory.path(), seed);
        let sim = SimStorage::new(seed);
        sim.create_directory(Path::new("/base")).unwrap();
        let simulated = run_script(&sim, Path::new("/base"), seed);
        for (step, (real, simulated)) in real.iter().zip(&simulated).enumerate() {
            assert_eq!(real, simulated, "answer {step} of seed {seed}");
        }
        assert_eq!(real.len(), simulated.len(), "seed {seed}");
    }
}

#[test]
fn a_filesystem_says_what_it_can_do() {
    let sim = SimStorage::new(1);
    let directory = Path::new("/db");
    sim.create_directory(directory).unwrap();
    let file = directory.join("file");
    sim.create(&file, Create::New, IoMode::Buffered, Purpose::Metadata).unwrap();
    assert_eq!(sim.capabilities(directory).unwrap().direct_io, DirectIo::Unknown);
    assert_eq!(sim.capabilities(&file).unwrap().direct_io, DirectIo::Aligned(4096));
    sim.refuse_direct(directory);
    assert_eq!(sim.capabilities(&file).unwrap().direct_io, DirectIo::Refused);
    assert!(sim.capabilities(&directory.join("none")).unwrap_err().is_not_found());

    // What the real filesystem reports about direct I/O must match whether a direct open succeeds.
    let posix = PosixStorage::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    posix.create(&file, Create::New, IoMode::Buffered, Purpose::Metadata).unwrap();
    let said = posix.capabilities(&file).unwrap();
    let opened = posix.open(&file, IoMode::Direct, Purpose::UserRead);
    match said.direct_io {
        DirectIo::Aligned(alignment) => assert!(alignment.is_power_of_two() && opened.is_ok()),
        DirectIo::Refused => assert!(opened.is_err_and(|error| error.is_unsupported())),
        DirectIo::Unknown => {
            let filesystem = said.filesystem;
            say(&format!("LEFT OUT: capabilities: {filesystem} does not report direct I/O"));
        }
        other => panic!("{other:?}"),
    }
}

/// Runs the same test against both backends. The test also receives a function that creates a
/// symbolic link.
fn on_both_with_links(test: impl Fn(&dyn Storage, &Path, &dyn Fn(&str, &Path))) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    test(&PosixStorage::new(), &base, &|target, path| {
        std::os::unix::fs::symlink(target, path).unwrap();
    });
    let sim = SimStorage::new(1);
    sim.create_directory(Path::new("/base")).unwrap();
    test(&sim, Path::new("/base"), &|target, path| {
        sim.create_symbolic_link(Path::new(target), path).unwrap();
    });
}

#[test]
fn every_path_to_a_file_has_one_identity() {
    on_both_with_links(|storage, base, link| {
        storage.create_directory(&base.join("a/b")).unwrap();
        put(storage, &base.join("a/b/file"), b"x");
        link("a/b", &base.join("relative"));
        link("../a", &base.join("a/above"));
        link(base.join("a").to_str().unwrap(), &base.join("absolute"));
        link("file", &base.join("a/b/to-file"));
        let is = |path: &str| storage.identity(&base.join(path)).unwrap();
        for path in
            ["relative", "absolute/b", "a/b/", "a/./b", "a/b/../b", "a/above/b", "relative/../b"]
        {
            assert_eq!(is(path), is("a/b"), "{path}");
            let canonical = storage.canonical_path(&base.join(path)).unwrap();
            assert_eq!(canonical, base.join("a/b"), "{path}");
        }
        assert_eq!(is("relative/to-file"), is("a/b/file"));
        assert_ne!(is("a"), is("a/b"));
        storage.link(&base.join("relative/to-file"), &base.join("second")).unwrap();
        assert_eq!(is("second"), is("a/b/file"));
        let before = is("a/b/file");
        storage.rename(&base.join("a/b/file"), &base.join("renamed")).unwrap();
        assert_eq!(is("renamed"), before);
        assert_eq!(kind(storage.identity(&base.join("nothing"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(storage.canonical_path(&base.join("nothing"))), Some(ErrorKind::NotFound));
    });
}

#[test]
fn symbolic_links_lead_where_they_point() {
    on_both_with_links(|storage, base, link| {
        storage.create_directory(&base.join("there")).unwrap();
        link("there", &base.join("link"));
        link("nowhere", &base.join("dangling"));
        link("loop", &base.join("loop"));
        put(storage, &base.join("link/file"), b"x");
        assert_eq!(get(storage, &base.join("there/file")), b"x");
        assert_eq!(names(storage, &base.join("link")), [("file".to_owned(), false)]);
        storage.sync_directory(&base.join("link")).unwrap();
        storage.create_directory(&base.join("link/inner/most")).unwrap();
        assert!(storage.metadata(&base.join("there/inner/most")).unwrap().is_directory);
        let listed = names(storage, base);
        let expected = [("dangling", false), ("link", true), ("loop", false), ("there", true)];
        assert_eq!(listed, expected.map(|(name, is_directory)| (name.to_owned(), is_directory)));
        assert_eq!(kind(storage.metadata(&base.join("dangling"))), Some(ErrorKind::NotFound));
        assert!(storage.metadata(&base.join("loop")).is_err());
        assert!(storage.list(&base.join("loop/x")).is_err());
        assert_eq!(
            kind(storage.create_directory(&base.join("dangling"))),
            Some(ErrorKind::AlreadyExists)
        );
        // Creating a file at a dangling link creates the link's target, except with `Create::New`.
        assert_eq!(
            kind(storage.create(&base.join("dangling"), Create::New, MODE, PURPOSE)),
            Some(ErrorKind::AlreadyExists)
        );
        put(storage, &base.join("dangling"), b"y");
        assert_eq!(get(storage, &base.join("nowhere")), b"y");
        // Removing or renaming a link affects the link itself, not its target.
        assert!(storage.remove_directory(&base.join("link")).is_err());
        storage.rename(&base.join("link"), &base.join("renamed")).unwrap();
        assert_eq!(get(storage, &base.join("renamed/file")), b"x");
        storage.remove(&base.join("renamed")).unwrap();
        assert_eq!(get(storage, &base.join("there/file")), b"x");
        storage.remove(&base.join("dangling")).unwrap();
        assert_eq!(get(storage, &base.join("nowhere")), b"y");
        let place = storage.lock(&base.join("there/LOCK")).unwrap();
        link("there", &base.join("again"));
        assert_eq!(kind(storage.lock(&base.join("again/LOCK"))), Some(ErrorKind::WouldBlock));
        drop(place);
    });
}

#[test]
fn relative_paths_begin_in_the_working_directory() {
    let sim = SimStorage::new(1);
    sim.create_directory(Path::new("/a/b")).unwrap();
    put(&sim, Path::new("a/file"), b"root");
    sim.set_working_directory(Path::new("a")).unwrap();
    assert_eq!(get(&sim, Path::new("file")), b"root");
    sim.set_working_directory(Path::new("b")).unwrap();
    assert_eq!(get(&sim, Path::new("../file")), b"root");
    assert_eq!(sim.canonical_path(Path::new(".")).unwrap(), Path::new("/a/b"));
    assert_eq!(kind(sim.set_working_directory(Path::new("c"))), Some(ErrorKind::NotFound));
    // In a new process, relative paths begin at the root again.
    assert_eq!(get(&sim.process_crash_image(1), Path::new("a/file")), b"root");
}
