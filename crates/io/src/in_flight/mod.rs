//! Reads in flight: requests that are submitted, and complete later, in any order.
//!
//! Requests are submitted to io_uring if the kernel allows it and the file's storage has a ring to
//! spare ([`Rings`]); then no thread besides the caller's is needed. Otherwise threads of
//! [`Workers`] make the requests, or the caller's thread makes them one at a time
//! ([`RequestPath`]). A simulated disk has no rings; what the caller's thread reads from it
//! completes in random order.
//!
//! # Ownership
//! A request owns its buffer and a reference to its file from its submission until its call has
//! returned. Dropping the queue of requests cancels those whose calls have not begun, and waits for
//! the calls that are running.
//!
//! [`Rings`]: crate::rings::Rings

mod request;
mod requests;
mod ring;
mod threads;
mod together;
mod workers;

pub(crate) use request::{CompletedRead, ReadRequest};
pub use requests::RequestPath;
pub(crate) use requests::Requests;
pub use together::{ReadsInFlight, Span, Together};
pub use workers::Workers;
