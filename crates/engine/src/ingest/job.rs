//! The steps of an ingestion, from the files to the new versions.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::arrival::Arrival;
use super::external_file::ExternalFile;
use super::ingester::Ingester;
use super::options::{ExternalFiles, IngestOptions, IngestedFile};
use super::overlap::Overlaps;
use super::place::{FamilyContext, Placement};
use crate::background::FailedPart;
use crate::column_family::ColumnFamily;
use crate::compaction::{LevelTargets, update_stalls};
use crate::error::{Error, Result};
use crate::panics;
use crate::stats::{Histogram, Ingestion};
use crate::table::FileMetadata;
use crate::version::{Compaction, Installation, Version, VersionSet};
use crate::write::queue::Leadership;

/// Name of the operation in errors.
const INGESTION: &str = "an ingestion";

/// Edits that are ready to be written to the MANIFEST.
struct Placed {
    edits: Vec<VersionEdit>,
    /// The tables that the edits add, opened.
    added: Vec<Arc<FileMetadata>>,
    /// The highest sequence number in the database after the ingestion. It may be assigned to a
    /// file.
    last_sequence: Sequence,
}

/// The state of an ingestion into one column family.
struct Job {
    family: ColumnFamily,
    options: IngestOptions,
    files: Vec<ExternalFile>,
    /// The files linked or copied into the directory so far, in the order of `files`.
    arrivals: Vec<Arrival>,
    overlaps: Overlaps,
    places: Vec<Placement>,
}

