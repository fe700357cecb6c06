//! Opening a log: determines the options in effect, and opens the partitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::buffer::ALIGNMENT;
use tailwater_io::kernel::{Memory, System};
use tailwater_io::probe::{Access, Answer, probe};
use tailwater_io::shared_memory::{PosixSharedMemory, Sibling, siblings};
use tailwater_io::{Clock, FileIdentity, IoMode, SharedMemory, Storage};

use crate::backpressure::Backpressure;
use crate::catalog::{Catalog, PartitionId, PartitionInfo, StreamInfo};
use crate::env::Env;
use crate::guard::LockGuard;
use crate::last_opening::LastOpening;
use crate::layout::STREAMS;
use crate::options::{IoModeChoice, LogOptions, TailMemory};
use crate::partition::Partition;
use crate::partition::recovery::{self, Recovered};
use crate::patience::Patience;
use crate::scheduler::Scheduler;
use crate::segment::{OpenFiles, REWRITES_MAX, SegmentFiles};
use crate::tail::ChunkPool;
use crate::tail::sizing::automatic_limit;
use crate::tail::survivors::Survivors;
use crate::timestamps::Timestamps;
use crate::workers::Workers;
use crate::{Error, ErrorKind, Result};

/// What was found when a log was opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenReport {
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The I/O modes in effect.
    pub modes: Modes,
    /// Partitions whose recovery was not routine: batches were recovered, bytes were cut off, or
    /// damage was found.
    pub partitions: Vec<(PartitionId, Recovered)>,
}

/// The I/O modes that are in effect for an open log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Modes {
    /// I/O mode of writes to segments: `direct` or `buffered`.
    pub append: &'static str,
    /// Which writes to segments are durable when they return. `dsync` means all writes
    /// ([`LogOptions::syncs_appends`]); `topic` means only the writes of topics with durability
    /// `disk`.
    pub append_sync: &'static str,
    /// I/O mode of reads of segments: `direct` or `buffered`.
    pub read: &'static str,
    /// I/O mode of reads and writes of indexes, which are small: always `buffered`.
    pub index: &'static str,
    /// I/O mode of the journals, which contain the catalog and the consumers' offsets: always
    /// `buffered`.
    pub offsets: &'static str,
    /// Where the tails of topics with durability `process` are: `shared memory` or
    /// `private memory`.
    pub tail: &'static str,
    /// Size of a block in bytes. Writes to segments consist of whole blocks.
    pub block: u64,
}

pub(super) fn incarnation_of(streams: &BTreeMap<u32, StreamInfo>, id: PartitionId) -> Option<u64> {
    let topic = streams.get(&id.stream)?.topics.get(&id.topic)?;
    Some(topic.partitions.get(&id.partition)?.incarnation)
}

/// Returns a new random id for a log.
pub(super) fn new_id(clock: &dyn Clock, identity: FileIdentity) -> u128 {
    use std::hash::{BuildHasher, RandomState};
    // `RandomState` is seeded with random numbers from the operating system.
    let random = RandomState::new().hash_one((identity, clock.monotonic_ns()));
    u128::from(random) << 64 | u128::from(clock.wall_us() ^ identity.inode.rotate_left(40))
}

