//! Random I/O modes: a mode for each purpose of Tailwater, RocksDB's flags, and simulated disks
//! with and without direct I/O.
//!
//! A database can be opened with every combination that is drawn, because contradictory options are
//! corrected.

use std::fmt;
use std::path::Path;

use fastrand::Rng;
use tailwater_io::sim::SimStorage;

/// Prefixes of Tailwater's I/O mode options, one for each purpose whose mode can be chosen.
const PURPOSES: [&str; 9] = [
    "user_read",
    "user_blob_read",
    "compaction_read",
    "compaction_blob_read",
    "verification",
    "compaction_write",
    "flush_write",
    "ingestion",
    "checkpoint",
];

/// RocksDB's flags that enable direct I/O. The last flag is an earlier name of the second, and
/// unknown to released versions of RocksDB.
const DIRECT_FLAGS: [&str; 4] = [
    "use_direct_reads",
    "use_direct_io_for_compaction_reads",
    "use_direct_io_for_flush_and_compaction",
    "use_direct_reads_for_compaction",
];

/// Options that set the sizes of readahead and of writes. They can be changed while a database is
/// open.
pub(crate) const SIZES: [&[&str]; 2] = [
    &[
        "compaction_readahead_size=0",
        "compaction_readahead_size=3000",
        "compaction_readahead_size=20000",
        "compaction_readahead_size=2097152",
    ],
    &[
        "writable_file_max_buffer_size=5000",
        "writable_file_max_buffer_size=65536",
        "writable_file_max_buffer_size=1048576",
    ],
];

/// Values of `wal_preallocation_block_size`, in bytes.
const LOG_SPACE: [&str; 4] = ["0", "4096", "20000", "65536"];

/// Alignment of direct transfers, in bytes, on a simulated disk that requires a larger alignment
/// than most disks.
const LARGE_ALIGNMENT: usize = 16 << 10;

/// A disk, and the I/O modes that it supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// The real disk of the machine. It is unknown whether it supports uncached I/O.
    Real,
    /// A simulated disk that supports every mode.
    Simulated {
        /// Whether direct transfers must be aligned to [`LARGE_ALIGNMENT`].
        is_coarse: bool,
    },
    /// A simulated disk that refuses direct I/O in this directory.
    Refuses(&'static str),
}

impl Disk {
    /// Returns a random simulated disk, for a database whose files are in these directories.
    pub(crate) fn random(rng: &mut Rng, directories: &[&'static str]) -> Self {
        match rng.u8(..6) {
            0 => Self::Refuses(directories[rng.usize(..directories.len())]),
            1 => Self::Simulated { is_coarse: true },
            _ => Self::Simulated { is_coarse: false },
        }
    }

    /// Configures `storage` to behave like this disk.
    pub(crate) fn set_up(self, storage: &SimStorage) {
        match self {
            Self::Refuses(directory) => storage.refuse_direct(Path::new(directory)),
            Self::Simulated { is_coarse: true } => storage.set_alignment(LARGE_ALIGNMENT),
            Self::Simulated { is_coarse: false } | Self::Real => {}
        }
    }
}

/// The I/O modes of a database, as option strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IoModes {
    /// Option string for Tailwater only. It has Tailwater's own options, and may have
    /// `allow_mmap_writes=true` and `writable_file_max_buffer_size=0`. RocksDB does not get the
    /// last two options. With them, RocksDB crashes when it writes to a mapped file whose space is
    /// not allocated.
    pub(crate) ours: String,
    /// Option string with RocksDB's flags. Tailwater gets these flags first, and then `ours`.
    pub(crate) flags: String,
}

