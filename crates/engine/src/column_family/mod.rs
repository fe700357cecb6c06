//! Open column families: their memtables, versions and settings, and the resources for reading from
//! them.

mod flush_reason;
mod open_files;
mod readers;
mod set;
mod settings;
mod super_version;

pub(crate) use flush_reason::FlushReason;
pub(crate) use open_files::OpenFiles;
pub(crate) use readers::{FamilyReaders, ReaderFactory};
pub(crate) use set::FamilySet;
pub(crate) use settings::FamilySettings;
pub(crate) use super_version::SuperVersion;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

use tailwater_format::Comparator;
use tailwater_format::batch::AsColumnFamilyId;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_io::sync::Mutex;

use crate::epoch::FullEpochCell;
use crate::memtable::{Account, MemTable};
use crate::merge_operator::FamilyMergeOperator;
use crate::opening::OpeningId;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::stats::FamilyStatistics;
use crate::version::Version;
use crate::write_buffer_manager::WriteBufferManager;

/// An open column family. Clones are handles to the same column family.
///
/// A handle is valid only for the opening of the database that returned it. Other databases refuse
/// the handle, and so does another opening of the same database, for writing or for reading.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory)?;
/// use tailwater::options::ColumnFamilyOptions;
///
/// let users = db.create_cf("users", &ColumnFamilyOptions::default())?;
/// db.put_cf(&users, "ada", "lovelace")?;
/// assert!(db.get("ada")?.is_none(), "the column family `default` has its own keys");
/// assert_eq!(db.cf_handle("users")?.id(), users.id());
///
/// db.drop_cf(&users)?;
/// assert!(db.put_cf(&users, "alan", "turing").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Identifies the open database handle to which the column family belongs.
    opening: OpeningId,
    id: u32,
    name: String,
    comparator: Comparator,
    /// Whether batches may write to the column family; false with the option
    /// `disallow_memtable_writes`.
    takes_writes: bool,
    /// Whether the column family has a merge operator that this process knows.
    merges: bool,
    current: FullEpochCell<SuperVersion>,
    /// The number of the current super version. By comparing it with the number of its own super
    /// version, an iterator detects that its own is outdated.
    current_number: Arc<AtomicU64>,
    memory: Mutex<Memory>,
    statistics: FamilyStatistics,
    dropped: AtomicBool,
    /// Whether sealed memtables must be flushed even if they are fewer than the option
    /// `min_write_buffer_number_to_merge`.
    flush_requested: AtomicBool,
    /// Counts the memory of the memtables, if the database has one.
    write_buffer_manager: Option<Arc<WriteBufferManager>>,
}

/// The components of the current super version, and what is needed to create the next one.
#[derive(Debug)]
struct Memory {
    active: Arc<MemTable>,
    /// Sealed memtables, the oldest first.
    sealed: Vec<SealedMemTable>,
    version: Arc<Version>,
    settings: Arc<FamilySettings>,
    /// The versions that may still be in use. A version that is no longer in use is removed from
    /// the list later.
    versions: Vec<Weak<Version>>,
    /// The memtables that were flushed, and that reads may still use. A memtable that is no longer
    /// in use is removed from the list later.
    flushed: Vec<Weak<MemTable>>,
    /// Number of super versions created so far.
    super_versions: u64,
}

/// A memtable that accepts no more entries.
#[derive(Debug, Clone)]
pub(crate) struct SealedMemTable {
    pub(crate) memtable: Arc<MemTable>,
    /// Number of the first log that may hold entries of the memtable that follows this one. After
    /// this memtable is flushed, the column family no longer needs logs with lower numbers.
    pub(crate) next_log_number: u64,
    /// Why the memtable was sealed.
    pub(crate) reason: FlushReason,
}

/// Creates an empty memtable. The keys that users find there are noted if flushes keep their
/// entries in the caches. `manager` counts its memory.
fn new_memtable(
    settings: &FamilySettings,
    manager: Option<&Arc<WriteBufferManager>>,
) -> Arc<MemTable> {
    let tables = &settings.readers.tables;
    let filter = settings.memtable_filter.as_ref();
    let account = Account::new(manager, tables.context().bin.clone());
    let memtable = Arc::new(MemTable::new(tables.comparator().clone(), filter, account));
    if let Some(handover) = tables.context().handover.as_ref().filter(|it| it.shares.flushes) {
        memtable.note_reads_in(&handover.recent_keys);
    }
    memtable
}

