//! Inspects the files of a database one by one, each as far as it can be read. The
//! fuzzer's input determines how the files were edited before.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tailwater::Result;
use tailwater::inspect::blob::BlobFileReader;
use tailwater::inspect::manifest::{self, ManifestReader};
use tailwater::inspect::table::TableFile;
use tailwater::inspect::wal::{LogItem, LogReader};
use tailwater_format::file_name::FileKind;
use tailwater_fuzz::database::{Database, MEMORY_MAX, directory, storage};
use tailwater_fuzz::{Choices, allocation};
use tailwater_io::Storage;

fuzz_target!(|input: &[u8]| {
    let (mut choices, edits) = Choices::split(input);
    let flags = choices.byte();
    let database = Database::number(usize::from(flags >> 6));
    let files = database.edited(Choices::new(edits), flags & 1 != 0, |_| true);
    allocation::within(MEMORY_MAX, || {
        let storage = storage(&files);
        let _ = manifest::current(&*storage, directory());
        for name in files.keys() {
            // The result is ignored: the inspection of an edited file must only terminate without a
            // panic.
            let _ = file(&*storage, &directory().join(name), FileKind::parse(name));
        }
    });
});

fn file(storage: &dyn Storage, path: &Path, kind: Option<FileKind>) -> Result<()> {
    match kind {
        Some(FileKind::Table(_)) => table(storage, path),
        Some(FileKind::Blob(_)) => {
            let mut reader = BlobFileReader::open(storage, path)?;
            while reader.next_item()?.is_some() {}
            Ok(())
        }
        Some(FileKind::Wal(_)) => {
            let mut reader = LogReader::open(storage, path)?;
            while let Some(item) = reader.next_item()? {
                if let LogItem::Batch(batch) = item {
                    assert!(batch.operations().count() < 1 << 20);
                }
            }
            Ok(())
        }
        Some(FileKind::Manifest(number)) => {
            let mut reader = ManifestReader::open(storage, path)?;
            while reader.next_item()?.is_some() {}
            manifest::state(storage, directory(), number).map(drop)
        }
        _ => Ok(()),
    }
}

fn table(storage: &dyn Storage, path: &Path) -> Result<()> {
    let table = TableFile::open(storage, path)?;
    let _ = (table.filter(), table.dictionary(), table.range_tombstones(&mut |_| Ok(())));
    for entry in table.meta_blocks().iter().flatten() {
        let _ = table.meta_block(entry.handle);
        let _ = table.stored_block(entry.handle);
    }
    for entry in table.index()?.entries {
        let Ok(report) = table.data_block(entry.handle) else { continue };
        if let Ok(contents) = report.contents {
            let _ = contents.for_each(&mut |_| Ok(()));
        }
    }
    Ok(())
}
