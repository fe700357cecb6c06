//! Writes a group: the work of its leader, and of its members.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::batch::{Record, RecordKind, WriteBatch};
use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_io::pace::{OpType, Priority};

use crate::background::FailedPart;
use crate::column_family::{ColumnFamily, FamilySet, SuperVersion};
use crate::epoch;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::{self, MemTable};
use crate::panics;
use crate::stats::Histogram;
use crate::wal::PipelinedWrite;
use crate::write::queue::{
    self, Durability, Group, GroupInFlight, Inserting, Leadership, Request, Turn,
};
use crate::write::{WriteOptions, WritePath};

/// Size limit of small batches, as a fraction of `max_write_batch_group_size_bytes`:
/// 1/SMALL_BATCH_SHARE. If a leader's own batch is within this limit, the other batches of its
/// group are limited to this size in total, to keep the leader's latency low.
const SMALL_BATCH_SHARE: usize = 8;
/// Minimum number of operations in a batch that a group's member inserts itself. The leader inserts
/// smaller batches, because waking the member would take longer.
const OWN_INSERT_OPERATIONS: u64 = 64;

impl WritePath {
    /// Writes a batch atomically. On return, the batch holds its sequence number.
    pub(crate) fn write(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        let Some(statistics) = &self.context.shared.statistics else {
            return self.write_in_turn(batch, options);
        };
        let started = statistics.start();
        let written = self.write_in_turn(batch, options);
        statistics.record_since(Histogram::DbWrite, started);
        written
    }

    fn write_in_turn(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        let durability = match (options.disable_wal, options.sync) {
            (true, true) => {
                let message = "sync and disable_wal exclude each other: a write that is not logged \
                               cannot be synced";
                return Err(Error::invalid_argument(message));
            }
            (true, false) if self.context.options.fixed().recycle_log_file_num > 0 => {
                // A gap in the log's sequence numbers would look like the end of a recycled log.
                let message = "disable_wal cannot be combined with recycle_log_file_num above 0";
                return Err(Error::invalid_argument(message));
            }
            (true, false) => Durability::Unlogged,
            (false, true) => Durability::Synced,
            (false, false) => Durability::Logged,
        };
        self.check_families(batch)?;
        if let Some(priority) = options.rate_limiter_priority {
            self.wait_for_rate_limiter(batch.size_in_bytes(), priority, durability)?;
        }
        let written = self.write_by(batch, durability, options);
        if written.is_ok() && durability != Durability::Synced {
            queue::yield_if_due();
        }
        written
    }

    /// Waits until the rate limiter, if there is one, has granted a batch of `bytes` bytes. Unlike
    /// in RocksDB, the writer waits before it joins the queue, so that other writers do not wait
    /// for it.
    #[cold]
    fn wait_for_rate_limiter(
        &self,
        bytes: usize,
        priority: Priority,
        durability: Durability,
    ) -> Result<()> {
        let refused = |message| Err(Error::invalid_argument(message));
        if priority != Priority::User {
            return refused("rate_limiter_priority of a write must be User, or not set");
        }
        if durability == Durability::Unlogged {
            return refused("rate_limiter_priority cannot be combined with disable_wal");
        }
        if self.context.options.fixed().manual_wal_flush {
            return refused("rate_limiter_priority cannot be combined with manual_wal_flush");
        }
        if let Some(limiter) = self.context.rate_limiter() {
            limiter.request(OpType::Write, bytes as u64, priority);
        }
        Ok(())
    }

    /// Writes a batch as leader, or waits until another leader has written it.
    fn write_by(
        &self,
        batch: &mut WriteBatch,
        durability: Durability,
        options: &WriteOptions,
    ) -> Result<()> {
        if let Some(leadership) = self.queue.try_lead() {
            return self.write_as_leader(leadership, batch, durability, options);
        }
        let request = Request::new(std::mem::take(batch), durability, options.no_slowdown);
        let request = Arc::new(request);
        let mut turn = self.queue.join(&request);
        loop {
            match turn {
                Turn::Lead(leadership) => {
                    request.swap_batch(batch);
                    return self.write_as_leader(leadership, batch, durability, options);
                }
                Turn::Insert(insertion) => {
                    let inserted = self.insert(&request.batch());
                    insertion.inserted(inserted);
                    turn = request.wait(&self.queue);
                }
                Turn::Done(result) => {
                    request.swap_batch(batch);
                    return result;
                }
            }
        }
    }

