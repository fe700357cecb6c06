//! Opening a partition: its owner is built from its files.
//!
//! # Steps
//!
//! 1. The directory is listed. File names identify the segments and their first offsets; if a
//!    segment was rewritten, the newer generation is used. Sealed segments are not read.
//! 2. The last segment is scanned to its end. The scan begins at the last batch in the index, if
//!    the segment really contains that batch at the indexed position, and otherwise at the
//!    beginning of the segment. The scan ends at the first bytes that are not a whole batch.
//! 3. Beyond the end of the scan, trailers are searched. If a trailer shows that bytes beyond the
//!    end were persisted, there is a hole at the end. On a topic with durability `disk`, or in the
//!    same boot of the machine, a hole is damage: the partition is *fenced*. It is readable up to
//!    the hole and accepts no appends until the file is restored. In all other cases the machine
//!    died before the bytes reached the device, a loss that the topic's durability permits: the
//!    bytes beyond the hole are kept in a file next to the segment.
//! 4. The segment is cut after its last batch, and synced.
//! 5. Batches that a dead process left in shared memory are appended if they continue the offsets.
//!    They are persisted before their shared memory is removed. If the disk is full, the partition
//!    is opened for reading, and this step is retried until it succeeds.
//!
//! A crash at any step is safe: until then only unused files were removed, and the next opening
//! recovers the same batches.

use std::collections::BTreeMap;
use std::io::ErrorKind::AlreadyExists;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::index::Entry;
use tailwater_format::message::name::{FileName, Kind, SegmentName, StartName, TEMPORARY};
use tailwater_format::message::padding::{BLOCK, Trailer};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::owner::{Completions, Health, Owner, SegmentPosition, resume_position};
use super::{Files, Partition};
use crate::catalog::{Catalog, PartitionId};
use crate::env::Env;
use crate::layout::CUT;
use crate::options::{Durability, PartialBlocks, TopicOptions};
use crate::segment::{Scanner, Segment, SegmentFiles, SegmentWriter};
use crate::tail::survivors::Survivor;
use crate::tail::{MemoryKind, SegmentStart};
use crate::timestamps::Now;
use crate::{Error, ErrorKind, Result};

/// Size of each read in the search for trailers, in bytes.
const SEARCH_BYTES: usize = 1 << 20;

/// Findings of a partition's recovery.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// Number of bytes that were cut off after the last whole batch.
    pub cut_bytes: u64,
    /// Number of messages that were recovered from shared memory. No segment contained these
    /// messages.
    pub surviving_messages: u64,
    /// Damage that fences the partition.
    pub fenced: Option<Error>,
    /// Texts of the findings that have no field of their own.
    pub notes: Vec<String>,
}

impl Recovered {
    /// Returns whether there is any finding.
    pub(crate) fn is_notable(&self) -> bool {
        let Self { cut_bytes, surviving_messages, fenced, notes } = self;
        *cut_bytes > 0 || *surviving_messages > 0 || fenced.is_some() || !notes.is_empty()
    }
}

/// The files of one incarnation of a partition.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Segments in the order of their offsets, with the lengths of their files in bytes.
    segments: Vec<(SegmentName, u64)>,
    /// Names of unused files.
    left_over: Vec<String>,
    /// Names of the files that record the start of the partition, which are removed after the
    /// unused files.
    starts: Vec<StartName>,
}

impl Listing {
    /// Returns the segments of this incarnation, whose files are in `directory`.
    pub(crate) fn segments(
        &self,
        directory: &Path,
        incarnation: u64,
    ) -> impl Iterator<Item = Segment> {
        self.segments.iter().map(move |(name, length)| {
            let SegmentName { base_offset, base_timestamp_us, generation } = *name;
            let start = SegmentStart { base_offset, base_timestamp_us };
            Segment::new(directory, start, generation, incarnation, *length)
        })
    }
}

