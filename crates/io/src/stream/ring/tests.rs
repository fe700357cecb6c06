//! Tests of rings on which the kernel stops accepting requests. They are skipped where io_uring is
//! not allowed.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::*;
use crate::buffer::BufferPool;
use crate::purpose::Purpose;
use crate::storage::ReadFile;
use crate::stream::span::Plan;

const REQUEST: usize = 4096;

/// A pipe used as a file. A read request on it completes when bytes are written to the pipe.
#[derive(Debug)]
struct Pipe(OwnedFd);

impl ReadFile for Pipe {
    fn read_at(&self, buffer: &mut [u8], _: u64, _: Purpose) -> crate::Result<usize> {
        rustix::io::read(&self.0, buffer)
            .map_err(|error| Error::at(Operation::Read, self.path(), 0, error))
    }

    fn length(&self) -> crate::Result<u64> {
        Ok(u64::MAX)
    }

    fn path(&self) -> &Path {
        Path::new("pipe")
    }

    fn mode(&self) -> IoMode {
        IoMode::Buffered
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// Returns a ring, a source of eight requests that read from a pipe, the writing end of the pipe,
/// and a pool of buffers. `None` if io_uring is not allowed.
fn set_up() -> Option<(RingRequests, Arc<Source>, OwnedFd, BufferPool)> {
    let ring = RingRequests::new()?;
    let (reading, writing) = io::pipe().unwrap();
    let (reading, writing) = (OwnedFd::from(reading), OwnedFd::from(writing));
    let plan = Plan::new(0..8 * REQUEST as u64, REQUEST, REQUEST);
    let source = Source { file: Arc::new(Pipe(reading)), plan, purpose: Purpose::Verification };
    Some((ring, Arc::new(source), writing, BufferPool::new(16 * REQUEST)))
}

/// Makes every later call on the ring fail, by replacing its descriptor. Requests that the kernel
/// has already accepted continue.
fn break_ring(ring: &RingRequests) {
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
    // SAFETY: the ring owns the descriptor, keeps it open and closes it.
    let mut descriptor = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ring.ring.as_raw_fd()) });
    rustix::io::dup2(&null, &mut descriptor).unwrap();
}

/// Regression test: after `io_uring_enter` had failed permanently, the stream called it again in an
/// endless loop.
#[test]
fn requests_refused_by_a_failing_ring_fall_back_to_plain_reads() {
    let Some((mut ring, source, writing, pool)) = set_up() else { return };
    break_ring(&ring);
    for index in 0..3 {
        ring.submit(&source, index, pool.try_acquire(REQUEST).unwrap());
    }
    assert!(ring.is_given_up);
    for index in 0..3 {
        assert_eq!(rustix::io::write(&writing, &[index; REQUEST]).unwrap(), REQUEST);
        let chunk = ring.wait();
        assert_eq!((chunk.index, chunk.error.is_none()), (u64::from(index), true));
        assert!(chunk.buffer[..] == [index; REQUEST]);
    }
}

#[test]
fn requests_in_flight_complete_although_the_ring_fails() {
    let Some((mut ring, source, writing, pool)) = set_up() else { return };
    ring.submit(&source, 0, pool.try_acquire(REQUEST).unwrap());
    break_ring(&ring);
    ring.submit(&source, 1, pool.try_acquire(REQUEST).unwrap());
    assert_eq!((ring.pending.len(), ring.left.len()), (1, 1));
    ring.left.clear();
    assert_eq!(rustix::io::write(&writing, &[7; REQUEST]).unwrap(), REQUEST);
    let chunk = ring.wait();
    assert_eq!((chunk.index, chunk.error.is_none()), (0, true));
    assert!(chunk.buffer[..] == [7; REQUEST]);
}

/// Regression test: the completion of a request that had already failed, because its completion had
/// not arrived in time, panicked.
#[test]
fn a_completion_that_arrives_after_its_request_has_failed_is_ignored() {
    let Some((mut ring, source, writing, pool)) = set_up() else { return };
    for index in 0..2 {
        ring.submit(&source, index, pool.try_acquire(REQUEST).unwrap());
    }
    break_ring(&ring);
    ring.enter(0);
    ring.polls_left = 3;
    assert!(ring.wait().error.is_some());
    for _ in 0..2 {
        assert_eq!(rustix::io::write(&writing, &[7; REQUEST]).unwrap(), REQUEST);
    }
    ring.polls_left = LOOKS_MAX;
    let chunk = ring.wait();
    assert_eq!((chunk.index, chunk.error.is_none()), (1, true));
    assert!(chunk.buffer[..] == [7; REQUEST]);
}

#[test]
fn a_request_that_never_ends_fails_and_the_kernel_keeps_its_buffer() {
    let Some((mut ring, source, writing, pool)) = set_up() else { return };
    for index in 0..2 {
        ring.submit(&source, index, pool.try_acquire(REQUEST).unwrap());
    }
    let memory = ring.pending[&0].buffer.as_ptr();
    break_ring(&ring);
    ring.enter(0);
    ring.polls_left = 3;
    let chunk = ring.wait();
    assert!(chunk.error.is_some() && chunk.buffer.as_ptr() != memory);
    drop(chunk);
    drop(ring);
    assert_eq!(pool.in_use(), REQUEST, "the buffer of the other request is not returned");
    drop(writing);
}
