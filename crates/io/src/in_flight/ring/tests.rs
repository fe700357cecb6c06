//! Tests of rings on which the kernel stops accepting requests. They are skipped where io_uring is
//! not allowed.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tailwater_testkit::filesystem::say;

use super::*;
use crate::buffer::BufferPool;
use crate::descriptors::DescriptorBudget;
use crate::purpose::Purpose;
use crate::storage::{ReadFile, RingAccess};

const REQUEST: usize = 4096;

/// A pipe used as a file. A read request on it completes when bytes are written to the pipe.
#[derive(Debug)]
struct Pipe(OwnedFd, Arc<Rings>);

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

    fn ring_access(&self) -> Option<RingAccess<'_>> {
        Some(RingAccess { descriptor: self.0.as_fd(), rings: &self.1 })
    }
}

/// A ring, and a pipe from which its requests read.
struct Scene {
    ring: RingQueue,
    pipe: Arc<dyn ReadFile>,
    /// The writing end of the pipe.
    writing: OwnedFd,
    pool: BufferPool,
}

impl Scene {
    /// Returns `None` if io_uring is not allowed, after saying so.
    fn new() -> Option<Self> {
        let rings = Rings::new(&DescriptorBudget::new(100));
        let Some(ring) = rings.take() else {
            say("LEFT OUT: rings that fail: io_uring is not allowed here");
            return None;
        };
        let ring = RingQueue::new(ring);
        let (reading, writing) = io::pipe().unwrap();
        let (reading, writing) = (OwnedFd::from(reading), OwnedFd::from(writing));
        let pool = BufferPool::new(16 * REQUEST);
        Some(Self { ring, pipe: Arc::new(Pipe(reading, rings)), writing, pool })
    }

    /// Submits a request with this number, and makes the kernel begin it.
    fn submit(&mut self, number: u64) {
        let request = ReadRequest {
            number,
            file: Arc::clone(&self.pipe),
            offset: number * REQUEST as u64,
            length: REQUEST,
            enough: REQUEST,
            purpose: Purpose::Verification,
            in_batch: false,
            charged: None,
        };
        self.ring.submit(request, self.pool.try_acquire(REQUEST).unwrap());
        self.ring.begin();
    }
}

/// Makes every later call on the ring fail, by replacing its descriptor. Requests that the kernel
/// has already accepted continue.
fn break_ring(queue: &RingQueue) {
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
    let ring = queue.ring.as_ref().unwrap();
    // SAFETY: the ring owns the descriptor, keeps it open and closes it.
    let mut descriptor = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ring.as_raw_fd()) });
    rustix::io::dup2(&null, &mut descriptor).unwrap();
}

/// Regression test: after `io_uring_enter` had failed permanently, the stream called it again in an
/// endless loop.
#[test]
fn requests_refused_by_a_failing_ring_fall_back_to_plain_reads() {
    let Some(mut scene) = Scene::new() else { return };
    break_ring(&scene.ring);
    for index in 0..3 {
        scene.submit(index);
    }
    assert!(scene.ring.is_given_up);
    for index in 0..3 {
        let byte = index as u8;
        assert_eq!(rustix::io::write(&scene.writing, &[byte; REQUEST]).unwrap(), REQUEST);
        let chunk = scene.ring.wait();
        assert_eq!((chunk.number, chunk.error.is_none()), (index, true));
        assert!(chunk.buffer[..] == [byte; REQUEST]);
    }
}

#[test]
fn requests_in_flight_complete_although_the_ring_fails() {
    let Some(mut scene) = Scene::new() else { return };
    scene.submit(0);
    break_ring(&scene.ring);
    scene.submit(1);
    assert_eq!((scene.ring.pending.len(), scene.ring.left.len()), (1, 1));
    scene.ring.left.clear();
    assert_eq!(rustix::io::write(&scene.writing, &[7; REQUEST]).unwrap(), REQUEST);
    let chunk = scene.ring.wait();
    assert_eq!((chunk.number, chunk.error.is_none()), (0, true));
    assert!(chunk.buffer[..] == [7; REQUEST]);
}

/// Regression test: the completion of a request that had already failed, because its completion had
/// not arrived in time, panicked.
#[test]
fn a_completion_that_arrives_after_its_request_has_failed_is_ignored() {
    let Some(mut scene) = Scene::new() else { return };
    for index in 0..2 {
        scene.submit(index);
    }
    break_ring(&scene.ring);
    scene.ring.enter(0);
    scene.ring.polls_left = 3;
    assert!(scene.ring.wait().error.is_some());
    for _ in 0..2 {
        assert_eq!(rustix::io::write(&scene.writing, &[7; REQUEST]).unwrap(), REQUEST);
    }
    scene.ring.polls_left = LOOKS_MAX;
    let chunk = scene.ring.wait();
    assert_eq!((chunk.number, chunk.error.is_none()), (1, true));
    assert!(chunk.buffer[..] == [7; REQUEST]);
}

#[test]
fn a_request_that_never_ends_fails_and_the_kernel_keeps_its_buffer() {
    let Some(mut scene) = Scene::new() else { return };
    for index in 0..2 {
        scene.submit(index);
    }
    let memory = scene.ring.pending[&0].buffer.as_ptr();
    break_ring(&scene.ring);
    scene.ring.enter(0);
    scene.ring.polls_left = 3;
    let chunk = scene.ring.wait();
    assert!(chunk.error.is_some() && chunk.buffer.as_ptr() != memory);
    drop(chunk);
    drop(scene.ring);
    assert_eq!(scene.pool.in_use(), REQUEST, "the buffer of the other request is not returned");
    drop(scene.writing);
}

#[test]
fn requests_that_the_kernel_has_not_accepted_can_be_taken_back() {
    let Some(mut scene) = Scene::new() else { return };
    scene.submit(0);
    break_ring(&scene.ring);
    for index in 1..5 {
        scene.submit(index);
    }
    assert_eq!((scene.ring.pending.len(), scene.ring.left.len()), (1, 4));
    assert_eq!(scene.ring.cancel_left(4).len(), 3, "all but those in flight and from 4 on");
    assert_eq!(scene.pool.in_use(), 2 * REQUEST);
    assert_eq!(rustix::io::write(&scene.writing, &[7; 2 * REQUEST]).unwrap(), 2 * REQUEST);
    let mut numbers = [scene.ring.wait().number, scene.ring.wait().number];
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 4]);
}