/// Lists the files in `directory`, the directory of one incarnation of a partition.
///
/// # Errors
/// Corruption, if the directory is missing; I/O errors.
pub(crate) fn list(storage: &dyn Storage, directory: &Path) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut newest: BTreeMap<(u64, u64), (SegmentName, u64)> = BTreeMap::new();
    let mut indexes = Vec::new();
    let listed = storage.visit_entries(directory, &mut |entry| {
        let of_copy = entry.name.strip_suffix(TEMPORARY).and_then(FileName::parse);
        if of_copy.is_some() {
            listing.left_over.push(entry.name.to_owned());
        }
        listing.starts.extend(StartName::parse(entry.name));
        let Some(name) = FileName::parse(entry.name) else { return Ok(()) };
        match name.kind {
            Kind::Index => indexes.push(name),
            Kind::Log => {
                let key = (name.segment.base_offset, name.segment.base_timestamp_us);
                let found = (name.segment, entry.length()?);
                let old = match newest.get(&key) {
                    Some(there) if there.0.generation > name.segment.generation => Some(found),
                    _ => newest.insert(key, found),
                };
                listing.left_over.extend(old.map(|old| old.0.file(Kind::Log).to_string()));
            }
        }
        Ok(())
    });
    listed.map_err(|error| match error.path == directory {
        true => Error::on_required(error),
        // An entry that another process has just removed, if the log is only inspected.
        false => error.into(),
    })?;
    if let Some(StartName(start)) = listing.starts.iter().max() {
        // A removal of old segments was not completed.
        let kept = newest.split_off(&(*start, 0));
        let removed = std::mem::replace(&mut newest, kept).into_values();
        listing.left_over.extend(removed.map(|(segment, _)| segment.file(Kind::Log).to_string()));
    }
    for index in indexes {
        let key = (index.segment.base_offset, index.segment.base_timestamp_us);
        if newest.get(&key).is_none_or(|(segment, _)| *segment != index.segment) {
            listing.left_over.push(index.to_string());
        }
    }
    listing.segments = newest.into_values().collect();
    // Of several segments with the same base offset, only the one with the latest base timestamp is
    // used. The others are left over from a failed write or from a truncation that a crash
    // interrupted.
    let starts: Vec<u64> =
        listing.segments.iter().map(|(segment, _)| segment.base_offset).collect();
    let mut index = 0;
    listing.segments.retain(|(segment, _)| {
        index += 1;
        let stays = starts.get(index).is_none_or(|next| *next != segment.base_offset);
        if !stays {
            listing.left_over.push(segment.file(Kind::Log).to_string());
        }
        stays
    });
    Ok(listing)
}

/// The end of the last segment's batches.
pub(crate) struct End {
    /// Position after the last whole batch, in bytes.
    position: u64,
    pub(crate) next_offset: u64,
    last_timestamp_us: u64,
    /// The error that the bytes after `position` cause, if they are neither a batch nor a gap.
    damage: Option<Error>,
}

/// Opens a partition. `incarnation` is the partition's incarnation in the catalog. An error or
/// damage fences only this partition; the partition's files, and its batches in shared memory, are
/// kept.
///
/// # Errors
/// Out of descriptors, if files cannot be opened for this reason. That says nothing about the
/// partition.
pub(crate) fn open(
    env: &Arc<Env>,
    catalog: &Arc<Catalog>,
    id: PartitionId,
    incarnation: u64,
    options: TopicOptions,
    survivors: Vec<Survivor>,
) -> Result<(Arc<Partition>, Recovered)> {
    let mut recovered = Recovered::default();
    let parts = recover(env, id, incarnation, options.clone(), &mut recovered);
    let (owner, files, segments) = match parts {
        Ok(parts) => parts,
        Err(error) if error.kind() == ErrorKind::OutOfDescriptors => return Err(error),
        Err(error) => {
            let place = SegmentPosition::first();
            let mut owner = Owner::new(env, id, incarnation, options, 0, 0, place);
            owner.fail(&error);
            recovered.fenced = Some(error);
            (owner, Files::default(), Vec::new())
        }
    };
    let partition = Partition::new(env, catalog, owner, files, segments);
    if recovered.fenced.is_some() {
        // They stay in shared memory, and count as messages that closing the log leaves there.
        partition.files.lock().survivors = survivors;
    } else if !survivors.is_empty() {
        let segments_end = {
            let mut owner = partition.owner.lock();
            owner.awaits_survivors = true;
            owner.next_offset
        };
        let mut files = partition.files.lock();
        files.survivors = survivors;
        // No caller waits for an append or a command yet, so no completer is added here.
        let mut completions = Completions::default();
        match partition.take_survivors(&mut files, &mut recovered, &mut completions) {
            Err(error) if is_shortage(&error) => {
                recovered.notes.push(format!(
                    "batches in shared memory are recovered when there is space: {error}"
                ));
                let mut owner = partition.owner.lock();
                recovered.surviving_messages = owner.persisted.offset - segments_end;
                owner.wait_for_resources(env, &error);
            }
            Err(error) => {
                partition.fail(&error);
                recovered.fenced = Some(error);
            }
            Ok(()) => {}
        }
    }
    Ok((partition, recovered))
}