impl ColumnFamily {
    /// Creates a column family with an empty active memtable and the tables of `version`.
    /// `write_buffer_manager` counts the memory of its memtables.
    pub(crate) fn new(
        opening: OpeningId,
        id: u32,
        name: String,
        options: ColumnFamilyOptions,
        readers: Arc<FamilyReaders>,
        version: Arc<Version>,
        write_buffer_manager: Option<Arc<WriteBufferManager>>,
    ) -> Self {
        let comparator = readers.tables.comparator().clone();
        let takes_writes = !options.disallow_memtable_writes;
        let merges = matches!(readers.merge_operator, FamilyMergeOperator::Known(_));
        let bin = readers.tables.context().bin.clone();
        let settings = Arc::new(FamilySettings::new(options, readers));
        let active = new_memtable(&settings, write_buffer_manager.as_ref());
        let statistics = FamilyStatistics::new(version.levels().len());
        let memory = Memory::new(active, version, settings);
        let current = FullEpochCell::in_bin(bin, Arc::new(memory.super_version()));
        Self {
            inner: Arc::new(Inner {
                opening,
                id,
                name,
                comparator,
                takes_writes,
                merges,
                current,
                current_number: Arc::new(AtomicU64::new(memory.super_versions)),
                memory: Mutex::new(memory),
                statistics,
                dropped: AtomicBool::new(false),
                flush_requested: AtomicBool::new(false),
                write_buffer_manager,
            }),
        }
    }

    /// Returns the identifier of the open database handle to which the column family belongs.
    #[inline]
    pub(crate) fn opening(&self) -> OpeningId {
        self.inner.opening
    }

    /// Returns the ID of the column family, which is never reused; that of `default` is 0.
    pub fn id(&self) -> u32 {
        self.inner.id
    }

    /// Returns the name of the column family.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the comparator of the column family's keys.
    pub fn comparator(&self) -> &Comparator {
        &self.inner.comparator
    }

