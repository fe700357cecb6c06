//! Requests made by worker threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::request::{CompletedRead, ReadRequest};
use super::workers::Workers;
use crate::buffer::PooledBuffer;
use crate::sections::{self, Section};
use crate::sync::{Condvar, Mutex};
use crate::{Error, Operation};

/// The requests of one queue that are made by the threads of [`Workers`].
#[derive(Debug)]
pub(crate) struct ThreadRequests {
    workers: Arc<Workers>,
    shared: Arc<RequestQueue>,
}

#[derive(Debug, Default)]
struct RequestQueue {
    state: Mutex<State>,
    changed: Condvar,
}

/// Each buffer is in exactly one place: in `reserved`, in `done`, or with a request that is inside
/// its read call.
#[derive(Debug, Default)]
struct State {
    /// Requests that have not begun, by number.
    reserved: BTreeMap<u64, (ReadRequest, PooledBuffer)>,
    /// Number of jobs that were given to the workers and have not begun: at least one for each
    /// request in `reserved`. A job makes the first of them, if there is one.
    due: usize,
    done: Vec<CompletedRead>,
    /// Number of requests inside their read call.
    running: usize,
    closed: bool,
}

impl ThreadRequests {
    pub(super) fn new(workers: &Arc<Workers>) -> Self {
        Self { workers: Arc::clone(workers), shared: Arc::default() }
    }

    pub(super) fn submit(&self, request: ReadRequest, buffer: PooledBuffer) {
        let mut state = self.shared.state.lock();
        state.reserved.insert(request.number, (request, buffer));
        if state.due < state.reserved.len() {
            state.due += 1;
            drop(state);
            let shared = Arc::clone(&self.shared);
            self.workers.submit(self.stream(), move || {
                shared.state.lock().due -= 1;
                RunningRequest::run_first(shared);
            });
        }
    }

    pub(super) fn ended(&self) -> Option<CompletedRead> {
        self.shared.state.lock().done.pop()
    }

    /// Waits until a request ends. If no worker can begin one with a number up to `needed`, the
    /// caller makes it: the workers may be occupied by requests for another disk, which does not
    /// answer.
    pub(super) fn wait(&self, needed: u64) -> CompletedRead {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(completed) = state.done.pop() {
                return completed;
            }
            let is_needed = state.reserved.first_key_value().is_some_and(|(it, _)| *it <= needed);
            if is_needed && self.workers.are_occupied() {
                drop(state);
                let shared = Arc::clone(&self.shared);
                // A panic is the error of the request, as in a worker.
                let _ = catch_unwind(AssertUnwindSafe(|| RunningRequest::run_first(shared)));
                state = self.shared.state.lock();
            } else {
                state = self.shared.changed.wait(state);
            }
        }
    }

    pub(super) fn take_back(&self, number: u64) -> Vec<PooledBuffer> {
        let mut state = self.shared.state.lock();
        let kept = state.reserved.split_off(&number);
        let taken = std::mem::replace(&mut state.reserved, kept);
        taken.into_values().map(|(_, buffer)| buffer).collect()
    }

    fn stream(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}

impl Drop for ThreadRequests {
    fn drop(&mut self) {
        let _waiting = sections::enter(Section::Device);
        let mut state = self.shared.state.lock();
        state.closed = true;
        state.done.clear();
        let cancelled = std::mem::take(&mut state.reserved);
        drop(state);
        // Without the lock, for which a worker may wait: this may close the file.
        drop(cancelled);
        let mut state = self.shared.state.lock();
        while state.running > 0 {
            state = self.shared.changed.wait(state);
        }
        let is_due = state.due > 0;
        drop(state);
        if is_due {
            self.workers.withdraw(self.stream());
        }
    }
}

/// A request inside its read call. When this is dropped, the result is delivered, or, if the queue
/// has been dropped, the buffer released. This happens even if the call panics.
struct RunningRequest {
    shared: Arc<RequestQueue>,
    request: ReadRequest,
    /// `None` only inside drop.
    buffer: Option<PooledBuffer>,
    error: Option<Error>,
}

impl RunningRequest {
    fn run_first(shared: Arc<RequestQueue>) {
        let mut state = shared.state.lock();
        let Some((_, (request, buffer))) = state.reserved.pop_first() else { return };
        state.running += 1;
        drop(state);
        let mut running = Self { shared, request, buffer: Some(buffer), error: None };
        if let Some(buffer) = &mut running.buffer {
            running.error = running.request.read(buffer);
        }
    }

