//! The recent requests of a session, and the replies to them.
//!
//! A client gives ascending numbers to its requests, but they may arrive in another order, for two
//! reasons. A client with several requests in flight may repeat a request that was not accepted,
//! after later requests were answered. The threads of a client may send requests in another order
//! than they number them.
//!
//! A number below the highest answered number may therefore belong to a new request. A request is
//! refused only if its number is so low that the reply may have been forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::protocol::Head;
use crate::status::Status;

/// Maximum number of remembered replies.
const REPLIES_MAX: usize = 64;
/// Maximum number of requests that were not accepted and whose numbers are remembered, because the
/// clients will repeat them.
const NOT_ACCEPTED_MAX: usize = 64;
/// Maximum total size of the bodies of remembered replies, in bytes, not counting the body of the
/// latest reply.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Maximum number of bytes at the start of a body that [`Stamp::Digest`] covers. In a request with
/// a batch, they include the checksum of the batch.
const DIGEST_BYTES: usize = 1 << 10;

/// A fingerprint of a request's body. It distinguishes a repeated request from a different request
/// with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The checksum of the body, as sent by the client.
    Given(u128),
    /// A digest of the first bytes and the length of the body, if the client sent no checksum.
    /// Preview versions of Iggy's client send no checksums. They also do not increase the request
    /// number for requests that send messages or store offsets: all such requests have the same
    /// number until the client sends a request of another kind that changes state.
    Digest(u128),
}

impl Stamp {
    /// Returns the stamp (fingerprint) of a request. `head` is the request's header, and `body` is
    /// its body.
    pub(crate) fn of(head: &Head, body: &[u8]) -> Self {
        if head.checksum != 0 {
            return Self::Given(head.checksum);
        }
        let begin = body.get(..DIGEST_BYTES).unwrap_or(body);
        Self::Digest(xxh3_128(begin) ^ body.len() as u128)
    }
}

/// What the server does with a request that changes state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The request is new.
    Execute,
    /// The request was already executed, and the client gets the same reply again: this status and
    /// body.
    Repeat(u32, Arc<[u8]>),
    /// The request is refused with this status.
    Refuse(Status),
}

/// The remembered reply to a request that was executed.
struct Reply {
    request: u64,
    code: u32,
    stamp: Stamp,
    status: u32,
    /// The body of the reply; `None` if it was dropped to limit the memory.
    body: Option<Arc<[u8]>>,
}

/// A client may number its requests in several independent sequences. This is what a session
/// remembers of one sequence: recent requests and their replies.
#[derive(Default)]
pub(super) struct Replies {
    /// Remembered replies, at most one for each request number, in the order in which the requests
    /// were executed.
    recent: VecDeque<Reply>,
    /// The highest request number that was executed.
    last: Option<u64>,
    /// Highest request number among the requests whose replies were forgotten.
    forgotten: Option<u64>,
    /// Request numbers of requests that were not accepted, and therefore not executed. The client
    /// will send these requests again.
    not_accepted: VecDeque<u64>,
}

impl Replies {
    /// Decides whether a request is executed, is answered with the remembered reply to an earlier
    /// request, or is refused.
    pub(super) fn admit(&self, head: &Head, stamp: Stamp) -> Admission {
        let number = Some(head.request);
        if number > self.last {
            return Admission::Execute;
        }
        let known = self.recent.iter().rev().find(|reply| reply.request == head.request);
        let Some(known) = known else {
            let is_new = number > self.forgotten || self.not_accepted.contains(&head.request);
            return if is_new {
                Admission::Execute
            } else {
                Admission::Refuse(Status::REQUEST_ALREADY_APPLIED)
            };
        };
        if known.code == head.code && known.stamp == stamp {
            return match &known.body {
                Some(body) => Admission::Repeat(known.status, Arc::clone(body)),
                None => Admission::Refuse(Status::REQUEST_ALREADY_APPLIED),
            };
        }
        match (known.stamp, stamp) {
            // Clients that send checksums never use a number for two different requests, so the
            // client is defective.
            (Stamp::Given(_), Stamp::Given(_)) => Admission::Refuse(Status::INVALID_COMMAND),
            _ if number == self.last => Admission::Execute,
            _ => Admission::Refuse(Status::REQUEST_ALREADY_APPLIED),
        }
    }

    /// Returns whether a request with this number and command was executed with success.
    pub(super) fn has_executed(&self, head: &Head) -> bool {
        let is_same = |reply: &&Reply| reply.request == head.request && reply.code == head.code;
        self.recent.iter().rev().find(is_same).is_some_and(|reply| reply.status == 0)
    }

    /// Remembers the reply to a request that was executed.
    pub(super) fn remember(&mut self, head: &Head, stamp: Stamp, status: u32, body: &[u8]) {
        self.recent.retain(|other| other.request != head.request);
        self.not_accepted.retain(|number| *number != head.request);
        while self.recent.len() >= REPLIES_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.forgotten = self.forgotten.max(Some(oldest.request));
        }
        self.drop_bodies();
        self.last = self.last.max(Some(head.request));
        self.recent.push_back(Reply {
            request: head.request,
            code: head.code,
            stamp,
            status,
            body: Some(Arc::from(body)),
        });
    }

    /// Records that a request was not accepted, and that the client will repeat it.
    pub(super) fn expect_again(&mut self, head: &Head) {
        self.not_accepted.retain(|number| *number != head.request);
        if self.not_accepted.len() >= NOT_ACCEPTED_MAX {
            self.not_accepted.pop_front();
        }
        self.not_accepted.push_back(head.request);
    }

    /// Drops the bodies of the oldest replies, so that the others take at most [`BODY_BYTES_MAX`].
    fn drop_bodies(&mut self) {
        let mut bytes = 0;
        for reply in self.recent.iter_mut().rev() {
            bytes += reply.body.as_ref().map_or(0, |body| body.len());
            if bytes > BODY_BYTES_MAX {
                reply.body = None;
            }
        }
    }
}