pub(super) fn open_env(
    options: &LogOptions,
    storage: &Arc<dyn Storage>,
    lock: Arc<LockGuard>,
    directory: PathBuf,
    id: u128,
    report: &mut OpenReport,
) -> Result<(Env, LastOpening)> {
    let budget = &options.descriptor_budget;
    // Reserved first, because the capacity that is left bounds the number of cursors.
    let reserved = budget.reserve(own_descriptors(options.persisters));
    let read_bytes_max = options.read_ahead_bytes_max;
    // A filesystem of its own may be mounted there.
    let streams = directory.join(STREAMS);
    let tried = if storage.list(&streams).is_ok() { &streams } else { &directory };
    let (append_mode, append_block) =
        choose(storage, tried, options.append_io_mode, Access::Write, "append", report)?;
    let (read_mode, _) =
        choose(storage, tried, options.read_io_mode, Access::Read, "read", report)?;
    let block = append_block.max(ALIGNMENT) as u64;
    let shared = shared_memory(options, &directory, report)?;
    let is_shared = shared.is_some() && block == ALIGNMENT as u64;
    if shared.is_some() && !is_shared {
        no_shared_memory(&format!("the device's blocks have {block} bytes"), report);
    }
    report.modes = Modes {
        append: append_mode.name(),
        append_sync: if options.syncs_appends { "dsync" } else { "topic" },
        read: read_mode.name(),
        index: IoMode::Buffered.name(),
        offsets: IoMode::Buffered.name(),
        tail: if is_shared { "shared memory" } else { "private memory" },
        block,
    };
    let memory_directory = shared.as_ref().and_then(|shared| shared.directory());
    let opening = LastOpening::new(options.boot_id.as_deref(), memory_directory);
    let last = LastOpening::read(&**storage, &directory)?;
    let is_same_boot = last.is_same_boot(&opening);
    let name = shared_name(storage.identity(&directory)?);
    check_left_memory(&last, &opening, shared.as_deref(), &name, id, &directory, report)?;
    let backpressure = Arc::new(Backpressure::default());
    let limit = match options.tail_bytes_max {
        0 => automatic_limit(Memory::of_this_process(System::default()).limit()),
        limit => limit,
    };
    let memory = ChunkPool::new(shared, is_shared, limit, Arc::clone(&backpressure))?;
    let env = Env {
        segment_files: Arc::new(SegmentFiles::new(
            Arc::clone(storage),
            [append_mode, read_mode],
            options.syncs_appends,
            read_bytes_max,
            OpenFiles::new(budget.clone(), read_bytes_max),
        )),
        lock,
        reserved,
        timestamps: Timestamps::new(&*options.clock),
        clock: Arc::clone(&options.clock),
        directory,
        log: id,
        is_same_boot,
        block,
        memory,
        backpressure,
        scheduler: Arc::new(Scheduler::default()),
        workers: Workers::default(),
        closing_patience: Patience::default(),
        partition_unpersisted_bytes_max: options.partition_unpersisted_bytes_max,
        batch_bytes_max: options.batch_bytes_max,
    };
    Ok((env, opening))
}

/// Descriptors of a log that are always in use: the lock and two journals.
const ALWAYS_OPEN: usize = 3;
/// Descriptors that a thread of the log may need in addition to those of segments: a file and a
/// directory.
const DESCRIPTORS_OF_A_THREAD: usize = 2;
/// Maximum number of threads that are assumed to create regions of shared memory simultaneously.
const APPENDING_THREADS_MAX: usize = 16;

/// Returns the number of descriptors that a log needs in addition to those of its segments.
fn own_descriptors(persisters: usize) -> usize {
    // The persisters, the thread that writes offsets, and a caller that changes the catalog.
    let threads = persisters + 2;
    let appending = std::thread::available_parallelism().map_or(1, usize::from);
    let rewrites = REWRITES_MAX * DESCRIPTORS_OF_A_THREAD;
    let appending = appending.min(APPENDING_THREADS_MAX);
    ALWAYS_OPEN + threads * DESCRIPTORS_OF_A_THREAD + rewrites + appending
}