    #[cold]
    fn panicked(&self) -> Error {
        Error::panicked(Operation::Read, self.request.file.path(), Some(self.request.offset))
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let Some(mut buffer) = self.buffer.take() else { return };
        let mut error = self.error.take();
        if std::thread::panicking() {
            buffer.clear();
            error = Some(self.panicked());
        }
        let mut state = self.shared.state.lock();
        state.running -= 1;
        if state.closed {
            drop(buffer);
        } else {
            state.done.push(CompletedRead { number: self.request.number, buffer, error });
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::ThreadId;
    use std::time::Duration;

    use super::*;
    use crate::IoMode;
    use crate::buffer::BufferPool;
    use crate::purpose::Purpose;
    use crate::storage::ReadFile;

    const REQUEST: usize = 4096;

    /// A file whose reads at offset 0 block until the test sends a message. Records which threads
    /// read.
    #[derive(Debug)]
    struct RecordingFile {
        first: Mutex<Receiver<()>>,
        readers: Mutex<Vec<(u64, ThreadId)>>,
    }

    impl ReadFile for RecordingFile {
        fn read_at(&self, buffer: &mut [u8], offset: u64, _: Purpose) -> crate::Result<usize> {
            self.readers.lock().push((offset, std::thread::current().id()));
            if offset == 0 {
                let _ = self.first.lock().recv();
            }
            Ok(buffer.len())
        }

        fn length(&self) -> crate::Result<u64> {
            Ok(u64::MAX)
        }

        fn path(&self) -> &Path {
            Path::new("/recording")
        }

        fn mode(&self) -> IoMode {
            IoMode::Buffered
        }
    }

    struct Scene {
        /// Dropped first, which ends the reads at offset 0.
        first: Sender<()>,
        workers: Arc<Workers>,
        requests: ThreadRequests,
        file: Arc<RecordingFile>,
        pool: BufferPool,
    }

    impl Scene {
        fn new() -> Self {
            let workers = Arc::new(Workers::new("reader", 1).unwrap());
            let requests = ThreadRequests::new(&workers);
            let (first, reads) = channel();
            let file = RecordingFile { first: Mutex::new(reads), readers: Mutex::default() };
            let pool = BufferPool::new(16 * REQUEST);
            Self { first, workers, requests, file: Arc::new(file), pool }
        }

        fn submit_to(&self, requests: &ThreadRequests, number: u64) {
            let request = ReadRequest {
                number,
                file: Arc::clone(&self.file) as Arc<dyn ReadFile>,
                offset: number * REQUEST as u64,
                length: REQUEST,
                enough: REQUEST,
                purpose: Purpose::Verification,
                in_batch: false,
                charged: None,
            };
            requests.submit(request, self.pool.try_acquire(REQUEST).unwrap());
        }

        /// Submits request 0, and waits until the worker is inside its call.
        fn occupy(&self) {
            self.submit_to(&self.requests, 0);
            while self.file.readers.lock().is_empty() {
                std::thread::yield_now();
            }
        }
    }

    /// The caller would not get its chunk before its own call for a later one has ended.
    #[test]
    fn a_caller_makes_no_request_beyond_what_it_needs() {
        let scene = Scene::new();
        scene.occupy();
        scene.submit_to(&scene.requests, 1);
        assert!(scene.workers.are_occupied());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Time for the caller to begin to wait; without it, the test may miss a failure.
                std::thread::sleep(Duration::from_millis(50));
                scene.first.send(()).unwrap();
            });
            let first = scene.requests.wait(0);
            let readers = scene.file.readers.lock().clone();
            let caller = std::thread::current().id();
            assert!(readers.iter().all(|(_, thread)| *thread != caller), "{readers:?}");
            assert_eq!(first.number + scene.requests.wait(u64::MAX).number, 1);
        });
    }

    /// The jobs of queues that have ended piled up while the workers were occupied.
    #[test]
    fn a_queue_leaves_no_jobs_behind() {
        let scene = Scene::new();
        scene.occupy();
        for _ in 0..3 {
            let requests = ThreadRequests::new(&scene.workers);
            (1..4).for_each(|number| scene.submit_to(&requests, number));
            assert_eq!(scene.workers.waiting(), 3);
            (1..4).for_each(|number| assert_eq!(requests.wait(u64::MAX).number, number));
            drop(requests);
            assert_eq!(scene.workers.waiting(), 0);
        }
        scene.first.send(()).unwrap();
        assert_eq!(scene.requests.wait(0).number, 0);
    }
}
