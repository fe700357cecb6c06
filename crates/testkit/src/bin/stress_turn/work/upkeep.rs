//! Operations of the first thread on the whole database: flushes, compactions, option changes,
//! checkpoints, column families and ingestion.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tailwater::{
    BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, IngestOptions, SstFileWriter,
    WriteOptions,
};

use super::{Work, count};
use crate::contents::Contents;
use crate::extra::EXTRA_FAMILY;
use crate::unblocking::while_unblocked;
use crate::{settings, sibling_path, text};

/// Maximum duration of a pause of compactions.
const PAUSE: Duration = Duration::from_secs(1);

impl Work<'_> {
    /// Runs a random operation of those in this file.
    pub(super) fn upkeep(&self, rng: &mut Rng) -> Result<(), String> {
        let families = self.families();
        let family = &families[rng.usize(..families.len())];
        let writes = !self.arguments.keeps_sequence;
        match rng.u8(..20) {
            0..5 => self.flush(family, rng),
            5..11 => self.compact(family, rng),
            11 | 12 => self.change_option(family, rng),
            13 => self.db.flush_wal(rng.bool()).map_err(text("flushing the log")),
            14 => self.checkpoint(),
            15 if writes && !self.arguments.settled => self.make_family(rng),
            16..18 if writes => self.ingest(family, rng),
            18 => self.pause_compactions(family),
            _ => Ok(()),
        }
    }

    fn flush(&self, family: &ColumnFamily, rng: &mut Rng) -> Result<(), String> {
        let flushed = if rng.bool() { self.db.flush_all() } else { self.db.flush_cf(family) };
        count(&self.counts.flushes, 1);
        flushed.map_err(text("flushing"))
    }

    /// Compacts a column family, or a random range of its keys.
    fn compact(&self, family: &ColumnFamily, rng: &mut Rng) -> Result<(), String> {
        use BottommostRewrite::{Force, ForceOptimized, IfHaveCompactionFilter, Skip};
        let rewrites = [Skip, IfHaveCompactionFilter, Force, ForceOptimized];
        let options = CompactRangeOptions::new()
            .with_bottommost_level_compaction(rewrites[rng.usize(..rewrites.len())]);
        let pairs = self.reference.family(family.name());
        let mut bounds = [None, None];
        if !pairs.is_empty() && rng.bool() {
            let mut ends = [rng.usize(..pairs.len()), rng.usize(..pairs.len())];
            ends.sort_unstable();
            bounds = ends.map(|at| Some(&*pairs[at].0));
        }
        let [begin, end] = bounds;
        count(&self.counts.compactions, 1);
        self.db.compact_range_cf_opt(family, begin, end, &options).map_err(text("compacting"))
    }

    fn change_option(&self, family: &ColumnFamily, rng: &mut Rng) -> Result<(), String> {
        let change = settings::change(self.options, rng);
        count(&self.counts.changes, 1);
        let doing = format!("changing {} to {}", change.0, change.1);
        self.db.set_options_cf(family, &[change]).map_err(text(&doing))
    }

    /// Flushes a column family while compactions are paused. The duration of the pause is limited:
    /// the flush may wait for a write, and the write for a compaction.
    fn pause_compactions(&self, family: &ColumnFamily) -> Result<(), String> {
        let doing = text("flushing while compactions are paused");
        let pause = self.db.pause_compactions().map_err(&doing)?;
        let flushed = std::thread::scope(|scope| {
            let flush = scope.spawn(|| self.db.flush_cf(family));
            let begun = Instant::now();
            while !flush.is_finished() && begun.elapsed() < PAUSE {
                std::thread::sleep(PAUSE / 100);
            }
            drop(pause);
            flush.join().map_err(|_| "the flush panicked".to_owned())
        });
        flushed?.map_err(&doing)
    }

    /// Creates a checkpoint. Checks that it has the same contents, accepts writes, and is not
    /// damaged.
    fn checkpoint(&self) -> Result<(), String> {
        let directory = sibling_path(&self.arguments.directory, "checkpoint");
        let options = self.options;
        Db::destroy(&directory, options).map_err(text("removing an old checkpoint"))?;
        self.db.checkpoint(&directory).map_err(text("creating a checkpoint"))?;
        let doing = text("opening the checkpoint");
        let own = settings::of_directory(&directory, self.arguments.options.as_deref())?;
        let db = Db::open(&directory, &own).map_err(&doing)?;
        while_unblocked(&db, || {
            super::remove_extras(&db)?;
            Contents::read(&db)?.compare(self.reference).map_err(|e| format!("checkpoint: {e}"))?;
            let family = db.cf_handle("default").map_err(&doing)?;
            db.put_cf_opt(&family, b"only in the checkpoint", b"", &WriteOptions::default())
                .map_err(&doing)
        })?;
        db.close().map_err(text("closing the checkpoint"))?;
        let report = tailwater::verify::verify(&directory, &own);
        let damage = tailwater::verify::Severity::Damage;
        if let Some(finding) = report.findings.iter().find(|it| it.severity == damage) {
            return Err(format!("the checkpoint is damaged: {finding:?}"));
        }
        count(&self.counts.checkpoints, 1);
        Db::destroy(&directory, &own).map_err(text("removing the checkpoint"))
    }

    /// Creates the extra column family, writes to it and drops it.
    fn make_family(&self, rng: &mut Rng) -> Result<(), String> {
        let doing = text("creating and dropping a column family");
        let options = self.options.column_family("default");
        let family = self.db.create_cf(EXTRA_FAMILY, options).map_err(&doing)?;
        for number in 0..rng.u32(1..200) {
            let key = number.to_be_bytes();
            self.db.put_cf_opt(&family, key, [7; 100], &self.write_options(rng)).map_err(&doing)?;
        }
        if rng.bool() {
            self.db.flush_cf(&family).map_err(&doing)?;
        }
        count(&self.counts.families, 1);
        self.db.drop_cf(&family).map_err(&doing)
    }

    /// Ingests a table that contains some keys of a column family with their current values.
    fn ingest(&self, family: &ColumnFamily, rng: &mut Rng) -> Result<(), String> {
        let pairs = self.reference.family(family.name());
        if pairs.is_empty() {
            return Ok(());
        }
        let (start, most) = (rng.usize(..pairs.len()), rng.usize(1..300));
        let end = pairs.len().min(start + most);
        let pairs = pairs[start..end].iter().filter(|(key, value)| {
            self.keys.may_overwrite(key) && self.keys.entity(value).is_none()
        });
        let doing = text("ingesting a table");
        let path = sibling_path(&self.arguments.directory, "sst");
        let mut writer = SstFileWriter::new(self.options, family.name()).map_err(&doing)?;
        let mut written = 0;
        for (key, value) in pairs {
            if written == 0 {
                writer.open(&path).map_err(&doing)?;
            }
            writer.put(key, value).map_err(&doing)?;
            written += 1;
        }
        if written == 0 {
            return Ok(());
        }
        writer.finish().map_err(&doing)?;
        let moves = rng.bool();
        let options = IngestOptions::new().with_move_files(moves);
        self.db.ingest_external_file_cf_opts(family, &[&path], &options).map_err(&doing)?;
        if !moves {
            self.remove(&path)?;
        }
        count(&self.counts.ingested, written);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), String> {
        let removed = self.db.storage().remove(path);
        removed.map_err(|error| format!("removing {}: {error}", PathBuf::from(path).display()))
    }
}