/// Returns whether recovery can be retried: the disk is full, other partitions hold the memory, or
/// no descriptor is left.
fn is_shortage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Full | ErrorKind::OutOfDescriptors)
}

/// Recovers the state of a partition from its files.
fn recover(
    env: &Arc<Env>,
    id: PartitionId,
    incarnation: u64,
    options: TopicOptions,
    recovered: &mut Recovered,
) -> Result<(Owner, Files, Vec<Arc<Segment>>)> {
    let directory = crate::layout::incarnation_directory(&env.directory, id, incarnation);
    let listing = list(&*env.segment_files.storage, &directory)?;
    let mut files = Files::default();
    for name in &listing.left_over {
        let path = directory.join(name);
        if env.segment_files.storage.remove(&path).is_err_and(|error| !error.is_not_found()) {
            // The file may be an older version (generation) of a segment's file. If it outlived the
            // newest version, recovery would use it as the segment. So it is queued, to be removed
            // no later than the newest version.
            files.unused.push(path);
        }
    }
    let start = listing.starts.iter().max().map_or(0, |StartName(start)| *start);
    if start > 0 && files.unused.is_empty() && !listing.segments.is_empty() {
        env.segment_files.storage.sync_directory(&directory)?;
        for name in &listing.starts {
            // A file that stays has no effect.
            let _ = env.segment_files.storage.remove(&directory.join(name.to_string()));
        }
    }
    let segments = listing.segments(&directory, incarnation).map(Arc::new);
    let segments: Vec<Arc<Segment>> = segments.collect();
    let Some(last) = segments.last() else {
        let segment = SegmentStart { base_offset: start, base_timestamp_us: 0 };
        let place = SegmentPosition { segment, position: 0 };
        let owner = Owner::new(env, id, incarnation, options, start, 0, place);
        return Ok((owner, files, segments));
    };
    let end = find_end(&env.segment_files, last)?;
    let hole = find_hole(&env.segment_files, last, end.position)?;
    if let Some(stable) = hole
        && (options.durability == Durability::Disk || env.is_same_boot)
    {
        let place = SegmentPosition { segment: last.start(), position: end.position };
        let (offset, timestamp_us) = (end.next_offset, end.last_timestamp_us);
        let mut owner = Owner::new(env, id, incarnation, options, offset, timestamp_us, place);
        let error = hole_error(last, &end, stable);
        owner.fail(&error);
        recovered.fenced = Some(error);
        last.set_length(end.position);
        return Ok((owner, files, segments));
    }
    // Carried blocks (partial blocks that are written again with later batches) have no trailers
    // that state how much of the segment was durable. It is therefore unknown whether bytes after
    // damage were acknowledged.
    let is_uncertain = options.partial_blocks == PartialBlocks::Carry && end.damage.is_some();
    if hole.is_some() || is_uncertain {
        let kept = keep_cut(&env.segment_files, last, end.position)?;
        let offset = end.next_offset;
        let (path, why) = match hole {
            Some(_) => (kept.display(), "the machine died before they reached the device"),
            None => (kept.display(), "a write was interrupted, or the segment is damaged"),
        };
        recovered.notes.push(format!(
            "messages at and after offset {offset} were lost: {why}; the bytes after them are kept \
             in {path}"
        ));
    }
    recovered.cut_bytes = last.length() - end.position;
    let last = Arc::clone(last);
    let owner = resume(env, &mut files, &last, id, incarnation, options, &end)?;
    Ok((owner, files, segments))
}

