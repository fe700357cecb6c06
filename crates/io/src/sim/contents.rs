//! The contents of a simulated file: the bytes that reads return, the bytes that are durable, and
//! the changes that lead from the durable to the current bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Size of a sector, which the simulated disk writes atomically, in bytes.
pub const SECTOR: u64 = 512;

/// A change of a file's bytes that was not made durable by a sync.
#[derive(Debug, Clone)]
enum Pending {
    Write { offset: u64, bytes: Arc<[u8]> },
    Truncate { length: u64 },
}

/// The contents of a simulated file.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// The changes that are not durable, oldest first.
    pending: Vec<Pending>,
    /// Whether a sync failed and lost changes, so that the page cache has bytes that the device
    /// lacks.
    has_lost: bool,
    pub(super) modified_us: u64,
}

impl Contents {
    /// Creates an empty file.
    pub(super) fn new(modified_us: u64) -> Self {
        Self { modified_us, ..Self::default() }
    }

    /// Creates a file whose bytes are all durable.
    fn new_durable(bytes: Vec<u8>, modified_us: u64) -> Self {
        Self { current: bytes.clone(), durable: bytes, modified_us, ..Self::default() }
    }

    pub(super) fn length(&self) -> u64 {
        self.current.len() as u64
    }

    /// Copies the current bytes at `offset` into `buffer`. Returns the number of bytes copied,
    /// which is lower than the length of `buffer` at the end of the file.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let start = offset.min(self.length()) as usize;
        let count = buffer.len().min(self.current.len() - start);
        buffer[..count].copy_from_slice(&self.current[start..start + count]);
        count
    }

    /// Reads from the device, as direct I/O does. Bytes that a failed sync lost are only in the
    /// page cache, so they are not returned.
    pub(super) fn read_direct(&self, buffer: &mut [u8], offset: u64) -> usize {
        if !self.has_lost {
            return self.read(buffer, offset);
        }
        let mut device = self.clone();
        device.sync();
        device.durable.resize(self.current.len(), 0);
        device.current = device.durable.clone();
        device.read(buffer, offset)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &Arc<[u8]>, modified_us: u64) {
        put(&mut self.current, offset, bytes);
        self.pending.push(Pending::Write { offset, bytes: Arc::clone(bytes) });
        self.modified_us = modified_us;
    }

    pub(super) fn truncate(&mut self, length: u64, modified_us: u64) {
        self.current.resize(length as usize, 0);
        self.pending.push(Pending::Truncate { length });
        self.modified_us = modified_us;
    }

    /// Makes all changes so far durable.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Pending::Write { offset, bytes } => put(&mut self.durable, offset, &bytes),
                Pending::Truncate { length } => self.durable.resize(length as usize, 0),
            }
        }
    }

    /// Makes all pending writes to the bytes of `span` durable. If a truncation is pending, it
    /// becomes durable too, together with every change before it. Other changes stay pending.
    pub(super) fn sync_span(&mut self, span: Range<u64>) {
        // A truncation changes the length of the file, and a read of `span` may depend on the
        // length. Therefore all pending truncations become durable, together with all changes made
        // before them.
        let is_cut = |change: &Pending| matches!(change, Pending::Truncate { .. });
        if let Some(last_cut) = self.pending.iter().rposition(is_cut) {
            let later = self.pending.split_off(last_cut + 1);
            self.sync();
            self.pending = later;
        }
        for change in std::mem::take(&mut self.pending) {
            let Pending::Write { offset, bytes } = change else { continue };
            let end = offset + bytes.len() as u64;
            let (from, to) = (span.start.clamp(offset, end), span.end.clamp(offset, end));
            if from >= to {
                self.pending.push(Pending::Write { offset, bytes });
                continue;
            }
            let part =
                |from: u64, to: u64| &bytes[(from - offset) as usize..(to - offset) as usize];
            put(&mut self.durable, from, part(from, to));
            for (from, to) in [(offset, from), (to, end)] {
                if from < to {
                    let bytes = Arc::from(part(from, to));
                    self.pending.push(Pending::Write { offset: from, bytes });
                }
            }
        }
    }

    /// Simulates a failed sync. A random part of the pending changes becomes durable. The rest is
    /// lost, because the system treats all changes as written to the device.
    pub(super) fn fail_sync(&mut self, random: &mut fastrand::Rng) {
        self.durable = self.bytes_after_crash(random);
        self.pending.clear();
        self.has_lost |= self.durable != self.current;
    }

    /// Returns the contents after a power cut, in which a random part of the pending changes
    /// survives.
    pub(super) fn after_crash(&self, random: &mut fastrand::Rng) -> Self {
        Self::new_durable(self.bytes_after_crash(random), self.modified_us)
    }

    fn bytes_after_crash(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        // In half of the cases none or all of the changes survive, as is usual with disks.
        // Independent random choices for many sectors would hardly ever have this result.
        match random.u8(..4) {
            0 => self.durable.clone(),
            1 => {
                let mut synced = self.clone();
                synced.sync();
                synced.durable
            }
            _ => Survivor::choose(self, random).bytes,
        }
    }
}