impl IoModes {
    /// Returns random modes with which a database on this disk can be opened.
    pub(crate) fn random(rng: &mut Rng, disk: Disk) -> Self {
        let takes_direct = !matches!(disk, Disk::Refuses(_));
        let modes: &[&str] = match disk {
            Disk::Real => &["buffered", "direct", "fadvise", "auto"],
            Disk::Simulated { .. } => &["buffered", "direct", "uncached", "fadvise", "auto"],
            Disk::Refuses(_) => &["buffered", "uncached", "fadvise", "auto"],
        };
        let mut ours = Vec::new();
        for purpose in PURPOSES {
            if rng.u8(..4) == 0 {
                let mode = modes[rng.usize(..modes.len())];
                ours.push((purpose, mode));
            }
        }
        // Direct logs are padded to the alignment that most disks require. A disk with a larger
        // alignment does not accept their writes.
        let log_modes: &[&str] = match disk {
            Disk::Refuses(_) | Disk::Simulated { is_coarse: true } => &["buffered", "auto"],
            Disk::Real | Disk::Simulated { .. } => &["direct", "direct", "auto"],
        };
        if rng.bool() {
            ours.push(("wal", log_modes[rng.usize(..log_modes.len())]));
        }
        let drawn = |rng: &mut Rng| takes_direct && rng.u8(..5) == 0;
        let known = if disk == Disk::Real { &DIRECT_FLAGS[..3] } else { &DIRECT_FLAGS[..] };
        let direct: Vec<&str> = known.iter().copied().filter(|_| drawn(rng)).collect();
        let mut flags: Vec<String> = direct.iter().map(|name| format!("{name}=true")).collect();
        let choose = |rng: &mut Rng, values: &[&str]| values[rng.usize(..values.len())].to_owned();
        flags.extend(
            SIZES
                .map(|values| (rng.bool(), choose(rng, values)))
                .into_iter()
                .filter_map(|(is_set, value)| is_set.then_some(value)),
        );
        let writes_direct = direct.contains(&"use_direct_io_for_flush_and_compaction");
        // The options drawn below fit together: direct writes need a write buffer, and direct reads
        // or writes cannot be combined with mapped ones.
        let space = LOG_SPACE[rng.usize(..LOG_SPACE.len())];
        let mut own = vec![format!("wal_preallocation_block_size={space}")];
        if !writes_direct && rng.u8(..8) == 0 {
            own.push("writable_file_max_buffer_size=0".to_owned());
        }
        let is_write =
            |purpose: &str| purpose.contains("write") || ["ingestion", "wal"].contains(&purpose);
        let own_writes_direct =
            ours.iter().any(|(of, mode)| is_write(of) && ["direct", "auto"].contains(mode));
        if !writes_direct && !own_writes_direct && rng.u8(..4) == 0 {
            own.push("allow_mmap_writes=true".to_owned());
        }
        let is_read = |purpose: &str| purpose.contains("read") || purpose == "verification";
        let reads_direct = direct.iter().any(|name| is_read(name))
            || ours.iter().any(|(of, mode)| is_read(of) && ["direct", "auto"].contains(mode));
        if !reads_direct && rng.u8(..3) == 0 {
            flags.push("allow_mmap_reads=true".to_owned());
        }
        own.extend(ours.iter().map(|(purpose, mode)| format!("{purpose}_io_mode={mode}")));
        Self { ours: own.join(";"), flags: flags.join(";") }
    }

    /// Returns direct modes for all purposes, the default modes, or random modes. A database on the
    /// real disk can be opened with any of these modes.
    pub(crate) fn of_real_files(rng: &mut Rng) -> Self {
        match rng.u8(..3) {
            0 => Self::all_direct(),
            1 => Self::default(),
            _ => Self::random(rng, Disk::Real),
        }
    }

    /// Returns modes with direct I/O for all purposes, including the write-ahead log.
    pub(crate) fn all_direct() -> Self {
        let purposes = PURPOSES.into_iter().chain(["wal"]);
        let mut ours: Vec<String> =
            purposes.map(|purpose| format!("{purpose}_io_mode=direct")).collect();
        ours.push("wal_preallocation_block_size=65536".to_owned());
        let flags: Vec<String> =
            DIRECT_FLAGS[..3].iter().map(|name| format!("{name}=true")).collect();
        Self { ours: ours.join(";"), flags: flags.join(";") }
    }
}

/// Shows the modes as options with which Tailwater is opened.
impl fmt::Display for IoModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.ours.is_empty() || self.flags.is_empty() { "" } else { ";" };
        write!(f, "{}{between}{}", self.flags, self.ours)
    }
}