    /// Returns the current options of the column family; [`crate::Db::set_options`] changes them.
    pub fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&self.settings().options)
    }

    /// Returns the current settings of the column family.
    pub(crate) fn settings(&self) -> Arc<FamilySettings> {
        Arc::clone(self.super_version().settings())
    }

    /// Replaces the options of the column family, and the [`FamilyReaders`] that were created from
    /// the options.
    pub(crate) fn change(&self, options: ColumnFamilyOptions, readers: Arc<FamilyReaders>) {
        let mut memory = self.memory();
        memory.settings = Arc::new(FamilySettings::new(options, readers));
        self.publish(&mut memory);
    }

    /// Whether the column family was dropped. Reads still work then; writes are refused.
    pub fn is_dropped(&self) -> bool {
        self.inner.dropped.load(Ordering::Acquire)
    }

    /// Returns the memory that the column family's open tables keep outside the block cache, in
    /// bytes: mostly indexes and filters. Option `max_open_files` bounds the number of open tables,
    /// and `cache_index_and_filter_blocks` moves indexes and filters to the block cache.
    pub fn table_readers_memory(&self) -> usize {
        let source = self.super_version();
        let files = source.version().files();
        files.filter_map(|(_, file)| file.reader.get()).map(|table| table.memory()).sum()
    }

    /// Returns the statistics of the column family.
    pub(crate) fn statistics(&self) -> &FamilyStatistics {
        &self.inner.statistics
    }

    /// Returns the versions that may still be in use.
    pub(crate) fn live_versions(&self) -> Vec<Arc<Version>> {
        self.memory().versions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a handle to the column family through which its super versions can be obtained, and
    /// which keeps none of its data alive.
    pub(crate) fn downgrade(&self) -> WeakFamily {
        WeakFamily {
            number: Arc::clone(&self.inner.current_number),
            family: Arc::downgrade(&self.inner),
        }
    }

    /// Returns what counts the memory of the memtables, if the database has a manager.
    pub(crate) fn write_buffer_manager(&self) -> Option<&WriteBufferManager> {
        self.inner.write_buffer_manager.as_deref()
    }

    /// Returns the flushed memtables that iterators and other reads keep in memory.
    pub(crate) fn pinned_memtables(&self) -> Vec<Arc<MemTable>> {
        self.memory().flushed.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the cell that holds the current super version.
    #[inline]
    pub(crate) fn current(&self) -> &FullEpochCell<SuperVersion> {
        &self.inner.current
    }

    /// Returns a reference to the current super version.
    pub(crate) fn super_version(&self) -> Arc<SuperVersion> {
        self.inner.current.load_arc()
    }

    /// Returns the resources that all reads of the column family share.
    pub(crate) fn readers(&self) -> Arc<FamilyReaders> {
        Arc::clone(&self.settings().readers)
    }

    /// Returns the path of a new table of level 0, even if the column family has been dropped.
    pub(crate) fn new_table_path(&self, number: u64) -> PathBuf {
        self.readers().tables.directory(0).join(FileKind::Table(number).to_string())
    }

    /// Whether batches may write to the column family.
    #[inline]
    pub(crate) fn takes_writes(&self) -> bool {
        self.inner.takes_writes
    }

    /// Whether the column family has a merge operator that this process knows.
    #[inline]
    pub(crate) fn has_merge_operator(&self) -> bool {
        self.inner.merges
    }

    /// Returns the limit that the active memtable has reached, as the reason to flush it; `None` if
    /// it is not full.
    pub(crate) fn full_reason(&self) -> Option<FlushReason> {
        let source = self.super_version();
        source.memtables().first().and_then(|active| source.reason_to_seal(active))
    }

    /// Sets whether sealed memtables should be flushed even if they are fewer than
    /// `min_write_buffer_number_to_merge`.
    pub(crate) fn request_flush(&self, wanted: bool) {
        self.inner.flush_requested.store(wanted, Ordering::Release);
    }

    /// Whether sealed memtables should be flushed, if `waiting` of them wait for it: there are at
    /// least `min_write_buffer_number_to_merge`, or at least one and a flush was requested.
    pub(crate) fn wants_flush(&self, waiting: usize) -> bool {
        let enough = self.options().min_write_buffer_number_to_merge.max(1) as usize;
        let requested = self.inner.flush_requested.load(Ordering::Acquire);
        waiting >= enough || (waiting > 0 && requested)
    }

    /// Whether the column family is compacted automatically. Only leveled compaction is
    /// implemented.
    pub(crate) fn compacts_by_itself(&self) -> bool {
        let options = self.options();
        !options.disable_auto_compactions && options.compaction_style == CompactionStyle::Level
    }

    /// Whether `other` is a handle to the same column family in the same opening of the database.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Marks the column family as dropped.
    pub(crate) fn set_dropped(&self) {
        self.inner.dropped.store(true, Ordering::Release);
    }

    /// Returns the active memtable.
    pub(crate) fn active(&self) -> Arc<MemTable> {
        Arc::clone(&self.memory().active)
    }

    /// Returns the sealed memtables, the oldest first.
    pub(crate) fn sealed(&self) -> Vec<SealedMemTable> {
        self.memory().sealed.clone()
    }

    /// Whether the first of these memtables is the oldest sealed one, or there is none.
    pub(crate) fn begins_with(&self, memtables: &[SealedMemTable]) -> bool {
        let Some(first) = memtables.first() else { return true };
        let memory = self.memory();
        memory.sealed.first().is_some_and(|it| Arc::ptr_eq(&it.memtable, &first.memtable))
    }

    /// Whether any of these memtables is still sealed and not flushed.
    pub(crate) fn has_any_sealed(&self, memtables: &[SealedMemTable]) -> bool {
        let memory = self.memory();
        memory.sealed.iter().any(|sealed| {
            memtables.iter().any(|other| Arc::ptr_eq(&other.memtable, &sealed.memtable))
        })
    }

    /// Seals the active memtable and begins another. The entries of the new memtable will be in log
    /// `next_log_number` and later logs, and have sequence numbers higher than `sequence`. Only the
    /// leader of the write queue may call this.
    pub(crate) fn seal(&self, next_log_number: u64, sequence: Sequence, reason: FlushReason) {
        let next = self.new_memtable();
        next.begin_at(next_log_number, sequence);
        let mut memory = self.memory();
        let memtable = std::mem::replace(&mut memory.active, next);
        memtable.seal();
        memory.sealed.push(SealedMemTable { memtable, next_log_number, reason });
        self.publish(&mut memory);
    }

    fn new_memtable(&self) -> Arc<MemTable> {
        new_memtable(&self.settings(), self.inner.write_buffer_manager.as_ref())
    }

    /// Replaces all memtables with an empty one, and installs `version`. The tables of `version`
    /// must hold everything that was in the memtables. The new memtable begins at `log_number` and
    /// `sequence`, as described at [`MemTable::begin_at`].
    pub(crate) fn begin_anew(&self, version: Arc<Version>, log_number: u64, sequence: Sequence) {
        let active = self.new_memtable();
        active.begin_at(log_number, sequence);
        let mut memory = self.memory();
        let last = std::mem::replace(&mut memory.active, active);
        last.seal();
        memory.release(&last);
        for sealed in std::mem::take(&mut memory.sealed) {
            memory.release(&sealed.memtable);
        }
        memory.set_version(version);
        self.publish(&mut memory);
    }

    /// Installs a version, and releases the sealed memtables that were flushed to its tables.
    pub(crate) fn install(&self, version: Arc<Version>, flushed: &[SealedMemTable]) {
        let mut memory = self.memory();
        memory.set_version(version);
        memory.sealed.retain(|sealed| {
            !flushed.iter().any(|flushed| Arc::ptr_eq(&flushed.memtable, &sealed.memtable))
        });
        flushed.iter().for_each(|flushed| memory.release(&flushed.memtable));
        self.publish(&mut memory);
    }

    /// Creates a super version from the components in `memory`, and makes it visible to reads.
    fn publish(&self, memory: &mut Memory) {
        memory.super_versions += 1;
        self.inner.current.store(Arc::new(memory.super_version()));
        self.inner.current_number.store(memory.super_versions, Ordering::Relaxed);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.inner.memory.lock()
    }
}

impl AsColumnFamilyId for ColumnFamily {
    #[inline]
    fn column_family_id(&self) -> u32 {
        self.id()
    }
}

/// A weak reference to a column family. The reference keeps none of the column family's data alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakFamily {
    number: Arc<AtomicU64>,
    family: Weak<Inner>,
}