/// Returns the end of the batches in the last segment. Scans from the batch that the last entry of
/// the index describes, if the segment contains that batch at the position in the entry. Otherwise,
/// scans from the beginning of the segment.
pub(crate) fn find_end(files: &SegmentFiles, segment: &Segment) -> Result<End> {
    let entries = segment.read_index(files)?;
    let mut access = files.access_now();
    if let Some(last) = entries.last().copied() {
        let mut scanner = segment.scan(&mut access, last.position)?;
        if scanner.is_at(&last) {
            segment.set_entries(entries);
            return scan_to_end(scanner, segment, last.position, last.offset);
        }
    }
    segment.set_entries(Vec::new());
    scan_to_end(segment.scan(&mut access, 0)?, segment, 0, segment.base_offset())
}

fn scan_to_end(mut scanner: Scanner, segment: &Segment, position: u64, offset: u64) -> Result<End> {
    let mut end = End {
        position,
        next_offset: offset,
        last_timestamp_us: segment.start().base_timestamp_us,
        damage: None,
    };
    loop {
        let scanned = match scanner.read_verified() {
            Ok(Some(scanned)) => scanned,
            Ok(None) => return Ok(end),
            Err(error) if error.kind() == crate::ErrorKind::Corruption => {
                end.damage = Some(error);
                return Ok(end);
            }
            Err(error) => return Err(error),
        };
        let header = scanned.header;
        if header.base_offset != end.next_offset {
            let message =
                format!("found offset {}, expected {}", header.base_offset, end.next_offset);
            end.damage =
                Some(Error::corruption(&segment.path(Kind::Log), scanned.position, message));
            return Ok(end);
        }
        segment.add_entries(std::iter::once(Entry::new(&header, scanned.position)));
        end.position = scanned.position + header.length;
        end.next_offset = header.base_offset + u64::from(header.count);
        end.last_timestamp_us = header.base_timestamp_us;
    }
}

/// Searches the blocks from `end`, the position after the last whole batch, for a trailer that
/// proves that batches after `end` were lost. A trailer ends a group of batches, and states the
/// length up to which the segment was durable when the group ended. Returns the first stated length
/// that exceeds `end`, in bytes; `None` if there is none.
fn find_hole(files: &SegmentFiles, segment: &Segment, end: u64) -> Result<Option<u64>> {
    let file = segment.file(&mut files.access_now())?;
    let mut buffer = AlignedBuffer::with_capacity(SEARCH_BYTES);
    let mut position = end / BLOCK * BLOCK;
    while position < segment.length() {
        let bytes = file.read_span(&mut buffer, position, SEARCH_BYTES, Purpose::LogRead)?;
        if bytes.is_empty() {
            break;
        }
        for block in bytes.chunks_exact(BLOCK as usize) {
            let Some(trailer) = Trailer::at_end_of(block) else { continue };
            let is_own = trailer.segment == segment.base_offset()
                && trailer.incarnation == segment.incarnation();
            if is_own && trailer.stable > end {
                return Ok(Some(trailer.stable));
            }
        }
        position += bytes.len() as u64;
    }
    Ok(None)
}

/// Returns whether the last segment shows that a whole batch was at `position`, or after a gap
/// there: the index, which is written after the segment was synced, has this or a later batch; or a
/// trailer states that bytes beyond `position` were durable.
pub(crate) fn was_whole(files: &SegmentFiles, segment: &Segment, position: u64) -> Result<bool> {
    let entries = segment.read_index(files)?;
    if let Some(last) = entries.last().filter(|last| last.position >= position)
        && segment.scan(&mut files.access_now(), last.position)?.is_at(last)
    {
        return Ok(true);
    }
    Ok(find_hole(files, segment, position)?.is_some())
}

