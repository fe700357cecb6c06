//! An event loop of the benchmark's server: one thread that serves the requests of its clients in
//! turn.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use tailwater_log::{Log, Partition, Polled, Strategy};

use crate::failure::Failure;

/// A client's request.
pub(super) enum Request {
    /// Append a batch. The topic's durability determines when the batch is acknowledged. The reply
    /// is sent then.
    Append { partition: usize, batch: Arc<Vec<u8>>, reply: Sender<Acknowledged> },
    /// Poll up to `count` messages from an offset.
    Poll { partition: usize, offset: u64, count: u32, reply: Sender<PollReply> },
}

/// The time when an append was acknowledged, or the error that it failed with.
pub(super) type Acknowledged = Result<Instant, tailwater_log::Error>;
/// The messages of a poll and the time when it returned, or the error that it failed with.
pub(super) type PollReply = Result<(Polled, Instant), tailwater_log::Error>;

/// Runs an event loop until all senders of requests are dropped. If `is_inline`, the loop itself
/// persists after each append.
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
                        // The send fails if the client has ended. Nobody needs the reply then.
                        let _ = reply.send(outcome.map(|()| Instant::now()));
                    }),
                    Err(error) => drop(reply.send(Err(error))),
                }
                if is_inline {
                    // This thread persists the messages. Clients of this loop wait meanwhile.
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

/// A client's connection to one event loop: a channel for requests, and one for replies to this
/// client.
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