impl WeakFamily {
    /// Returns the number of the super version that reads see. The load is relaxed, so a reader may
    /// see the new number earlier or later than the new super version itself.
    #[inline]
    pub(crate) fn super_version_number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns a reference to the current super version; `None` if the column family no longer
    /// exists.
    pub(crate) fn super_version(&self) -> Option<Arc<SuperVersion>> {
        let family = ColumnFamily { inner: self.family.upgrade()? };
        Some(family.super_version())
    }
}

/// Charges the metadata of a version's files to the block cache, if the options say so.
fn charge_files(version: &Version, settings: &FamilySettings) {
    if let Some(cache) = &settings.readers.tables.context().charges.files {
        version.files().for_each(|(_, file)| file.charge_to(cache));
    }
}

impl Memory {
    fn new(active: Arc<MemTable>, version: Arc<Version>, settings: Arc<FamilySettings>) -> Self {
        let versions = vec![Arc::downgrade(&version)];
        charge_files(&version, &settings);
        let (sealed, flushed) = (Vec::new(), Vec::new());
        Self { active, sealed, version, settings, versions, flushed, super_versions: 1 }
    }

    /// Records that a memtable is no longer part of the column family, although reads may still use
    /// it.
    fn release(&mut self, memtable: &Arc<MemTable>) {
        self.flushed.retain(|memtable| memtable.strong_count() > 0);
        self.flushed.push(Arc::downgrade(memtable));
    }

    fn set_version(&mut self, version: Arc<Version>) {
        self.versions.retain(|version| version.strong_count() > 0);
        self.versions.push(Arc::downgrade(&version));
        charge_files(&version, &self.settings);
        self.version = version;
    }

    fn super_version(&self) -> SuperVersion {
        let sealed = self.sealed.iter().rev().map(|sealed| Arc::clone(&sealed.memtable));
        let memtables = std::iter::once(Arc::clone(&self.active)).chain(sealed).collect();
        let version = Arc::clone(&self.version);
        SuperVersion::new(self.super_versions, memtables, version, Arc::clone(&self.settings))
    }
}
