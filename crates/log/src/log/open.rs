//! Opening a log: what its options come to in its directory, and its partitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::buffer::{ALIGNMENT, BufferPool};
use tailwater_io::probe::{Access, Answer, probe};
use tailwater_io::shared_memory::PosixSharedMemory;
use tailwater_io::{Clock, IoMode, SharedMemory, Storage};

use crate::catalog::{Catalog, PartitionId, PartitionInfo, StreamInfo};
use crate::env::Env;
use crate::options::{IoModeChoice, LogOptions, TailMemory as TailMemoryChoice};
use crate::partition::Partition;
use crate::partition::recovery::{self, Recovered};
use crate::persister::Scheduler;
use crate::room::Room;
use crate::tail::TailMemory;
use crate::tail::survivors::Survivors;
use crate::{Error, ErrorKind, Result, identity};

/// What opening a log found.
#[derive(Debug, Clone, Default)]
pub struct OpenReport {
    /// What is worth a warning, in words.
    pub warnings: Vec<String>,
    /// How segments are written and read, and where unpersisted messages are kept.
    pub modes: Modes,
    /// Partitions of which something was recovered, cut off or damaged.
    pub partitions: Vec<(PartitionId, Recovered)>,
}

/// What was asked for and what is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modes {
    /// How segments are written: `direct` or `buffered`.
    pub append: &'static str,
    /// How segments are read.
    pub read: &'static str,
    /// Where the tails of topics of durability `process` are: `shared memory` or `private memory`.
    pub tail: &'static str,
    /// Unit in which segments are written, in bytes.
    pub block: u64,
}

pub(super) fn incarnation_of(streams: &BTreeMap<u32, StreamInfo>, id: PartitionId) -> Option<u64> {
    let topic = streams.get(&id.stream)?.topics.get(&id.topic)?;
    Some(topic.partitions.get(&id.partition)?.incarnation)
}

/// Makes an id that no other log has.
pub(super) fn new_id(clock: &dyn Clock, identity: tailwater_io::FileIdentity) -> u128 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds each of these from the system's random numbers.
    let random = RandomState::new().hash_one((identity, clock.monotonic_ns()));
    u128::from(random) << 64 | u128::from(clock.wall_us() ^ identity.inode.rotate_left(40))
}

pub(super) fn open_env(
    options: &LogOptions,
    directory: PathBuf,
    id: u128,
    report: &mut OpenReport,
) -> Result<Env> {
    let storage = &options.storage;
    let (append_mode, append_block) =
        choose(storage, &directory, options.append_io_mode, Access::Write, "append", report)?;
    let (read_mode, _) =
        choose(storage, &directory, options.read_io_mode, Access::Read, "read", report)?;
    let block = append_block.max(ALIGNMENT) as u64;
    let shared = shared_memory(options, &directory, block, report)?;
    report.modes = Modes {
        append: append_mode.name(),
        read: read_mode.name(),
        tail: if shared.is_some() { "shared memory" } else { "private memory" },
        block,
    };
    let is_same_boot = identity::note_boot(&**storage, &directory, options.boot_id.as_deref())?;
    let room = Arc::new(Room::default());
    let memory = TailMemory::new(shared, options.tail_bytes_max, Arc::clone(&room))?;
    Ok(Env {
        storage: Arc::clone(storage),
        clock: Arc::clone(&options.clock),
        directory,
        log: id,
        append_mode,
        syncs_appends: options.syncs_appends,
        is_same_boot,
        read_mode,
        block,
        memory,
        room,
        scheduler: Arc::new(Scheduler::default()),
        read_buffers: BufferPool::new(options.read_ahead_bytes_max),
        partition_unpersisted_bytes_max: options.partition_unpersisted_bytes_max,
        batch_bytes_max: options.batch_bytes_max,
    })
}

/// Tries an I/O mode in the log's directory. Returns the mode and its alignment.
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
        (Answer::Works, _) => Ok((IoMode::Direct, probe.alignment)),
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

/// Opens the shared memory that belongs to this directory.
fn shared_memory(
    options: &LogOptions,
    directory: &Path,
    block: u64,
    report: &mut OpenReport,
) -> Result<Option<Arc<dyn SharedMemory>>> {
    let opened = match &options.tail_memory {
        TailMemoryChoice::Private => return Ok(None),
        TailMemoryChoice::Shared(shared) => Ok(Arc::clone(shared)),
        TailMemoryChoice::Directory(parent) => {
            // Whoever named a directory wants it.
            return open_shared(options, directory, parent).map(Some);
        }
        TailMemoryChoice::Automatic => open_shared(options, directory, Path::new("/dev/shm")),
    };
    let why = match opened {
        Ok(_) if block > ALIGNMENT as u64 => format!("the device's blocks have {block} bytes"),
        Ok(shared) => return Ok(Some(shared)),
        Err(error) => error.to_string(),
    };
    report.warnings.push(format!(
        "there is no shared memory ({why}): appends to topics of durability 'process' wait for the \
         write to the segment"
    ));
    Ok(None)
}

/// Opens the shared memory of one log. Its name is that of the directory's inode, so that a copy of
/// the directory does not take the original's.
fn open_shared(
    options: &LogOptions,
    directory: &Path,
    parent: &Path,
) -> Result<Arc<dyn SharedMemory>> {
    let identity = options.storage.identity(directory)?;
    let name = format!("tailwater-log-{:x}-{:x}", identity.device, identity.inode);
    Ok(Arc::new(PosixSharedMemory::open(&parent.join(name))?))
}

/// Opens all partitions that the catalog names.
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
    let mut partitions = BTreeMap::new();
    let mut regions = Vec::new();
    for (stream, info) in streams {
        for (topic, info) in &info.topics {
            for (partition, PartitionInfo { incarnation, .. }) in &info.partitions {
                let id = PartitionId { stream: *stream, topic: *topic, partition: *partition };
                let left = survivors.take(id, *incarnation);
                let (opened, recovered) =
                    recovery::open(env, catalog, id, *incarnation, info.options.clone(), &left)?;
                match &recovered.fenced {
                    None => regions.extend(left.into_iter().map(|survivor| survivor.region)),
                    Some(error) => report.warnings.push(format!("{id} takes no appends: {error}")),
                }
                report.warnings.extend(recovered.notes.iter().cloned());
                partitions.insert(id, opened);
                if recovered.is_notable() {
                    report.partitions.push((id, recovered));
                }
            }
        }
    }
    // What they held is persisted, or nobody's. What a fenced partition left stays for its next
    // opening.
    regions.extend(survivors.regions_of_nobody());
    if let Some(shared) = env.memory.shared() {
        for region in regions {
            shared.remove(&region)?;
        }
    }
    Ok(partitions)
}
