//! Verification of blob files.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::blob::{
    BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH, BlobFileFooter,
    BlobRecordHeader,
};
use tailwater_format::file_name::FileKind;
use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::{ReaderOptions, SequentialReader};
use tailwater_io::{IoMode, Purpose};

use super::{Family, Verification};
use crate::blob::BlobReader;
use crate::error::{Error, Result};
use crate::version::BlobFileMetadata;

/// Size of one read of a blob file, in bytes.
const REQUEST_BYTES: usize = 1 << 20;

impl Verification<'_> {
    /// Reads every blob file of a column family, record by record.
    pub(super) fn check_blob_files(&mut self, family: &Family) {
        let directory = self.options.blob_directory(self.directory, &family.name);
        for (&number, known) in family.version.blob_files() {
            let path = directory.join(FileKind::Blob(number).to_string());
            self.begin(&path);
            if let Err(error) = self.check_blob_file(&path, family, known) {
                self.report.error(&path, &error);
            }
        }
    }

    fn check_blob_file(
        &mut self,
        path: &Path,
        family: &Family,
        known: &BlobFileMetadata,
    ) -> Result<()> {
        let file = self.storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let reader = BlobReader::open(Arc::clone(&file), Purpose::Verification)?;
        let length = reader.length();
        self.report.blob_files += 1;
        self.report.bytes += length;
        let footer_at = length.saturating_sub(BLOB_FOOTER_LENGTH as u64);
        if footer_at < BLOB_HEADER_LENGTH as u64 {
            return Err(Error::corruption(path, format!("{length} bytes is too short")));
        }
        if reader.header().column_family_id != family.id {
            let found = reader.header().column_family_id;
            let message = format!("it names column family {found}, the MANIFEST {}", family.id);
            self.report.damage_at(path, 0, message);
        }
        let pool = BufferPool::new(4 * REQUEST_BYTES);
        let options = ReaderOptions {
            request_bytes: REQUEST_BYTES,
            depth: 1,
            first: 1,
            purpose: Purpose::Verification,
        };
        let mut stream = SequentialReader::new(file, 0..length, options, &pool, None)?;
        let mut at = BLOB_HEADER_LENGTH as u64;
        let (mut count, mut bytes) = (0, 0);
        while at < footer_at {
            let head = stream.read(at, BLOB_RECORD_HEADER_LENGTH)?;
            let damaged = |error| Error::decoding(path, at, error);
            let header = BlobRecordHeader::decode(head).map_err(damaged)?;
            let record_length = header.record_length();
            if record_length > footer_at - at {
                let message = format!("a record of {record_length} bytes extends into the footer");
                return Err(Error::corruption_at(path, at, message));
            }
            let body_at = at + BLOB_RECORD_HEADER_LENGTH as u64;
            let body = stream.read(body_at, (record_length - (body_at - at)) as usize)?;
            let (key, value) =
                body.split_at_checked(header.key_length as usize).unwrap_or((body, &[]));
            if let Err(error) = header.verify(key, value) {
                self.report.error(path, &damaged(error));
            }
            count += 1;
            bytes += record_length;
            at += record_length;
        }
        self.report.blobs += count;
        let footer = stream.read(footer_at, BLOB_FOOTER_LENGTH)?;
        let footer = BlobFileFooter::decode(footer)
            .map_err(|error| Error::decoding(path, footer_at, error))?;
        let claims = [
            ("the footer counts", footer.blob_count, count, "blobs"),
            ("the MANIFEST counts", known.added.blob_count, count, "blobs"),
            ("the MANIFEST counts", known.added.blob_bytes, bytes, "bytes of blobs"),
        ];
        for (who, claimed, found, what) in claims {
            if claimed != found {
                let message = format!("{who} {claimed} {what}, but there are {found}");
                self.report.damage_at(path, footer_at, message);
            }
        }
        Ok(())
    }
}
