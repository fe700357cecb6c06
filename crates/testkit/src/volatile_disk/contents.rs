//! The contents of a disk: the newest bytes of all sectors. For each sector that was written since
//! the last flush, also its older states, to which a power cut may revert it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use fastrand::Rng;

/// The newest bytes of all sectors, and older states of sectors that were written since the last
/// flush.
#[derive(Debug)]
pub(super) struct Contents {
    bytes: Vec<u8>,
    /// Size of a sector in bytes. After a power cut, each sector contains all or none of the bytes
    /// that a write has put into it.
    sector: usize,
    /// Number of the next write. Writes are numbered from 0.
    next: u64,
    /// Older states of sectors, to which a power cut may revert them, by sector number. The states
    /// of a sector are in chronological order. The first one is the durable state.
    older: BTreeMap<usize, Vec<Older>>,
}

/// The bytes that a sector had until the write with the number `replaced_by` replaced them.
#[derive(Debug)]
struct Older {
    replaced_by: u64,
    bytes: Box<[u8]>,
}

/// The effect of a power cut on the sectors that were written since the last flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Number of sectors written since the last flush.
    pub pending: usize,
    /// Number of pending sectors that the power cut reverted to an older state.
    pub lost: usize,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} pending sectors lost", self.lost, self.pending)
    }
}

impl Contents {
    /// Creates contents of `size` zeros. `size` must be a multiple of `sector`.
    pub(super) fn new(size: usize, sector: usize) -> Self {
        Self { bytes: vec![0; size], sector, next: 0, older: BTreeMap::new() }
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the current values of `length` bytes from `offset`, or of fewer bytes at the end of
    /// the disk. Returns `None` if `offset` is beyond the end of the disk.
    pub(super) fn read(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let rest = self.bytes.get(usize::try_from(offset).ok()?..)?;
        Some(&rest[..length.min(rest.len())])
    }

    /// Writes `data` at `offset`. If it would exceed the end of the disk, writes nothing and
    /// returns `None`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(data.len()).filter(|&end| end <= self.bytes.len())?;
        let number = self.next;
        self.next += 1;
        let mut at = start;
        while at < end {
            let sector = at / self.sector;
            let until = end.min((sector + 1) * self.sector);
            self.write_sector(sector, at..until, &data[at - start..until - start], number);
            at = until;
        }
        Some(())
    }

    fn write_sector(&mut self, sector: usize, place: Range<usize>, data: &[u8], number: u64) {
        // A write that does not change the sector leaves no older state to keep.
        if self.bytes[place.clone()] == *data {
            return;
        }
        let bytes = self.bytes[self.place(sector)].into();
        self.older.entry(sector).or_default().push(Older { replaced_by: number, bytes });
        self.bytes[place].copy_from_slice(data);
    }

    /// Returns a mark that separates the writes so far from later writes. A flush takes the mark
    /// when it begins, and passes it to [`Contents::settle`] when it ends.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// Makes durable the writes that precede `mark`: drops the older states that these writes
    /// replaced. `mark` is a result of [`Contents::mark`].
    pub(super) fn settle(&mut self, mark: u64) {
        self.older.retain(|_, older| {
            older.retain(|older| older.replaced_by >= mark);
            !older.is_empty()
        });
    }

    /// Applies a power cut to the sectors that were written since the last flush.
    ///
    /// With a probability of 1/4, the cut loses nothing. With a probability of 1/4, it reverts all
    /// these sectors to their durable states. Otherwise, it chooses a random state for each sector:
    /// its durable state, its newest state, or any state in between.
    pub(super) fn lose(&mut self, rng: &mut Rng) -> Loss {
        let older = std::mem::take(&mut self.older);
        let mut loss = Loss { pending: older.len(), lost: 0 };
        let fate = rng.u8(..4);
        for (sector, older) in older {
            let chosen = match fate {
                0 => older.len(),
                1 => 0,
                _ => rng.usize(..=older.len()),
            };
            if let Some(older) = older.get(chosen) {
                let place = self.place(sector);
                self.bytes[place].copy_from_slice(&older.bytes);
                loss.lost += 1;
            }
        }
        loss
    }

