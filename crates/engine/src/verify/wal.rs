//! The write-ahead logs.
//!
//! A log that was recycled ends where the bytes of the file's earlier use begin, and those may look like anything: a
//! bad checksum there is damage only if records of this log follow.

use std::collections::BTreeMap;
use std::path::Path;

use tailwater_format::batch::BatchReader;
use tailwater_format::file_name::FileKind;
use tailwater_format::log::{Damage, DamageReason, Event, Record};
use tailwater_io::{IoMode, Purpose};

use super::{Numbers, Severity, Verification};
use crate::wal::replay::list_logs;
use crate::{Result, record_log};

/// What is known while logs are read one after the other.
struct Course<'a> {
    numbers: &'a Numbers,
    /// The sequence number after the last batch; `None` before the first.
    next_sequence: Option<u64>,
    /// In a recycled log, what looked like damage and may be the earlier use of the file.
    doubtful: Vec<(u64, String)>,
    /// Where the log before ended too early, if it did.
    torn: Option<(std::path::PathBuf, u64, String)>,
}

impl Verification<'_> {
    /// Reads every log that a column family still needs.
    pub(super) fn check_logs(&mut self, numbers: &Numbers, synced_logs: &BTreeMap<u64, u64>) {
        let directory = self.options.wal_directory(self.directory);
        let logs = match list_logs(&*self.storage, &directory) {
            Ok(logs) => logs,
            Err(error) => return self.report.error(&directory, &error),
        };
        for (&number, &size) in synced_logs.range(numbers.min_log_number..) {
            let path = directory.join(FileKind::Wal(number).to_string());
            match self.storage.metadata(&path) {
                Ok(metadata) if metadata.length >= size => {}
                Ok(metadata) => {
                    let length = metadata.length;
                    let message = format!("{size} bytes were synced, but it has {length}");
                    self.report.damage(&path, message);
                }
                Err(error) => self.report.error(&path, &error.into()),
            }
        }
        let mut course = Course { numbers, next_sequence: None, doubtful: Vec::new(), torn: None };
        for number in logs.into_iter().filter(|&number| number >= numbers.min_log_number) {
            let path = directory.join(FileKind::Wal(number).to_string());
            self.begin(&path);
            if let Err(error) = self.check_log(&path, number, &mut course) {
                self.report.error(&path, &error);
            }
        }
        if let Some((path, offset, message)) = course.torn.take() {
            self.report.add(Severity::TornTail, &path, Some(offset), message);
        }
    }

    fn check_log(&mut self, path: &Path, number: u64, course: &mut Course<'_>) -> Result<()> {
        let file = self.storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = file.length()?;
        self.report.logs += 1;
        self.report.bytes += length;
        let torn_before = course.torn.take();
        let mut first_batch = true;
        let mut reader = record_log::reader(file, number, Purpose::Verification);
        loop {
            match reader.next_event()? {
                Event::Record(record) => {
                    for (offset, message) in course.doubtful.drain(..) {
                        self.report.damage_at(path, offset, message);
                    }
                    if std::mem::take(&mut first_batch)
                        && let Some(torn) = &torn_before
                    {
                        self.check_continues(path, &record, torn, course);
                    }
                    self.check_batch(path, &record, course);
                }
                Event::Damage(damage) if may_be_earlier_use(&damage) => {
                    course.doubtful.push((damage.offset, damage.reason.to_string()));
                }
                Event::Damage(damage) => {
                    let message = format!("{}: {} bytes are lost", damage.reason, damage.dropped);
                    self.report.damage_at(path, damage.offset, message);
                }
                Event::Torn(torn) => {
                    let message = format!("{}: {} bytes are left out", torn.reason, torn.dropped);
                    course.torn = Some((path.to_owned(), torn.offset, message));
                }
                Event::Stale(stale) if stale.in_record => {
                    let message = "the log ends inside a record".to_owned();
                    course.torn = Some((path.to_owned(), stale.offset, message));
                }
                Event::Stale(_) | Event::End => break,
                Event::TimestampSizes(_) => {
                    let message = "not supported: user-defined timestamps".to_owned();
                    self.report.add(Severity::Note, path, None, message);
                }
                Event::Predecessor(_) | Event::Skipped(_) => {}
            }
        }
        course.doubtful.clear();
        if course.torn.is_none() && first_batch {
            // A log without a batch says nothing about whether the one before lost any.
            course.torn = torn_before;
        }
        Ok(())
    }

    /// A log that ends too early has lost nothing if the next goes on with the very next sequence number.
    fn check_continues(
        &mut self,
        path: &Path,
        record: &Record<'_>,
        torn: &(std::path::PathBuf, u64, String),
        course: &Course<'_>,
    ) {
        let (torn_path, offset, message) = torn;
        let sequence = BatchReader::new(record.payload).map(|batch| batch.sequence()).ok();
        if sequence == course.next_sequence {
            let message = format!("{message}; nothing is missing, {} goes on", path.display());
            self.report.add(Severity::Note, torn_path, Some(*offset), message);
        } else {
            self.report.damage_at(torn_path, *offset, format!("{message}, and later logs follow"));
        }
    }

    fn check_batch(&mut self, path: &Path, record: &Record<'_>, course: &mut Course<'_>) {
        self.report.batches += 1;
        let mut check = || -> std::result::Result<(), String> {
            let batch = BatchReader::new(record.payload).map_err(|error| error.to_string())?;
            let (first, count) = (batch.sequence(), u64::from(batch.record_count()));
            if let Some(next) = course.next_sequence.filter(|&next| first < next) {
                return Err(format!("sequence number {first} after {next} was due"));
            }
            for operation in batch {
                let operation = operation.map_err(|error| error.to_string())?;
                if operation.column_family > course.numbers.max_column_family {
                    let family = operation.column_family;
                    return Err(format!("a write to column family {family}, which never was"));
                }
            }
            course.next_sequence = Some(first.saturating_add(count));
            Ok(())
        };
        if let Err(message) = check() {
            self.report.damage_at(path, record.start, message);
        }
    }
}

/// Whether damage may be nothing but what a recycled file held before.
fn may_be_earlier_use(damage: &Damage) -> bool {
    let reasons = matches!(
        damage.reason,
        DamageReason::Checksum { .. } | DamageReason::Length { .. } | DamageReason::UnknownType(_)
    );
    damage.recycled && reasons
}