/// Copies the bytes after the last whole batch of a segment to a new file next to it. Returns its
/// path.
fn keep_cut(files: &SegmentFiles, segment: &Segment, position: u64) -> Result<PathBuf> {
    let from = segment.file(&mut files.access_now())?;
    let (path, mut to) = create_cut(&*files.storage, segment, position)?;
    let mut buffer = AlignedBuffer::with_capacity(SEARCH_BYTES);
    let mut at = position;
    while at < segment.length() {
        let bytes = from.read_span(&mut buffer, at, SEARCH_BYTES, Purpose::LogRead)?;
        if bytes.is_empty() {
            break;
        }
        to.write_all_at(bytes, at - position, Purpose::LogAppend)?;
        at += bytes.len() as u64;
    }
    to.sync_all(Purpose::LogAppend)?;
    files.storage.sync_directory(segment.directory())?;
    Ok(path)
}

/// Creates the file for the bytes of a segment from a position on. If an earlier recovery has cut
/// the segment at the same position, the new file's name has a number.
fn create_cut(
    storage: &dyn Storage,
    segment: &Segment,
    position: u64,
) -> Result<(PathBuf, Box<dyn WriteFile>)> {
    let mut number = 1;
    loop {
        let mut path = segment.path(Kind::Log).into_os_string();
        path.push(format!("{CUT}{position}"));
        if number > 1 {
            path.push(format!("-{number}"));
        }
        let (path, mode) = (PathBuf::from(path), IoMode::Buffered);
        match storage.create(&path, Create::New, mode, Purpose::LogAppend) {
            Err(error) if error.source.kind() == AlreadyExists => number += 1,
            created => return Ok((path, created?)),
        }
    }
}

fn hole_error(segment: &Segment, end: &End, stable: u64) -> Error {
    let why = end.damage.as_ref().map_or("no batch".to_owned(), |error| error.to_string());
    let message = format!(
        "offset {} is damaged, though the segment was durable up to position {stable}: {why}",
        end.next_offset
    );
    Error::corruption(&segment.path(Kind::Log), end.position, message)
}

/// Cuts off what follows the last batch of the last segment. Later appends go to that segment or,
/// if that segment was rewritten without gaps, to a new segment.
fn resume(
    env: &Env,
    files: &mut Files,
    last: &Arc<Segment>,
    id: PartitionId,
    incarnation: u64,
    options: TopicOptions,
    end: &End,
) -> Result<Owner> {
    let (durability, most) = (options.durability, options.segment_bytes);
    let writer = SegmentWriter::resume(&env.segment_files, last, end.position, durability, most)?;
    let place = SegmentPosition { segment: last.start(), position: end.position };
    let partial = options.partial_blocks;
    let (offset, timestamp_us) = (end.next_offset, end.last_timestamp_us);
    let mut owner = Owner::new(env, id, incarnation, options, offset, timestamp_us, place);
    let is_dense = last.generation() > 0;
    match partial {
        PartialBlocks::Pad if !is_dense => {
            owner.resume_at(resume_position(end.position, env.block), Vec::new());
        }
        PartialBlocks::Carry if !is_dense => {
            let block = end.position / env.block * env.block;
            let file = last.file(&mut env.segment_files.access_now())?;
            let mut buffer = AlignedBuffer::with_capacity(env.block as usize);
            let length = (end.position - block) as usize;
            let carried = file.read_span(&mut buffer, block, length, Purpose::LogRead)?.to_vec();
            owner.resume_at(end.position, carried);
        }
        _ => owner.place = owner.next_segment(),
    }
    files.writer = Some(writer);
    Ok(owner)
}

impl Partition {
    /// Goes on with a truncation, or with appending the batches that a dead process left in shared
    /// memory.
    pub(super) fn resume_files(&self) {
        let mut completions = Completions::default();
        let mut files = self.files.lock();
        let resumed = match files.truncation {
            Some(_) => self.continue_truncation(&mut files, &mut completions),
            None => self.retry_survivors(&mut files, &mut completions),
        };
        if let Err(error) = resumed {
            completions.append(self.owner.lock().fail_commands(&error));
        }
        drop(files);
        completions.complete();
        // Also wakes appends that wait until recovery ends.
        self.env.backpressure.changed();
    }

