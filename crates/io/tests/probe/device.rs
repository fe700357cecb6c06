//! Tests of the device probe, and of the file used to measure durable overwrites.

use std::path::Path;
use std::time::Duration;

use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_io::probe::{DeviceProbe, DurableBy, DurableFile};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::filesystem::{say, writes_directly};

#[test]
fn the_device_probe_measures_and_leaves_nothing() {
    let probe = DeviceProbe { bytes: 3 << 20, duration: Duration::from_millis(20) };
    let directory = tempfile::tempdir().expect("a directory");
    let is_direct = writes_directly(directory.path(), "the figures of a device");
    match probe.run(&PosixStorage::new(), directory.path()) {
        Ok(figures) => {
            say(&format!("device probe: {figures:?}"));
            assert!(figures.random_read.p50_us > 0.0);
            assert!(figures.random_read.p99_us >= figures.random_read.p50_us);
            assert!(figures.sequential_read_bytes_per_second > 0.0);
            assert!(figures.sequential_read_4_bytes_per_second > 0.0);
            assert!((0.0..=1.0).contains(&figures.durable_write.over_3_ms));
        }
        Err(error) => assert!(!is_direct && error.is_unsupported(), "{error}"),
    }
    assert!(PosixStorage::new().list(directory.path()).expect("a list").is_empty());

    let simulated = SimStorage::new(7);
    let directory = Path::new("/scratch");
    simulated.create_directory(directory).expect("a directory");
    probe.run(&simulated, directory).expect("figures");
    assert!(simulated.list(directory).expect("a list").is_empty());
}

#[test]
fn a_durable_file_has_written_blocks_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = match DurableFile::create(directory.path(), 257) {
        Ok(file) => file,
        Err(error) => {
            assert!(error.is_unsupported(), "{error}");
            say("LEFT OUT: durable overwrites: no direct I/O in the directory for scratch files");
            return;
        }
    };
    assert!(PosixStorage::new().list(directory.path()).expect("a list").is_empty());
    // 257 blocks were requested. The file is filled in whole MiB, so it has 512 blocks of 4 KiB.
    assert_eq!(file.blocks(), 512);
    let block = DurableFile::block();
    for by in [DurableBy::Flag, DurableBy::Sync] {
        for number in [0, 511] {
            file.overwrite(number, &block, by).expect("a durable write");
        }
    }
}