/// Writes `bytes` at `offset` of `file`, which grows if necessary. A gap before `offset` is filled
/// with zeros.
fn put(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    let end = start + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

/// The contents of a file after a power cut. Chooses separately for each sector which of the
/// pending changes reached the disk.
///
/// Truncations are metadata, which reaches the disk in order: a random number of the oldest
/// truncations reached it. They limit the choice for each sector. If a truncation that cut the
/// sector reached the disk, all earlier writes to the sector count as having reached it. If a
/// truncation that would have cut the sector did not reach the disk, no later write to the sector
/// did.
struct Survivor<'a> {
    pending: &'a [Pending],
    /// Index in `pending`. The truncations before this index reached the disk, the others did not.
    truncated_before: usize,
    bytes: Vec<u8>,
}

impl<'a> Survivor<'a> {
    fn choose(file: &'a Contents, random: &mut fastrand::Rng) -> Self {
        let pending = file.pending.as_slice();
        let truncations: Vec<usize> = (0..pending.len())
            .filter(|&index| matches!(pending[index], Pending::Truncate { .. }))
            .collect();
        let arrived = random.usize(..=truncations.len());
        let truncated_before = truncations.get(arrived).copied().unwrap_or(pending.len());
        let mut survivor = Self { pending, truncated_before, bytes: file.durable.clone() };
        let length = survivor.choose_length(random);
        survivor.apply(random);
        survivor.bytes.resize(length as usize, 0);
        survivor
    }

    /// Chooses the length of the file after the power cut. The period considered begins with the
    /// last truncation that reached the disk and ends before the first truncation that did not. The
    /// chosen length is one of the file's lengths in this period, or lies between two of them.
    fn choose_length(&self, random: &mut fastrand::Rng) -> u64 {
        let mut length = self.bytes.len() as u64;
        let mut seen = vec![length];
        for change in &self.pending[..self.truncated_before] {
            match change {
                Pending::Write { offset, bytes } => {
                    length = length.max(offset + bytes.len() as u64);
                    seen.push(length);
                }
                Pending::Truncate { length: cut } => {
                    length = *cut;
                    seen = vec![length];
                }
            }
        }
        let first = seen[0];
        if random.bool() {
            return seen[random.usize(..seen.len())];
        }
        let between = random.u64(first..=length);
        (between - between % SECTOR).max(first)
    }

    fn apply(&mut self, random: &mut fastrand::Rng) {
        let chosen = self.choose_versions(random);
        for (index, change) in self.pending.iter().enumerate() {
            match change {
                Pending::Truncate { length } if index < self.truncated_before => {
                    self.bytes.resize(*length as usize, 0);
                }
                Pending::Truncate { .. } => {}
                Pending::Write { offset, bytes } => {
                    for (start, part) in sectors(*offset, bytes) {
                        if chosen.get(&(start / SECTOR)).is_some_and(|&before| index < before) {
                            put(&mut self.bytes, start, part);
                        }
                    }
                }
            }
        }
    }

    /// Chooses an index in `pending` for each written sector. Writes to the sector reached the disk
    /// if their index in `pending` is lower than the chosen index.
    fn choose_versions(&self, random: &mut fastrand::Rng) -> BTreeMap<u64, usize> {
        let mut writes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, change) in self.pending.iter().enumerate() {
            if let Pending::Write { offset, bytes } = change {
                for (start, _) in sectors(*offset, bytes) {
                    writes.entry(start / SECTOR).or_default().push(index);
                }
            }
        }
        let choose = |(sector, writes): (u64, Vec<usize>)| {
            let (from, to) = self.bounds(sector);
            let free: Vec<usize> =
                writes.into_iter().filter(|write| (from..to).contains(write)).collect();
            let before = match random.usize(..=free.len()) {
                0 => from,
                count => free[count - 1] + 1,
            };
            (sector, before)
        };
        writes.into_iter().map(choose).collect()
    }

    /// Returns the lowest and the highest index in `pending` that [`Self::choose_versions`] may
    /// choose for a sector. The lowest is the index of the last truncation that reached the disk
    /// and cut the sector; 0 if there is none. The highest is the index of the first truncation
    /// that did not reach the disk and would have cut the sector; `pending.len()` if there is none.
    fn bounds(&self, sector: u64) -> (usize, usize) {
        let cuts = |index: &usize| match self.pending[*index] {
            Pending::Truncate { length } => length < (sector + 1) * SECTOR,
            Pending::Write { .. } => false,
        };
        let from = (0..self.truncated_before).rev().find(cuts).unwrap_or(0);
        let to = (self.truncated_before..self.pending.len()).find(cuts);
        (from, to.unwrap_or(self.pending.len()))
    }
}

/// Splits a write at the boundaries of sectors. Returns the offset and the bytes of each part.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut start = offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let room = (SECTOR - start % SECTOR) as usize;
        let (part, after) = rest.split_at(room.min(rest.len()));
        let answer = (start, part);
        start += part.len() as u64;
        rest = after;
        Some(answer)
    })
}