/// Checks the shared memory in which the log's last process may have left acknowledged batches, if
/// this opening does not use it. Fails if it still contains some. Otherwise the log would be opened
/// without these batches, and a later opening with that memory would mistake them for new batches.
/// Warns if that memory is gone. `name` is the name of the log's shared memory.
fn check_left_memory(
    last: &LastOpening,
    opening: &LastOpening,
    shared: Option<&dyn SharedMemory>,
    name: &str,
    log: u128,
    directory: &Path,
    report: &mut OpenReport,
) -> Result<()> {
    let mut is_there = last.is_marked(shared)?;
    // The directory may be a copy of another log's directory. Then the recorded shared memory
    // belongs to the original log and has a different name.
    let left = last.shared_memory.as_deref().filter(|left| left.ends_with(name));
    let is_other = last.is_same_boot(opening) && left != opening.shared_memory.as_deref();
    if let (Some(path), true) = (left, is_other) {
        match PosixSharedMemory::open_existing(path) {
            Ok(left) => {
                is_there |= last.is_marked(Some(&left))?;
                refuse_batches(&left, log, directory)?;
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                return Err(Error::from(error).while_doing(format_args!(
                    "looking for acknowledged batches that the process that last had the log in \
                     {} open may have left",
                    directory.display()
                )));
            }
        }
    }
    if !is_there {
        report.warnings.push(last.loss());
    }
    Ok(())
}

/// Refuses to open a log without the shared memory `left`, if that contains acknowledged batches of
/// the log.
fn refuse_batches(left: &PosixSharedMemory, log: u128, directory: &Path) -> Result<()> {
    if Survivors::read(left, log)?.has_batches() {
        return Err(Error::invalid(format!(
            "the process that last had the log in {} open left acknowledged batches in {}: open it \
             with that shared memory, or remove that directory to lose them",
            directory.display(),
            left.directory().display()
        )));
    }
    left.remove_if_empty();
    Ok(())
}

/// Records this opening of the log, and marks its shared memory. Returns the record.
pub(super) fn record_opening(
    env: &Env,
    mut opening: LastOpening,
    report: &mut OpenReport,
) -> Result<LastOpening> {
    let shared = env.memory.shared();
    if let Some(shared) = shared.filter(|_| env.memory.allocates_shared()) {
        let unique = new_id(&*env.clock, env.segment_files.storage.identity(&env.directory)?);
        match opening.mark(&**shared, unique) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NoSpace => report.warnings.push(format!(
                "the shared memory is full: if it is removed while the log is not open, the log \
                 does not notice that messages are lost ({error})"
            )),
            Err(error) => return Err(error),
        }
    }
    match opening.record(&*env.segment_files.storage, &env.directory) {
        Ok(()) => {}
        // The log opens on a full disk, too. The former record and its mark stay.
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            report.warnings.push(format!("the opening of the log cannot be recorded: {error}"));
            if let Some(shared) = shared {
                opening.unmark(&**shared);
            }
            return Ok(opening);
        }
        Err(error) => return Err(error),
    }
    if let Some(shared) = shared {
        opening.remove_other_marks(&**shared)?;
    }
    Ok(opening)
}

/// Determines the I/O mode for one kind of access, by trying direct I/O in a directory. Returns the
/// effective mode and the alignment it needs, in bytes.
fn choose(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    choice: IoModeChoice,
    access: Access,
    what: &str,
    report: &mut OpenReport,
) -> Result<(IoMode, usize)> {
    if choice == IoModeChoice::Buffered {
        return Ok((IoMode::Buffered, ALIGNMENT));
    }
    let probe = probe(&**storage, directory, IoMode::Direct, access)?;
    match (&probe.answer, choice) {
        (Answer::Works, _) | (Answer::Untried, IoModeChoice::Direct) => {
            Ok((IoMode::Direct, probe.alignment))
        }
        (answer, IoModeChoice::Direct) => {
            let message = format!(
                "{what}_io_mode=direct: on {} ({}) direct I/O {answer}",
                directory.display(),
                probe.filesystem
            );
            Err(Error::new(ErrorKind::NotSupported, message))
        }
        (answer, _) => {
            report.warnings.push(format!(
                "segments are {what} through the page cache: on {} ({}) direct I/O {answer}",
                directory.display(),
                probe.filesystem,
            ));
            Ok((IoMode::Buffered, ALIGNMENT))
        }
    }
}

