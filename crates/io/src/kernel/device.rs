//! Finds the block device on which a directory is stored.
//!
//! The device number in the directory's metadata identifies the device, unless the filesystem
//! assigns its own numbers, as btrfs and overlay do. Then the source in the mount table identifies
//! it. The kernel's statistics and queue settings describe whole devices, so a partition is
//! resolved to the device that contains it. A loop device is not resolved further, but its backing
//! file is reported.

use std::path::{Path, PathBuf};

use super::System;
use super::mounts::{self, Mount};

/// Maximum number of stacked filesystems, such as overlays, that are followed to find a device.
const MAX_LAYERS: usize = 4;

/// A whole block device, and the settings of its queue. A setting is `None` if the kernel does not
/// report it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// The device's name: `nvme0n1`.
    pub name: String,
    /// The device's major and minor number.
    pub number: (u32, u32),
    /// The name of the partition that contains the directory; `None` if the filesystem uses the
    /// whole device.
    pub partition: Option<String>,
    /// The backing file of a loop device.
    pub backing_file: Option<PathBuf>,
    /// Whether the device reports that it is rotational. Many virtual devices report this although
    /// they are not.
    pub is_rotational: Option<bool>,
    /// Whether the device supports FUA: a single write can be made durable without flushing the
    /// cache.
    pub has_fua: Option<bool>,
    /// Whether the device has a write cache that loses its contents on power loss.
    pub has_volatile_cache: Option<bool>,
    /// Maximum size of the kernel's own read-ahead, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// Maximum size of a request, in KiB. If a program requests read-ahead itself, the kernel
    /// limits it to the larger of this and `read_ahead_kib`.
    pub max_sectors_kib: Option<u64>,
    /// The I/O scheduler of the device's queue, such as `none` or `mq-deadline`.
    pub scheduler: Option<String>,
    /// Maximum number of requests in the device's queue.
    pub queue_requests: Option<u64>,
    /// Smallest transfer unit, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit that the device writes without a read-modify-write, in bytes.
    pub physical_block_bytes: Option<u64>,
    /// The device's size in bytes.
    pub size_bytes: Option<u64>,
}

impl Device {
    /// Returns the device on which an existing directory or file is stored. `None` if there is no
    /// such device, as for tmpfs and network filesystems, or if it cannot be determined, as for an
    /// overlay whose upper directory is not visible. If a filesystem uses several devices, the
    /// result is the device that the mount table names.
    pub fn of_directory(system: &System, directory: &Path) -> Option<Self> {
        let mounts = mounts::parse(&system.read("/proc/self/mountinfo")?);
        let path = directory.canonicalize().ok()?;
        Self::of_number(system, number_behind(system, &mounts, &path)?)
    }

    /// Returns the device with this major and minor number. If the number is that of a partition,
    /// returns the device that contains the partition.
    pub fn of_number(system: &System, number: (u32, u32)) -> Option<Self> {
        let directory = directory_of(system, number)?;
        if !directory.join("partition").exists() {
            return Self::of_whole(&directory, number);
        }
        let whole = directory.parent()?;
        let number = parse_number(&read(&whole.join("dev"))?)?;
        let partition = directory.file_name().map(|name| name.to_string_lossy().into_owned());
        Some(Self { partition, ..Self::of_whole(whole, number)? })
    }

    fn of_whole(directory: &Path, number: (u32, u32)) -> Option<Self> {
        let queue = |name: &str| read(&directory.join("queue").join(name));
        let figure = |name: &str| queue(name)?.parse().ok();
        let switch = |name: &str| Some(queue(name)? != "0");
        Some(Self {
            name: directory.file_name()?.to_string_lossy().into_owned(),
            number,
            partition: None,
            backing_file: read(&directory.join("loop/backing_file")).map(PathBuf::from),
            is_rotational: switch("rotational"),
            has_fua: switch("fua"),
            has_volatile_cache: queue("write_cache").map(|cache| cache == "write back"),
            read_ahead_kib: figure("read_ahead_kb"),
            max_sectors_kib: figure("max_sectors_kb"),
            scheduler: queue("scheduler").map(|text| chosen(&text).to_owned()),
            queue_requests: figure("nr_requests"),
            logical_block_bytes: figure("logical_block_size"),
            physical_block_bytes: figure("physical_block_size"),
            size_bytes: read(&directory.join("size"))
                .and_then(|sectors| Some(sectors.parse::<u64>().ok()? * 512)),
        })
    }

    /// Returns the name of the block device that contains the filesystem: the name of the partition
    /// or, without partitions, of the whole device.
    pub fn filesystem_name(&self) -> &str {
        self.partition.as_deref().unwrap_or(&self.name)
    }
}

/// Returns the major and minor number of the device on which `path` is stored. `path` contains no
/// symbolic links.
fn number_behind(system: &System, mounts: &[Mount], path: &Path) -> Option<(u32, u32)> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LAYERS {
        let status = rustix::fs::stat(&path).ok()?;
        let number = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
        let mount = mounts::of_path(mounts, &path)?;
        match one_layer(system, number, mount) {
            Layer::Device(number) => return Some(number),
            Layer::Directory(below) => path = below.canonicalize().ok()?,
            Layer::Unknown => return None,
        }
    }
    None
}

/// The storage below a filesystem.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// The device with this number.
    Device((u32, u32)),
    /// The filesystem, such as an overlay, is stored in this directory of another filesystem.
    Directory(PathBuf),
    /// It cannot be determined what is below the filesystem.
    Unknown,
}

/// Returns what is below the filesystem that is mounted at `mount`: a device or a directory.
/// `number` is the device number of the files in this filesystem.
pub(super) fn one_layer(system: &System, number: (u32, u32), mount: &Mount) -> Layer {
    if directory_of(system, number).is_some() {
        return Layer::Device(number);
    }
    if mount.kind == "overlay" {
        let upper = mounts::option(&mount.filesystem_options, "upperdir");
        return upper.map_or(Layer::Unknown, |upper| Layer::Directory(PathBuf::from(upper)));
    }
    if !mount.source.starts_with("/dev") {
        return Layer::Unknown;
    }
    // Resolve symbolic links: `/dev/mapper/NAME` is a link to `/dev/dm-0`.
    let source = system.path(&mount.source).canonicalize().unwrap_or_else(|_| mount.source.clone());
    let name = source.file_name().unwrap_or_default();
    let file = Path::new("/sys/class/block").join(name).join("dev");
    match system.word(file).and_then(|text| parse_number(&text)) {
        Some(number) => Layer::Device(number),
        None => Layer::Unknown,
    }
}

/// Returns the directory in `/sys` that describes a device, with symbolic links resolved. The
/// directory of a partition is inside that of its device.
fn directory_of(system: &System, (major, minor): (u32, u32)) -> Option<PathBuf> {
    let link = system.path(format!("/sys/dev/block/{major}:{minor}"));
    link.canonicalize().ok()
}

/// Returns the trimmed text of a file. `path` contains no symbolic links.
#[expect(clippy::disallowed_methods, reason = "the kernel's files are not a database's")]
fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the word in brackets, which is the selected one, as in `none [mq-deadline] kyber`.
/// Returns the whole text if it has no brackets.
fn chosen(text: &str) -> &str {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text.trim(), |(choice, _)| choice)
}
