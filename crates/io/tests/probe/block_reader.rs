//! Tests of reads of several blocks at a time.

use tailwater_io::posix::PosixStorage;
use tailwater_io::probe::BlockReader;
use tailwater_io::storage::Create;
use tailwater_io::{IoMode, Purpose, Storage as _};
use tailwater_testkit::filesystem::say;

const BLOCK_BYTES: usize = 4096;

#[test]
fn blocks_are_those_of_the_files_in_every_order() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let storage = PosixStorage::new();
    let (buffered, purpose) = (IoMode::Buffered, Purpose::Metadata);
    // The second file ends within a block.
    let files = [5 * BLOCK_BYTES, 2 * BLOCK_BYTES + 100].map(|bytes| {
        let path = directory.path().join(bytes.to_string());
        let mut file = storage.create(&path, Create::New, buffered, purpose).expect("a file");
        let content: Vec<u8> = (0..bytes).map(|at| (at / BLOCK_BYTES + bytes) as u8).collect();
        file.write_all_at(&content, 0, purpose).expect("written");
        file.sync_all(purpose).expect("synced");
        (path, content)
    });
    let paths: Vec<_> = files.iter().map(|(path, _)| path.clone()).collect();
    let blocks: Vec<&[u8]> =
        files.iter().flat_map(|(_, content)| content.chunks(BLOCK_BYTES)).collect();
    for mode in [buffered, IoMode::Direct] {
        let mut reader = match BlockReader::open(&paths, mode, BLOCK_BYTES, 3) {
            Err(error) if error.is_unsupported() => {
                say(&format!("no blocks are read: {error}"));
                return;
            }
            reader => reader.expect("a reader"),
        };
        assert_eq!(reader.blocks(), blocks.len() as u64);
        for batch in [&[7, 0, 4][..], &[6], &[5, 1], &[]] {
            reader.read_batch(batch).expect("a batch");
            for (slot, &block) in batch.iter().enumerate() {
                assert!(reader.bytes(slot) == blocks[block as usize], "{mode:?}: block {block}");
            }
        }
        reader.read_one(7).expect("a block");
        let bytes = files.iter().map(|(_, content)| content.len() as u64).sum::<u64>();
        assert_eq!(reader.read_all().expect("all blocks"), bytes);
    }
}

#[test]
fn a_file_that_does_not_exist_is_an_error() {
    let error = BlockReader::open(&["/no/such/file".into()], IoMode::Buffered, BLOCK_BYTES, 1);
    assert!(error.expect_err("no file").to_string().contains("/no/such/file"));
}