    /// Writes the leader's batch and those of its group.
    fn write_as_leader(
        &self,
        leadership: Leadership<'_>,
        batch: &mut WriteBatch,
        durability: Durability,
        options: &WriteOptions,
    ) -> Result<()> {
        let own = batch.size_in_bytes();
        self.prepare(&leadership, own, options)?;
        let max_group = self.context.options.fixed().max_write_batch_group_size_bytes as usize;
        let bytes = if own <= max_group / SMALL_BATCH_SHARE {
            max_group / SMALL_BATCH_SHARE
        } else {
            max_group.saturating_sub(own)
        };
        // Unless the group can be written concurrently with earlier groups, it must wait until they
        // have ended. Writers that arrive during the wait join the group.
        let may_pipeline = durability == Durability::Synced && leadership.has_few_writers();
        if !may_pipeline {
            self.quiesce(&leadership)?;
        }
        let group = leadership.take_group(durability, bytes);
        self.context
            .stall
            .charge(|| group.iter().map(|member| member.batch().size_in_bytes() as u64).sum());
        let panic_latch = PanicLatch { path: self, is_pipelined: false };
        let written = match self.log(&leadership, batch, &group, durability, may_pipeline) {
            Ok(Logged::Done(numbers)) => {
                let written = self.commit(batch, &group, numbers, durability);
                leadership.finish(group, &written);
                written
            }
            Ok(Logged::InFlight(numbers, log_write)) => {
                let in_flight = leadership.begin_pipelined(&group);
                // If the code below panics, this latch is dropped first and records a failure. Then
                // `in_flight` is dropped, which lets later groups continue; they see the failure.
                let pipelined_latch = PanicLatch { path: self, is_pipelined: true };
                let written = self
                    .write_pipelined(&in_flight, log_write)
                    .and_then(|()| self.commit(batch, &group, numbers, durability));
                std::mem::forget(pipelined_latch);
                in_flight.finish(group, &written);
                written
            }
            Err(error) => {
                leadership.finish(group, &Err(error.clone()));
                Err(error)
            }
        };
        std::mem::forget(panic_latch);
        written
    }

    /// Waits until no group is in flight.
    ///
    /// # Errors
    /// The latched failure, if writes are refused. A group that was in flight may have failed.
    pub(super) fn quiesce(&self, leadership: &Leadership<'_>) -> Result<()> {
        leadership.quiesce();
        self.context.errors.check()
    }

    /// Performs step 3 of the write path (see [`crate::write`]) for a group: numbers its operations
    /// and appends it to the log, in one write and at most one sync. With `may_pipeline` the log
    /// write may be left to the caller ([`Logged::InFlight`]), so that the next leader can begin
    /// before the write ends.
    fn log(
        &self,
        leadership: &Leadership<'_>,
        batch: &mut WriteBatch,
        group: &Group,
        durability: Durability,
        may_pipeline: bool,
    ) -> Result<Logged> {
        let numbers = self.number(leadership, batch, group)?;
        if durability == Durability::Unlogged {
            return Ok(Logged::Done(numbers));
        }
        let mut logs = self.logs.lock();
        let may_pipeline = may_pipeline && !logs.holds_back();
        let others = group.iter().map(|member| member.batch());
        let appended = logs
            .append(batch)
            .and_then(|()| others.into_iter().try_for_each(|other| logs.append(&other)));
        let log_write =
            if may_pipeline && appended.is_ok() { logs.begin_pipelined() } else { None };
        if log_write.is_none() && !leadership.is_quiesced() {
            drop(logs);
            leadership.quiesce();
            logs = self.logs.lock();
        }
        // A group that was in flight may have failed.
        let appended = appended.and_then(|()| self.context.errors.check_log());
        let written = appended.and_then(|()| match durability {
            _ if log_write.is_some() => Ok(()),
            Durability::Synced => self.sync_logs(&mut logs),
            _ if self.context.options.fixed().manual_wal_flush => Ok(()),
            _ => logs.write_out(),
        });
        if logs.is_due() || logs.total_bytes() > self.log_bound.load(Ordering::Relaxed) {
            self.has_full_logs.store(true, Ordering::Relaxed);
        }
        drop(logs);
        written.inspect_err(|error| self.context.latch_log(error))?;
        Ok(match log_write {
            Some(log_write) => Logged::InFlight(numbers, log_write),
            None => Logged::Done(numbers),
        })
    }

    /// Writes a group to the log while other groups may be written, too. Then waits until the
    /// groups ahead have ended.
    fn write_pipelined(
        &self,
        in_flight: &GroupInFlight<'_>,
        mut log_write: PipelinedWrite,
    ) -> Result<()> {
        let written = self.count_sync(|| log_write.write());
        in_flight.wait_for_turn();
        let ended = self.logs.lock().end_pipelined(log_write, written);
        ended.inspect_err(|error| self.context.latch_log(error))?;
        // A group ahead of this group in the log may have failed to insert into a memtable. Then
        // this group must fail, too.
        self.context.errors.check_log()
    }

