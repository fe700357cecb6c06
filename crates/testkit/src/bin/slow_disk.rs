//! Provides a disk with slow flushes, to measure synced writes.
//!
//! `slow_disk FILESYSTEM MILLISECONDS` creates a disk of 1 GiB on which each flush takes at least
//! MILLISECONDS. It creates a filesystem of the type FILESYSTEM (`ext4`, `xfs` or `btrfs`) on the
//! disk, mounts it and prints the mount point. It unmounts the filesystem when standard input ends.
//! The requirements are those of [`tailwater_testkit::volatile_disk`].

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let milliseconds = arguments.get(1).and_then(|text| text.parse().ok());
    let ended = match (arguments.as_slice(), milliseconds) {
        ([filesystem, _], Some(milliseconds)) => serve(filesystem, milliseconds),
        _ => Err("usage: slow_disk FILESYSTEM MILLISECONDS".to_owned()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn serve(filesystem: &str, milliseconds: u64) -> Result<(), String> {
    use std::time::Duration;

    use tailwater_testkit::volatile_disk::{Shape, VolatileDisk};

    let flush_delay = Duration::from_millis(milliseconds);
    let shape = Shape { size: 1 << 30, flush_delay, ..Shape::default() };
    let mut disk = VolatileDisk::new(shape, 0)?;
    println!("{}", disk.mount_as(filesystem)?.display());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .map_err(|error| error.to_string())?;
    disk.unmount()
}