    fn place(&self, sector: usize) -> Range<usize> {
        sector * self.sector..(sector + 1) * self.sector
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;

    use super::{Contents, Loss};

    const SECTOR: usize = 512;

    fn filled(byte: u8) -> Vec<u8> {
        vec![byte; SECTOR]
    }

    /// Returns the first byte of each sector. Checks that all bytes of a sector are equal, as they
    /// are if no sector was torn.
    fn sectors(contents: &Contents) -> Vec<u8> {
        let whole = contents.read(0, contents.size()).expect("all of it");
        let sectors = whole.chunks(SECTOR).map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
            sector[0]
        });
        sectors.collect()
    }

    #[test]
    fn flushed_sectors_survive() {
        for seed in 0..100 {
            let mut contents = Contents::new(4 * SECTOR, SECTOR);
            contents.write(0, &[1; 4 * SECTOR]).expect("room");
            contents.settle(contents.mark());
            assert_eq!(contents.lose(&mut Rng::with_seed(seed)), Loss { pending: 0, lost: 0 });
            assert_eq!(sectors(&contents), [1; 4]);
        }
    }

    #[test]
    fn each_unflushed_sector_keeps_one_of_its_states() {
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            let mut contents = Contents::new(3 * SECTOR, SECTOR);
            contents.write(0, &[1; 3 * SECTOR]).expect("room");
            contents.settle(contents.mark());
            contents.write(0, &[2; 2 * SECTOR]).expect("room");
            contents.write(0, &filled(3)).expect("room");
            let loss = contents.lose(&mut Rng::with_seed(seed));
            let left = sectors(&contents);
            assert_eq!(loss.pending, 2);
            assert_eq!(loss.lost, usize::from(left[0] != 3) + usize::from(left[1] != 2));
            seen.insert(left);
        }
        let expected = [[1, 1, 1], [1, 2, 1], [2, 1, 1], [2, 2, 1], [3, 1, 1], [3, 2, 1]];
        assert_eq!(seen, expected.into_iter().map(Vec::from).collect());
    }

    #[test]
    fn a_flush_is_for_what_came_before_it() {
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let mut contents = Contents::new(2 * SECTOR, SECTOR);
            contents.write(0, &[1; 2 * SECTOR]).expect("room");
            let mark = contents.mark();
            contents.write(0, &filled(2)).expect("room");
            contents.settle(mark);
            contents.lose(&mut Rng::with_seed(seed));
            seen.insert(sectors(&contents));
        }
        assert_eq!(seen, BTreeSet::from([vec![1, 1], vec![2, 1]]));
    }

    #[test]
    fn partial_sector_writes_survive_or_vanish_as_whole_sectors() {
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let mut contents = Contents::new(SECTOR, SECTOR);
            contents.write(0, &filled(1)).expect("room");
            contents.settle(contents.mark());
            contents.write(0, &[2; SECTOR / 2]).expect("room");
            contents.write(SECTOR as u64 / 2, &[2; SECTOR / 2]).expect("room");
            contents.lose(&mut Rng::with_seed(seed));
            let left = contents.read(0, SECTOR).expect("a sector");
            seen.insert((left[0], left[SECTOR - 1]));
        }
        assert_eq!(seen, BTreeSet::from([(1, 1), (2, 1), (2, 2)]));
    }

    #[test]
    fn transfers_beyond_the_end_are_refused() {
        let mut contents = Contents::new(2 * SECTOR, SECTOR);
        assert_eq!(contents.write(SECTOR as u64, &[1; 2 * SECTOR]), None);
        assert_eq!(contents.write(u64::MAX, &[1]), None);
        assert_eq!(contents.read(3 * SECTOR as u64, 1), None);
        assert_eq!(contents.read(SECTOR as u64, 2 * SECTOR).map(<[u8]>::len), Some(SECTOR));
    }
}