/// Opens the shared memory for the tails (the recent batches of each partition); `None` if private
/// memory is to be used.
fn shared_memory(
    options: &LogOptions,
    directory: &Path,
    report: &mut OpenReport,
) -> Result<Option<Arc<dyn SharedMemory>>> {
    match &options.tail_memory {
        TailMemory::Private => Ok(None),
        TailMemory::Shared(shared) => Ok(Some(Arc::clone(shared))),
        // The caller chose this directory, so failing to open it is an error and not just a
        // warning.
        TailMemory::Directory(parent) => open_shared(options, directory, parent, report).map(Some),
        TailMemory::Automatic => {
            match open_shared(options, directory, Path::new("/dev/shm"), report) {
                Ok(shared) => Ok(Some(shared)),
                Err(error) => {
                    no_shared_memory(&error.to_string(), report);
                    Ok(None)
                }
            }
        }
    }
}

fn no_shared_memory(why: &str, report: &mut OpenReport) {
    report.warnings.push(format!(
        "there is no shared memory ({why}): appends to topics with durability 'process' wait for \
         the write to the segment"
    ));
}

/// Prefix of the names of directories in which logs keep their shared memory.
const SHARED_PREFIX: &str = "tailwater-log-";

/// Returns the name of the directory in which a log keeps its shared memory. It is derived from the
/// identity (device and inode) of the log's directory, so that a copy of a log does not use the
/// shared memory of the original.
fn shared_name(identity: FileIdentity) -> String {
    format!("{SHARED_PREFIX}{:x}-{:x}", identity.device, identity.inode)
}

/// Opens the shared memory of a log below `parent`, and warns about shared memory there whose log
/// no longer exists.
fn open_shared(
    options: &LogOptions,
    directory: &Path,
    parent: &Path,
    report: &mut OpenReport,
) -> Result<Arc<dyn SharedMemory>> {
    let name = shared_name(options.storage.identity(directory)?);
    let shared = PosixSharedMemory::open(&parent.join(&name))?;
    shared.set_owner(directory)?;
    for Sibling { directory: other, owner, bytes } in siblings(parent, SHARED_PREFIX)? {
        let is_left_over = match options.storage.identity(&owner) {
            Ok(identity) => !other.ends_with(shared_name(identity)),
            Err(error) => error.is_not_found(),
        };
        if is_left_over && bytes > 0 {
            report.warnings.push(format!(
                "{} ({bytes} bytes) is shared memory of a log in {}, which no longer exists",
                other.display(),
                owner.display()
            ));
        }
    }
    Ok(Arc::new(shared))
}

/// Opens every partition in the catalog.
pub(super) fn open_partitions(
    env: &Arc<Env>,
    catalog: &Arc<Catalog>,
    streams: &BTreeMap<u32, StreamInfo>,
    report: &mut OpenReport,
) -> Result<BTreeMap<PartitionId, Arc<Partition>>> {
    let mut survivors = match env.memory.shared() {
        Some(shared) => Survivors::read(&**shared, env.log)?,
        None => Survivors::default(),
    };
    report.warnings.append(&mut survivors.refused);
    let unclaimed = survivors
        .take_unclaimed(|id, incarnation| incarnation_of(streams, id) == Some(incarnation));
    // Remove unclaimed regions before recovery, because recovery itself needs space in shared
    // memory.
    for region in unclaimed {
        if let Some(shared) = env.memory.shared() {
            shared.remove(&region)?;
        }
    }
    let mut partitions = BTreeMap::new();
    for (stream, info) in streams {
        for (topic, info) in &info.topics {
            for (partition, PartitionInfo { incarnation, .. }) in &info.partitions {
                let id = PartitionId { stream: *stream, topic: *topic, partition: *partition };
                let left = survivors.take(id, *incarnation);
                let options = info.options.clone();
                let (opened, recovered) =
                    recovery::open(env, catalog, id, *incarnation, options, left)?;
                partitions.insert(id, opened);
                if recovered.is_notable() {
                    report.partitions.push((id, recovered));
                }
            }
        }
    }
    Ok(partitions)
}
