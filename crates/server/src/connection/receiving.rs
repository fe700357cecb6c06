//! Receives requests: headers, and bodies within the memory for requests.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, End, unless};
use crate::command::before_body;
use crate::in_flight::{PATIENCE, Progress, Reservation, SMALL_BYTES};
use crate::protocol::Head;
use crate::status::Status;

/// Number of bytes of a body for which memory is reserved in advance, at least. At most, as much
/// memory is reserved in advance as has arrived, and [`SMALL_BYTES`].
const ADVANCE_BYTES_MIN: usize = 64 << 10;

/// What became of the body of a request.
pub(super) enum Received {
    /// The body has arrived. The reservation is that of its memory, if the body is counted.
    Body(BytesMut, Option<Reservation>),
    /// The request is refused. `bytes` bytes of its body have not been read yet.
    Refused { status: Status, bytes: usize },
}

const SENDING_BODY: &str = "sending a body";

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<'_, S> {
    /// Reads until the input buffer contains `length` bytes, which are not counted. `what` names
    /// the action of the client, for the error that it took too long.
    pub(super) async fn fill(&mut self, length: usize, what: &'static str) -> Result<(), End> {
        if self.input.length() >= length {
            return Ok(());
        }
        let (pace, progress) = (self.pace(), Progress::new(PATIENCE));
        progress.add(self.input.length());
        let filled = self.input.fill(&mut self.stream, length, &progress);
        let filled = unless(&mut self.ended, pace.run(&progress, filled)).await?;
        Ok(filled.ok_or(End::Slow(what))??)
    }

    /// Receives the body of a request, which has `length` bytes. If the request can be refused
    /// before its body is read, or its client loses the memory of the body, returns the status.
    pub(super) async fn receive_body(
        &mut self,
        head: &Head,
        length: usize,
    ) -> Result<Received, End> {
        let Some(reservation) = self.state.in_flight.request(length) else {
            self.fill(length, SENDING_BODY).await?;
            return Ok(Received::Body(self.input.take_body(length), None));
        };
        if let Some(status) = self.refuse_before_body(head, length).await? {
            return Ok(Received::Refused { status, bytes: length });
        }
        // The input buffer may still have the memory of the last body, with its reservation.
        let mut reservation = self.input.reservation(reservation);
        reservation.progress().restart(PATIENCE);
        if !self.fill_counted(length, &mut reservation).await? {
            let bytes = self.input.discard(length);
            drop(reservation);
            return Ok(Received::Refused { status: Status::TRANSIENT_NOT_ACCEPTED, bytes });
        }
        Ok(Received::Body(self.input.take_body(length), Some(reservation)))
    }

    /// Reads until the input buffer contains a body of `length` bytes, for which memory is reserved
    /// as it arrives. Returns false if the reservation is revoked.
    async fn fill_counted(
        &mut self,
        length: usize,
        reservation: &mut Reservation,
    ) -> Result<bool, End> {
        while self.input.length() < length {
            let arrived = self.input.length();
            let advance = arrived.clamp(ADVANCE_BYTES_MIN, SMALL_BYTES);
            // The memory of the last body may be reserved already.
            let bytes = length.min(reservation.bytes().max(arrived + advance));
            if !unless(&mut self.ended, reservation.grow(bytes)).await?
                || !self.fill_reserved(bytes, length, reservation).await?
            {
                return Ok(false);
            }
        }
        unless(&mut self.ended, reservation.grow(length)).await
    }

    /// Reads until the input buffer contains the first `bytes` bytes of a body of `length` bytes.
    /// Memory for these bytes is reserved. Returns false if the reservation is revoked.
    async fn fill_reserved(
        &mut self,
        bytes: usize,
        length: usize,
        reservation: &Reservation,
    ) -> Result<bool, End> {
        let pace = self.pace();
        let progress = reservation.progress();
        let filled = self.input.fill_part(&mut self.stream, bytes, length, progress);
        let filled = pace.run(progress, filled);
        let filled = async {
            tokio::select! {
                biased;
                filled = filled => Some(filled),
                () = reservation.revoked() => None,
            }
        };
        match unless(&mut self.ended, filled).await? {
            Some(filled) => {
                filled.ok_or(End::Slow(SENDING_BODY))??;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Reads the first bytes of a body, as far as they decide whether the request is refused.
    /// Returns the status if it is.
    async fn refuse_before_body(
        &mut self,
        head: &Head,
        length: usize,
    ) -> Result<Option<Status>, End> {
        let Some(binding) = self.session.binding() else { return Ok(None) };
        // A request that was executed is answered again, even if it would be refused now.
        if head.is_replicated() && self.session.has_executed(head) {
            return Ok(None);
        }
        loop {
            let needed = before_body::bytes_needed(head, self.input.arrived()).min(length);
            if self.input.length() >= needed {
                break;
            }
            self.fill(needed, SENDING_BODY).await?;
        }
        let start = self.input.arrived();
        Ok(before_body::refusal(self.state, binding.user, head, length, start))
    }

    /// Reads and discards the next `bytes` bytes.
    pub(super) async fn skip(&mut self, bytes: usize) -> Result<(), End> {
        let pace = self.pace();
        let progress = Progress::new(PATIENCE);
        let skipped = self.input.skip(&mut self.stream, bytes, &progress);
        let skipped = unless(&mut self.ended, pace.run(&progress, skipped)).await?;
        Ok(skipped.ok_or(End::Slow(SENDING_BODY))??)
    }
}
