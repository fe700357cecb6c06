//! Checks that short reads and writes are continued until the transfer is complete. If a transfer
//! makes no progress, it must fail and not loop.

use std::io::ErrorKind;
use std::path::Path;

use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Error, IoMode, Operation, Purpose, ReadFile, Result, WriteFile};

/// A file of `length` bytes that transfers at most `step` bytes in one call.
#[derive(Debug)]
struct Reluctant {
    length: u64,
    step: usize,
    mode: IoMode,
}

impl ReadFile for Reluctant {
    fn read_at(&self, buffer: &mut [u8], offset: u64, _purpose: Purpose) -> Result<usize> {
        let there = self.length.saturating_sub(offset) as usize;
        Ok(buffer.len().min(self.step).min(there))
    }

    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn path(&self) -> &Path {
        Path::new("/reluctant")
    }

    fn mode(&self) -> IoMode {
        self.mode
    }
}

impl WriteFile for Reluctant {
    fn write_at(&mut self, bytes: &[u8], _offset: u64, _purpose: Purpose) -> Result<usize> {
        Ok(bytes.len().min(self.step))
    }

    fn sync_data(&mut self, _purpose: Purpose) -> Result<()> {
        Ok(())
    }

    fn sync_all(&mut self, _purpose: Purpose) -> Result<()> {
        Ok(())
    }

    fn truncate(&mut self, _length: u64) -> Result<()> {
        Ok(())
    }

    fn allocate(&mut self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn start_writeback(&mut self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn path(&self) -> &Path {
        Path::new("/reluctant")
    }

    fn mode(&self) -> IoMode {
        self.mode
    }
}

fn file(step: usize, mode: IoMode) -> Reluctant {
    Reluctant { length: 20_000, step, mode }
}

fn buffer() -> AlignedBuffer {
    let mut buffer = AlignedBuffer::with_capacity(5 * 4096);
    buffer.set_length(5 * 4096);
    buffer
}

#[test]
fn short_transfers_are_resumed_to_the_end() {
    for step in [1, 1000, 5000, 100_000] {
        let mut file = file(step, IoMode::Buffered);
        assert_eq!(file.read_full_at(&mut buffer(), 0, Purpose::UserRead).unwrap(), 20_000);
        assert_eq!(file.read_full_at(&mut buffer(), 19_999, Purpose::UserRead).unwrap(), 1);
        assert_eq!(file.read_full_at(&mut buffer(), 20_000, Purpose::UserRead).unwrap(), 0);
        file.write_all_at(&buffer(), 0, Purpose::Wal).unwrap();
    }
    // A direct transfer can stop anywhere in a block. It then continues from the start of that
    // block.
    for step in [4097, 5000, 100_000] {
        let mut file = file(step, IoMode::Direct);
        assert_eq!(file.read_full_at(&mut buffer(), 0, Purpose::UserRead).unwrap(), 20_000);
        file.write_all_at(&buffer(), 0, Purpose::Wal).unwrap();
    }
}

#[test]
fn transfers_without_progress_are_errors() {
    let place = |error: Error| (error.operation, error.offset, error.source.kind());
    let error = file(0, IoMode::Buffered).write_all_at(&buffer(), 7, Purpose::Wal).unwrap_err();
    assert_eq!(place(error), (Operation::Write, Some(7), ErrorKind::WriteZero));
    let error = file(512, IoMode::Direct).write_all_at(&buffer(), 0, Purpose::Wal).unwrap_err();
    assert_eq!(place(error), (Operation::Write, Some(512), ErrorKind::WriteZero));
    let stuck = file(512, IoMode::Direct);
    let error = stuck.read_full_at(&mut buffer(), 4096, Purpose::UserRead).unwrap_err();
    assert_eq!(place(error), (Operation::Read, Some(4608), ErrorKind::UnexpectedEof));
}

#[test]
fn errors_name_operation_path_and_offset() {
    let error = Error::at(Operation::Write, Path::new("/db/1.log"), 4096, ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("cannot write /db/1.log at offset 4096: "), "{error}");
    assert!(error.is_no_space() && !error.is_not_found() && !error.is_unsupported());
    assert_eq!(error.duplicate().to_string(), error.to_string());
    let missing = Error::new(Operation::Open, Path::new("x"), std::io::Error::from_raw_os_error(2));
    assert!(missing.is_not_found() && missing.duplicate().is_not_found());
    assert_eq!(missing.duplicate().source.raw_os_error(), Some(2));
}
