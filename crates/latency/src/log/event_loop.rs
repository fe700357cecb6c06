//! A server's event loop: one thread that serves requests in turn.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use tailwater_log::{Log, Partition, Polled, Strategy};

use crate::failure::Failure;

/// A client's request.
pub(super) enum Request {
    /// Append a batch. Its acknowledgement is sent when it is persisted.
    Append { partition: usize, batch: Arc<Vec<u8>>, reply: Sender<Acknowledged> },
    /// Poll from an offset.
    Poll { partition: usize, offset: u64, count: u32, reply: Sender<PollReply> },
}

/// The time when an append was acknowledged, or its error.
pub(super) type Acknowledged = Result<Instant, tailwater_log::Error>;
/// The result of a poll, and its time.
pub(super) type PollReply = Result<(Polled, Instant), tailwater_log::Error>;

/// Runs an event loop: serves requests until all senders are dropped.
pub(super) fn serve(
    log: &Log,
    partitions: &[Arc<Partition>],
    requests: &Receiver<Request>,
    is_inline: bool,
) -> Result<(), Failure> {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Append { partition, batch, reply } => {
                match partitions[partition].append(&batch) {
                    Ok(appended) => appended.ticket.on_complete(move |outcome| {
                        // If the client has ended, the send fails, and nobody needs the reply.
                        let _ = reply.send(outcome.map(|()| Instant::now()));
                    }),
                    Err(error) => drop(reply.send(Err(error))),
                }
                if is_inline {
                    // The loop itself persists while all clients wait.
                    log.run_pending();
                }
            }
            Request::Poll { partition, offset, count, reply } => {
                let polled = partitions[partition].poll(Strategy::Offset(offset), count);
                let _ = reply.send(polled.map(|polled| (polled, Instant::now())));
            }
        }
    }
    Ok(())
}

/// A client's connection to one loop.
pub(super) struct Connection<T> {
    pub(super) requests: Sender<Request>,
    pub(super) reply: Sender<T>,
    pub(super) replies: Receiver<T>,
}

impl<T> Connection<T> {
    pub(super) fn new(requests: &Sender<Request>) -> Self {
        let (reply, replies) = channel();
        Self { requests: requests.clone(), reply, replies }
    }
}