    /// Performs steps 4 and 5 of the write path (see [`crate::write`]) for a group that is in the
    /// log: inserts it into memtables and publishes it.
    fn commit(
        &self,
        batch: &WriteBatch,
        group: &Group,
        numbers: Range<Sequence>,
        durability: Durability,
    ) -> Result<()> {
        if let Err(error) = self.insert_group(batch, group) {
            // The log has records that the memtables lack, so readers would see less now than after
            // a restart.
            self.context.latch(FailedPart::MemTable, &error);
            return Err(error);
        }
        if durability == Durability::Unlogged {
            self.has_unlogged.store(true, Ordering::Relaxed);
        }
        self.context.shared.published.store(numbers.end - 1, Ordering::Release);
        self.count_group(batch, group, numbers.end - numbers.start, durability);
        Ok(())
    }

    /// Assigns sequence numbers to the operations of a group, in the order of its members. Returns
    /// the numbers.
    fn number(
        &self,
        leadership: &Leadership<'_>,
        batch: &mut WriteBatch,
        group: &Group,
    ) -> Result<Range<Sequence>> {
        // If no group is in flight, the last published number is also the last assigned number,
        // unless a group has failed. The numbers of a failed group are in the log but were never
        // published, and must not be assigned again. So errors are checked after `is_quiesced`.
        let is_quiesced = leadership.is_quiesced();
        self.context.errors.check()?;
        let last = if is_quiesced { &self.context.shared.published } else { &self.numbered };
        let first = last.load(Ordering::Relaxed) + 1;
        let operations =
            group.iter().map(|member| member.operations).sum::<u64>() + batch.len() as u64;
        if first + operations > MAX_SEQUENCE {
            return Err(Error::no_sequence_left());
        }
        batch.set_sequence(first);
        let mut next = first + batch.len() as u64;
        for member in group.iter() {
            member.batch().set_sequence(next);
            next += member.operations;
        }
        self.numbered.store(next - 1, Ordering::Relaxed);
        Ok(first..next)
    }

    /// Inserts a group's batches into the memtables.
    fn insert_group(&self, batch: &WriteBatch, group: &Group) -> Result<()> {
        let inserts_itself = |member: &&Arc<Request>| member.operations >= OWN_INSERT_OPERATIONS;
        let insert_others = || {
            self.insert(batch)?;
            let mut others = group.iter().filter(|member| !inserts_itself(member));
            others.try_for_each(|member| self.insert(&member.batch()))
        };
        if !group.iter().any(|member| inserts_itself(&member)) {
            return insert_others();
        }
        let inserting = Inserting::new(&self.queue);
        for member in group.iter().filter(inserts_itself) {
            member.let_insert(&inserting);
        }
        let inserted = insert_others();
        inserting.wait().and(inserted)
    }

    /// Inserts a batch into the memtables, except records of dropped column families. The batch
    /// must have its sequence numbers already.
    fn insert(&self, batch: &WriteBatch) -> Result<()> {
        let guard = epoch::pin();
        let families = self.context.shared.families.load(&guard);
        if self.insert_batch(families.get(), batch, &guard)? {
            self.has_full_memtable.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Inserts a batch into memtables. Returns whether any of these memtables has reached its size
    /// limit.
    fn insert_batch(
        &self,
        families: &FamilySet,
        batch: &WriteBatch,
        guard: &epoch::Guard,
    ) -> Result<bool> {
        let mut sequence = batch.sequence();
        let mut target: Option<Target<'_>> = None;
        let mut is_any_full = false;
        for record in batch.reader().map_err(malformed)? {
            let record = record.map_err(malformed)?;
            let Some(value_type) = record.kind.value_type() else { continue };
            let id = record.column_family;
            if target.as_ref().is_none_or(|target| target.family.id() != id) {
                is_any_full |= target.as_ref().is_some_and(Target::is_filled);
                target = families.by_id(id).map(|family| Target::of(family, guard)).transpose()?;
                if let Some(Target { memtable, .. }) = &target
                    && memtable.oldest_key_time_s().is_none()
                {
                    memtable.set_oldest_key_time_s(self.context.clock.wall_us() / 1_000_000);
                }
            }
            if let Some(target) = &target {
                target
                    .memtable
                    .add(sequence, value_type, record.key, record.value)
                    .map_err(not_added)?;
            }
            sequence += 1;
        }
        is_any_full |= target.as_ref().is_some_and(Target::is_filled);
        Ok(is_any_full)
    }

    /// Refuses a batch that has invalid records, or records of a column family that does not exist.
    fn check_families(&self, batch: &WriteBatch) -> Result<()> {
        let guard = epoch::pin();
        let families = self.context.shared.families.load(&guard);
        if let Some(id) = batch.plain_column_family() {
            // The records are valid in every column family that takes writes, so they need not be
            // read for this check.
            let family = families.by_id(id).ok_or_else(|| no_family(id))?;
            return check_takes_writes(family);
        }
        for record in batch.reader().map_err(malformed)? {
            let record = record.map_err(malformed)?;
            if record.kind.value_type().is_none() && record.kind != RecordKind::LogData {
                return Err(Error::not_supported("batches of prepared transactions"));
            }
            let id = record.column_family;
            let family = families.by_id(id).ok_or_else(|| no_family(id))?;
            check_record(family, &record)?;
        }
        Ok(())
    }
}

/// How far a group has been logged, and its sequence numbers.
enum Logged {
    /// The group is logged with the requested durability.
    Done(Range<Sequence>),
    /// The group has its range in the log but is not yet written. The caller performs this write,
    /// and lets the next leader begin before the write ends.
    InFlight(Range<Sequence>, PipelinedWrite),
}

/// A guard that makes the database refuse further writes when the guard is dropped. It is dropped
/// only if the leader panicked, perhaps in a user's comparator. The sequence numbers that the
/// leader assigned may already be in the log and in memtables, and must not be assigned again.
struct PanicLatch<'w> {
    path: &'w WritePath,
    /// Whether the leader's group is pipelined, so that the next leader may already write its own
    /// group. If so, the panic may have left a hole in the log, and no later group may complete.
    is_pipelined: bool,
}

impl Drop for PanicLatch<'_> {
    fn drop(&mut self) {
        let error = panics::unwinding("a writer");
        self.path.context.latch(FailedPart::MemTable, &error);
        if self.is_pipelined {
            self.path.logs().fail(error);
        }
    }
}

