//! Copies databases: by reflink where the filesystem supports it, and otherwise with direct I/O, so
//! that a copy does not fill the page cache.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags};
use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer, align_up};
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

use super::source::DESCRIPTION;
use super::units::Bytes;
use crate::failure::Failure;
use crate::own::MARK;

/// Number of files that are copied concurrently.
const THREADS: usize = 4;
/// Number of bytes that are copied with one read and one write.
const CHUNK: usize = 4 << 20;

/// Files that are not copied although they are in a source database's directory.
const NOT_COPIED: [&str; 3] = ["LOCK", MARK, DESCRIPTION];

/// How a database was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// All files of the copy share their extents with the source.
    Reflinked,
    /// The bytes of at least one file were copied.
    Bytes,
}

/// Copies all files of the database in `from` into the directory `to`, which must exist and must
/// not contain any of these files.
pub(super) fn copy_database(from: &Path, to: &Path) -> Result<Copied, Failure> {
    let storage = PosixStorage::new();
    let names: Vec<String> = storage
        .list(from)?
        .into_iter()
        .filter(|entry| !entry.is_directory && !NOT_COPIED.contains(&entry.name.as_str()))
        .map(|entry| entry.name)
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Copied, Failure> {
        let mut how = Copied::Reflinked;
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (from, to) = (from.join(name), to.join(name));
            if !reflink(&from, &to)? {
                copy_file(&storage, &from, &to)?;
                how = Copied::Bytes;
            }
        }
        Ok(how)
    };
    let outcomes: Vec<Result<Copied, Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|outcome| outcome.unwrap_or_else(|_| Err("copying panicked".into()))).collect()
    });
    let how = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    storage.sync_directory(to)?;
    Ok(if how.contains(&Copied::Bytes) { Copied::Bytes } else { Copied::Reflinked })
}

/// Creates `to`, and tries to make it share the extents of `from`. Returns whether that succeeded.
/// If not, `to` is left empty.
fn reflink(from: &Path, to: &Path) -> Result<bool, Failure> {
    let named = |path: &Path, error| format!("{}: {}", path.display(), io::Error::from(error));
    let source = rustix::fs::open(from, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| named(from, error))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let copy = rustix::fs::open(to, flags, Mode::from(0o644)).map_err(|error| named(to, error))?;
    // Ignore the error: if it is not just missing support, copying the bytes will fail with a more
    // precise one.
    Ok(rustix::fs::ioctl_ficlone(&copy, &source).is_ok())
}

/// Copies the bytes of a file into an existing, empty file.
fn copy_file(storage: &PosixStorage, from: &Path, to: &Path) -> Result<(), Failure> {
    let purpose = Purpose::Checkpoint;
    let mode = match storage.open(from, IoMode::Direct, purpose) {
        Ok(_) => IoMode::Direct,
        Err(error) if error.is_unsupported() => IoMode::Buffered,
        Err(error) => return Err(error.into()),
    };
    let source = storage.open(from, mode, purpose)?;
    let mut copy = storage.create(to, Create::Existing, mode, purpose)?;
    let length = source.length()?;
    copy.allocate(0, length)?;
    let mut buffer = AlignedBuffer::with_capacity(CHUNK);
    let mut offset = 0;
    while offset < length {
        buffer.set_length(CHUNK);
        let count = source.read_full_at(&mut buffer[..], offset, purpose)?;
        if count == 0 {
            return Err(format!("{}: it was truncated while it was copied", from.display()).into());
        }
        let padded = align_up(count as u64) as usize;
        debug_assert!(padded <= CHUNK && padded.is_multiple_of(ALIGNMENT));
        copy.write_all_at(&buffer[..padded], offset, purpose)?;
        offset += count as u64;
    }
    copy.truncate(length)?;
    Ok(copy.sync_data(purpose)?)
}

/// Checks that a filesystem has at least `needed` bytes free.
///
/// # Errors
/// If it has less. The message states the required space, and `why` it is needed.
pub(super) fn check_free_space(directory: &Path, needed: u64, why: &str) -> Result<(), Failure> {
    let system = rustix::fs::statvfs(directory)
        .map_err(|error| format!("{}: {}", directory.display(), io::Error::from(error)))?;
    let free = system.f_bavail * system.f_frsize;
    if free >= needed {
        return Ok(());
    }
    Err(format!(
        "{} has {} free, but {} are needed: {why}; choose another directory with --directory, or a \
         smaller database with --size",
        directory.display(),
        Bytes(free),
        Bytes(needed)
    )
    .into())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "creates files to copy")]
mod tests {
    use tailwater_testkit::filesystem::Mounted;

    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        std::fs::create_dir(&from).unwrap();
        let lengths = [0, 1, 4096, 5000, CHUNK, CHUNK + 4097];
        for length in lengths {
            let bytes: Vec<u8> = (0..length).map(|_| fastrand::u8(..)).collect();
            std::fs::write(from.join(length.to_string()), bytes).unwrap();
        }
        std::fs::write(from.join("LOCK"), "").unwrap();
        std::fs::create_dir(&to).unwrap();
        copy_database(&from, &to).unwrap();
        for length in lengths {
            let [ours, theirs] = [&from, &to].map(|d| std::fs::read(d.join(length.to_string())));
            assert!(ours.unwrap() == theirs.unwrap(), "{length}");
        }
        assert!(!to.join("LOCK").exists());
    }

    #[test]
    fn copies_share_their_bytes_where_the_filesystem_can() {
        let bytes: Vec<u8> = (0..1 << 20).map(|_| fastrand::u8(..)).collect();
        for (kind, size, how) in [
            ("ext4", 64 << 20, Copied::Bytes),
            ("xfs", 512 << 20, Copied::Reflinked),
            ("btrfs", 256 << 20, Copied::Reflinked),
        ] {
            let left_out = format!("copies of databases on {kind}");
            let Some(disk) = Mounted::new(kind, size, &left_out) else { continue };
            let (from, to) = (disk.path().join("from"), disk.path().join("to"));
            std::fs::create_dir(&from).unwrap();
            std::fs::create_dir(&to).unwrap();
            std::fs::write(from.join("file"), &bytes).unwrap();
            assert_eq!(copy_database(&from, &to).unwrap(), how, "{kind}");
            assert!(std::fs::read(to.join("file")).unwrap() == bytes, "{kind}");
        }
    }

    #[test]
    fn too_little_space_is_reported_in_advance() {
        let error = check_free_space(Path::new("/"), u64::MAX / 2, "a copy").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("--directory") && text.contains("a copy"), "{text}");
    }
}