    fn retry_survivors(&self, files: &mut Files, completions: &mut Completions) -> Result<()> {
        let mut recovered = Recovered::default();
        self.take_survivors(files, &mut recovered, completions).inspect_err(|error| {
            let mut owner = self.owner.lock();
            if is_shortage(error) {
                owner.wait_for_resources(&self.env, error);
            } else {
                owner.fail(error);
            }
        })
    }

    /// Appends the batches that a dead process left in shared memory, if they continue the last
    /// segment, and persists them. Only then removes their shared memory.
    fn take_survivors(
        &self,
        files: &mut Files,
        recovered: &mut Recovered,
        completions: &mut Completions,
    ) -> Result<()> {
        // The batches may fill the shared memory, so they are copied to private memory. The
        // originals remain in shared memory until the copies are persisted.
        let kind = std::mem::replace(&mut self.owner.lock().tail.kind, MemoryKind::Private);
        let persisted = self.append_survivors(files, recovered, completions);
        if persisted.is_ok() {
            self.release(files);
        }
        let mut owner = self.owner.lock();
        owner.tail.kind = kind;
        self.publish_end(&owner);
        let failed = match &owner.health {
            Health::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        };
        drop(owner);
        // If the partition failed meanwhile, some of the batches may not be persisted.
        persisted.and(failed)?;
        self.remove_survivors(files)?;
        self.owner.lock().awaits_survivors = false;
        Ok(())
    }

    fn append_survivors(
        &self,
        files: &mut Files,
        recovered: &mut Recovered,
        completions: &mut Completions,
    ) -> Result<()> {
        let survivors = std::mem::take(&mut files.survivors);
        let persisted = self.append_batches(files, &survivors, recovered, completions);
        files.survivors = survivors;
        persisted
    }

    fn append_batches(
        &self,
        files: &mut Files,
        survivors: &[Survivor],
        recovered: &mut Recovered,
        completions: &mut Completions,
    ) -> Result<()> {
        for batch in survivors.iter().flat_map(Survivor::batches) {
            let header = batch.header();
            let (next_offset, unpersisted) = {
                let owner = self.owner.lock();
                (owner.next_offset, owner.tail.unpersisted_bytes)
            };
            if batch.end_offset() <= next_offset {
                continue;
            }
            if header.base_offset != next_offset {
                recovered.notes.push(format!(
                    "batches in shared memory begin at offset {}, but the segments end at \
                     {next_offset}: not recovered",
                    header.base_offset
                ));
                break;
            }
            if unpersisted + header.length > self.env.partition_unpersisted_bytes_max {
                self.persist_all(files, completions)?;
            }
            let append = || {
                let mut owner = self.owner.lock();
                let monotonic_ns = self.env.clock.monotonic_ns();
                let at = Now { wall_us: header.base_timestamp_us, monotonic_ns };
                owner.append_at(&self.env, &batch, at)
            };
            let mut appended = append();
            if appended.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full) {
                self.persist_all(files, completions)?;
                // Release the memory of this partition's persisted chunks, so that the repeated
                // append can use that memory.
                self.release(files);
                appended = append();
            }
            appended?;
            recovered.surviving_messages += u64::from(header.count);
        }
        self.persist_all(files, completions)
    }

    /// Persists all appended batches.
    pub(super) fn persist_all(
        &self,
        files: &mut Files,
        completions: &mut Completions,
    ) -> Result<()> {
        loop {
            let group = {
                let mut owner = self.owner.lock();
                if owner.tail.unpersisted_bytes == 0 {
                    return Ok(());
                }
                owner.take_group(&self.env, true)
            };
            match group {
                Some(group) => self.persist(files, &group, completions)?,
                None => return Ok(()),
            }
        }
    }

    /// Removes the shared memory that a dead process left for this partition.
    pub(super) fn remove_survivors(&self, files: &mut Files) -> Result<()> {
        let Some(shared) = self.env.memory.shared() else { return Ok(()) };
        while let Some(survivor) = files.survivors.last() {
            shared.remove(&survivor.region)?;
            files.survivors.pop();
        }
        Ok(())
    }
}