/// Converts the error from a memtable that refused a record.
fn not_added(error: memtable::Error) -> Error {
    let kind = match error {
        memtable::Error::KeyTooLong | memtable::Error::ValueTooLong => ErrorKind::InvalidArgument,
        // The memtable already has an entry with this key and sequence number, so the number was
        // assigned twice.
        memtable::Error::Duplicate => ErrorKind::Corruption,
    };
    Error::new(kind, error.to_string())
}

#[cold]
fn no_memtable() -> Error {
    Error::internal("a column family has no memtable")
}

#[cold]
fn no_family(id: u32) -> Error {
    Error::invalid_argument(format!("there is no column family {id}"))
}

fn malformed(error: tailwater_format::Error) -> Error {
    Error::invalid_argument(error.to_string())
}

/// Refuses writes to a column family that takes none.
fn check_takes_writes(family: &ColumnFamily) -> Result<()> {
    if family.takes_writes() {
        return Ok(());
    }
    let name = family.name();
    let message = format!("column family '{name}' refuses writes: disallow_memtable_writes");
    Err(Error::invalid_argument(message))
}

/// Returns why a column family cannot store operands of merges.
pub(crate) fn no_merge_operator(family: &ColumnFamily) -> String {
    let (name, options) = (family.name(), family.options());
    match options.merge_operator.id() {
        Some(operator) => format!(
            "merge operator '{operator}' of column family '{name}' is neither built in nor \
             registered"
        ),
        None => format!("column family '{name}' has no merge_operator"),
    }
}

/// Refuses a record that a column family cannot store.
fn check_record(family: &ColumnFamily, record: &Record<'_>) -> Result<()> {
    if record.kind.value_type().is_some() {
        check_takes_writes(family)?;
    }
    match record.kind {
        RecordKind::DeleteRange if family.readers().tables.rows().is_some() => {
            // RocksDB's message, and its restriction.
            let message = "DeleteRange is not compatible with row cache.";
            Err(Error::new(ErrorKind::NotSupported, message))
        }
        RecordKind::DeleteRange
            if family.comparator().compare(record.key, record.value).is_gt() =>
        {
            let message = "the range to delete ends before it begins";
            Err(Error::invalid_argument(message))
        }
        RecordKind::BlobIndex => {
            Err(Error::invalid_argument("blob indexes are written by flushes, not by batches"))
        }
        RecordKind::Merge if !family.has_merge_operator() => {
            Err(Error::invalid_argument(no_merge_operator(family)))
        }
        _ => {
            record.check_length().map_err(|error| Error::invalid_argument(error.to_string()))?;
            record.check().map_err(|error| Error::invalid_argument(error.to_string()))
        }
    }
}

/// The memtable into which a record of a batch is inserted. It is looked up again only when the
/// next record belongs to another column family.
struct Target<'g> {
    family: &'g ColumnFamily,
    source: &'g SuperVersion,
    memtable: &'g MemTable,
}

impl<'g> Target<'g> {
    fn of(family: &'g ColumnFamily, guard: &'g epoch::Guard) -> Result<Self> {
        let source = family.current().load(guard).get();
        let memtable = source.memtables().first().ok_or_else(no_memtable)?;
        Ok(Self { family, source, memtable })
    }

    /// Whether the memtable has reached its size limit.
    fn is_filled(&self) -> bool {
        self.source.is_filled_by(self.memtable)
    }
}