impl Ingester {
    /// Ingests all files or none. Returns one element for each request, with the results of its
    /// files in their order.
    pub(crate) fn ingest(&self, requests: &[ExternalFiles<'_>]) -> Result<Vec<Vec<IngestedFile>>> {
        self.context.errors.check()?;
        // Makes closing wait for this ingestion. Otherwise another process could open the database
        // before the last file is installed or removed.
        let _working = self.context.background.begin_work()?;
        self.check_requests(requests)?;
        let statistics = self.context.shared.statistics.as_deref();
        let begun_ns = self.context.clock.monotonic_ns();
        let started = statistics.map(|statistics| (statistics, statistics.start()));
        // A panic while the files are examined becomes an error of this ingestion. No file was
        // created yet.
        let mut jobs = panics::catch(INGESTION, || {
            requests.iter().map(|request| self.examine(request)).collect::<Result<Vec<Job>>>()
        })?;
        let moved = jobs.iter().filter(|job| job.options.move_files);
        self.refuse_own_tables(moved.flat_map(|job| &job.files))?;
        let copied = panics::catch(INGESTION, || self.copy_files(&mut jobs));
        if let Some((statistics, started)) = started {
            statistics.record_since(Histogram::IngestPrepare, started);
        }
        let started = statistics.map(|statistics| (statistics, statistics.start()));
        let done =
            copied.and_then(|()| panics::catch(INGESTION, || self.place_and_install(&mut jobs)));
        if let Err(error) = done {
            self.remove_arrivals(&jobs);
            return Err(error);
        }
        if let Some((statistics, started)) = started {
            statistics.record_since(Histogram::IngestRun, started);
        }
        let micros = self.context.clock.monotonic_ns().saturating_sub(begun_ns) / 1000;
        let ingested: Vec<_> = jobs.iter().map(|job| self.finish_job(job, micros)).collect();
        update_stalls(&self.context, &jobs.iter().map(|job| &job.family).collect::<Vec<_>>());
        self.compactions.compact_soon();
        Ok(ingested)
    }

    fn check_requests(&self, requests: &[ExternalFiles<'_>]) -> Result<()> {
        let mut ids = BTreeSet::new();
        for ExternalFiles { family, paths, options } in requests {
            options.check()?;
            self.check_family(family)?;
            if !ids.insert(family.id()) {
                let message = format!("column family '{}' is named twice", family.name());
                return Err(Error::invalid_argument(message));
            }
            if paths.is_empty() {
                return Err(Error::invalid_argument("there are no files to ingest"));
            }
        }
        match requests {
            [] => Err(Error::invalid_argument("there are no files to ingest")),
            _ => Ok(()),
        }
    }

    fn check_family(&self, family: &ColumnFamily) -> Result<()> {
        let families = self.context.shared.family_set();
        match families.by_id(family.id()) {
            Some(known) if known.is_same(family) => Ok(()),
            _ => {
                let message = format!("there is no column family '{}' here", family.name());
                Err(Error::invalid_argument(message))
            }
        }
    }

    /// Examines the files of a request. This is step 1 of the ingest module's description.
    fn examine(&self, request: &ExternalFiles<'_>) -> Result<Job> {
        let ExternalFiles { family, paths, options } = *request;
        let examine = |path: &&Path| {
            let verifies = options.verify_checksums_before_ingest;
            ExternalFile::examine(&self.context.storage, path, family, verifies)
        };
        Ok(Job {
            family: family.clone(),
            options,
            files: paths.iter().map(examine).collect::<Result<_>>()?,
            arrivals: Vec::new(),
            overlaps: Overlaps::default(),
            places: Vec::new(),
        })
    }

    /// Links or copies the files into the database's directory. This is step 2 of the ingest
    /// module's description.
    fn copy_files(&self, jobs: &mut [Job]) -> Result<()> {
        let mut directories = BTreeSet::new();
        for job in jobs {
            for file in &job.files {
                self.context.errors.check_waiting()?;
                let arrival = self.bring(&job.family, file, &job.options)?;
                directories.extend(arrival.path.parent().map(Path::to_owned));
                job.arrivals.push(arrival);
            }
        }
        // A crash here is safe: no MANIFEST names the files.
        for directory in directories {
            self.context.storage.sync_directory(&directory)?;
        }
        Ok(())
    }

    /// Places and installs the files. These are steps 3 to 7 of the ingest module's description.
    fn place_and_install(&self, jobs: &mut [Job]) -> Result<()> {
        let due = self.families_to_flush(jobs)?;
        if !due.is_empty() {
            self.writes.flush(&due.iter().collect::<Vec<_>>())?;
        }
        self.look_up_overlaps(jobs)?;
        let leadership = self.writes.lead()?;
        self.context.errors.check()?;
        jobs.iter().try_for_each(|job| self.check_family(&job.family))?;
        let due = self.families_to_flush(jobs)?;
        if !due.is_empty() {
            self.flush_leading(&leadership, &due)?;
            self.look_up_overlaps(jobs)?;
        }
        self.flushes.sync_closed_logs()?;
        self.install_files(jobs)
    }

    /// Returns the column families whose memtables have records in the key range of a file to be
    /// ingested into the same column family.
    fn families_to_flush(&self, jobs: &[Job]) -> Result<Vec<ColumnFamily>> {
        let mut due = Vec::new();
        for job in jobs {
            let source = job.family.super_version();
            let in_the_way = job.files.iter().find(|file| {
                let mut memtables = source.memtables().iter();
                memtables.any(|memtable| memtable.overlaps(file.begin(), file.end()))
            });
            match in_the_way {
                Some(file) if !job.options.allow_blocking_flush => {
                    let message = "the file needs a flush of memtables, which \
                         allow_blocking_flush forbids";
                    return Err(Error::invalid_argument(message).in_file(&file.path));
                }
                Some(_) => due.push(job.family.clone()),
                None => {}
            }
        }
        Ok(due)
    }

    /// Flushes column families while this thread leads the write queue, so that writes wait.
    fn flush_leading(&self, leadership: &Leadership<'_>, due: &[ColumnFamily]) -> Result<()> {
        let awaited = self.writes.seal_for_flush(leadership, &due.iter().collect::<Vec<_>>())?;
        self.writes.wait_for_flush(&awaited)
    }

    /// Finds out which tables have records in the key ranges of the files to be ingested, while
    /// writes continue. The results are cached: they are used later, when the levels of the files
    /// are chosen while writes wait.
    fn look_up_overlaps(&self, jobs: &mut [Job]) -> Result<()> {
        for job in jobs {
            let source = job.family.super_version();
            self.find_places(job, source.version(), &[], false)?;
        }
        Ok(())
    }

    /// Decides the placement of a job's files.
    fn find_places(
        &self,
        job: &mut Job,
        version: &Version,
        running: &[Arc<Compaction>],
        is_watched: bool,
    ) -> Result<()> {
        let Job { files, overlaps, family, options, .. } = job;
        let of_family = family.options();
        let context = FamilyContext {
            comparator: family.comparator(),
            version,
            running,
            style: of_family.compaction_style,
            levels: usize::try_from(of_family.num_levels).unwrap_or(1).max(1),
            base_level: LevelTargets::new(version, &of_family).base_level,
            last_sequence: self.context.published(),
            is_watched,
            options,
        };
        let tables = &family.readers().tables;
        job.places = context
            .places(files, |place, file, table| overlaps.with_table(place, file, tables, table))?;
        Ok(())
    }

    /// Places and installs the files, which are steps 6 and 7 of the ingest module's description.
    /// The caller must lead the write queue.
    fn install_files(&self, jobs: &mut [Job]) -> Result<()> {
        let mut installation = self.versions.begin_installation();
        // The placement depends on which compactions run, so no compaction may begin until the
        // files are installed.
        installation.hold_claims();
        let list = &self.context.shared.snapshots;
        let must_hide = jobs.iter().any(|job| job.options.snapshot_consistency);
        let is_watched = must_hide && list.count() > 0;
        let mut placed = self.place_and_open(&installation, jobs, is_watched)?;
        // A file without a sequence number of its own is visible to every snapshot. If a snapshot
        // were taken between here and the installation, the file would appear in it later. So
        // snapshots are blocked, unless all files get sequence numbers or consistency with
        // snapshots is not requested.
        let mut snapshots = (must_hide && !is_watched).then(|| list.lock());
        if snapshots.as_ref().is_some_and(|held| !held.is_empty()) {
            // A snapshot was taken while the tables were opened, so all files must get a sequence
            // number.
            snapshots = None;
            placed = self.place_and_open(&installation, jobs, true)?;
        }
        let Placed { edits, added, last_sequence } = placed;
        // A crash before the edits are written is safe: the MANIFEST does not name the ingested
        // files, so the next open removes them. Nothing else was changed.
        self.context.latch_on_unwind(INGESTION, || {
            let written =
                self.context.write_edits_at(installation, edits, &added, last_sequence)?;
            let snapshots = snapshots.unwrap_or_else(|| list.lock());
            let mut installed = written.install();
            let version = |job: &Job| self.context.installed_version(&installed, &job.family);
            let versions = jobs.iter().map(version).collect::<Result<Vec<_>>>()?;
            // The sequence number is published before the versions. A read loads its version first
            // and then the sequence number, so a read with a new version also has the new number. A
            // snapshot loads the number first. It must not be taken between the two steps, since
            // the files would appear in it later.
            self.context.shared.published.store(last_sequence, Ordering::Release);
            for (job, version) in jobs.iter().zip(versions) {
                job.family.install(version, &[]);
                self.context.retire_files(&mut installed, &job.family);
            }
            drop(snapshots);
            Ok(())
        })
    }

    /// Decides the placement of the files of all jobs, and opens their tables. `is_watched` says
    /// whether there are snapshots that must not see the files.
    fn place_and_open(
        &self,
        installation: &Installation<'_>,
        jobs: &mut [Job],
        is_watched: bool,
    ) -> Result<Placed> {
        for job in jobs.iter_mut() {
            let known =
                installation.versions().families().get(&job.family.id()).map(|known| {
                    (Arc::clone(&known.version), known.compactions.running().to_vec())
                });
            let Some((version, running)) = known else {
                return Err(Error::lost_version(job.family.name()));
            };
            let is_watched = is_watched && job.options.snapshot_consistency;
            self.find_places(job, &version, &running, is_watched)?;
        }
        let last = jobs.iter().flat_map(|job| &job.places).map(|place| place.sequence).max();
        let last_sequence = last.unwrap_or(0).max(self.context.published());
        if last_sequence > MAX_SEQUENCE {
            return Err(Error::no_sequence_left());
        }
        let edits = jobs.iter().map(|job| self.edit(job, &mut installation.versions()));
        let edits = edits.collect::<Result<Vec<VersionEdit>>>()?;
        let mut added: Vec<Arc<FileMetadata>> = Vec::new();
        for (job, edit) in jobs.iter().zip(&edits) {
            let new = |file: &NewFile| Arc::new(FileMetadata::new(file.clone()));
            let files: Vec<_> = edit.new_files.iter().map(new).collect();
            // How a table is opened depends on its level, which is chosen only when this job has
            // its turn to install files. So the tables are opened during this turn. Opening them
            // before the turn would also make writes wait, since writes wait before the turn as
            // well.
            self.context.open_new_tables(&job.family, &files)?;
            added.extend(files);
        }
        Ok(Placed { edits, added, last_sequence })
    }

    /// Returns the version edit that adds a job's files.
    fn edit(&self, job: &Job, versions: &mut VersionSet) -> Result<VersionEdit> {
        let column_family = job.family.id();
        let now_s = self.context.clock.wall_us() / 1_000_000;
        let next_epoch = versions.take_epochs(column_family, job.files.len());
        let next_epoch = next_epoch.ok_or_else(|| Error::lost_version(job.family.name()))?;
        let files = job.files.iter().zip(&job.arrivals).zip(&job.places).zip(next_epoch..);
        let new_files = files.map(|(((file, arrival), place), epoch_number)| NewFile {
            epoch_number,
            ..file.new_file(arrival.number, place.level, place.sequence, now_s)
        });
        let new_files = new_files.collect();
        Ok(VersionEdit { column_family, new_files, ..VersionEdit::default() })
    }

    /// Removes the files of a failed ingestion from the directory.
    fn remove_arrivals(&self, jobs: &[Job]) {
        let is_halfway =
            matches!(self.context.errors.latched(), Some((FailedPart::Installation, _)));
        if is_halfway || self.versions.lock().failure().is_some() {
            // The MANIFEST may name the files. If it does not, the next open removes them.
            return;
        }
        for arrival in jobs.iter().flat_map(|job| &job.arrivals) {
            self.remove_arrival(&arrival.path);
        }
    }

    /// Removes the original names of a job's files if they were moved, which is step 8 of the
    /// ingest module's description. Returns the results for the files.
    fn finish_job(&self, job: &Job, micros: u64) -> Vec<IngestedFile> {
        let mut ingested = Vec::new();
        for ((file, arrival), place) in job.files.iter().zip(&job.arrivals).zip(&job.places) {
            if job.options.move_files
                && let Err(error) = self.context.storage.remove(&file.path)
            {
                self.context.info_log.warn(format_args!("cannot remove an ingested file: {error}"));
            }
            self.context.info_log.info(format_args!(
                "ingested {} into level {} of '{}' as table {}: {} entries, {} bytes, sequence \
                 number {}",
                file.path.display(),
                place.level,
                job.family.name(),
                arrival.number,
                file.entries,
                file.size,
                place.sequence,
            ));
            let done = Ingestion {
                micros,
                bytes: file.size,
                keys: file.entries,
                is_copy: arrival.is_copy,
            };
            job.family.statistics().levels.record_ingestion(place.level, &done);
            ingested.push(IngestedFile {
                path: file.path.clone(),
                number: arrival.number,
                level: place.level,
                sequence: place.sequence,
                size: file.size,
                entries: file.entries,
                range_deletions: file.range_deletions,
                is_copy: arrival.is_copy,
            });
        }
        ingested
    }
}
