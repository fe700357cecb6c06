//! Performs the steps of scenarios with the library, on any storage.

use std::path::Path;
use std::sync::Arc;

use tailwater::{
    BottommostRewrite, CompactRangeOptions, Db, IngestOptions, OpenOptions, ReadOptions, Result,
    SstFileWriter, WriteBatch, WriteOptions,
};
use tailwater_io::Storage;
use tailwater_testkit::scenario::{Answer, Contents, Job, Work};

/// The Tailwater library, with the storage that it uses.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) storage: Arc<dyn Storage>,
    /// Creates the initial options of every database. They set the clock, and whether there are
    /// background threads.
    pub(crate) begin: fn(&Arc<dyn Storage>) -> OpenOptions,
}

impl Library {
    /// Runs a job on a database and closes it, as the command-line program does: with the options
    /// of the OPTIONS file, overridden by the options of the job.
    pub(crate) fn work(&self, job: &Job<'_>) -> Result<Answer> {
        let path = Path::new(job.path);
        match job.work {
            Work::Destroy => {
                Db::destroy(path, &self.options(job, false)?)?;
                return Ok(Answer::default());
            }
            Work::External(entries) => {
                let mut writer = SstFileWriter::new(&self.options(job, false)?, "default")?;
                writer.open(path)?;
                for (key, value) in entries {
                    writer.put(key.as_bytes(), value.as_bytes())?;
                }
                writer.finish()?;
                return Ok(Answer::default());
            }
            Work::Look => {
                let db = Db::open_read_only(path, &self.options(job, false)?)?;
                return Ok(Answer { contents: contents(&db)?, warnings: warnings(&db) });
            }
            _ => {}
        }
        let options = self.options(job, matches!(job.work, Work::Put(_)))?;
        let db = Db::open(path, &options)?;
        let worked = self.work_on(&db, &options, job.work);
        let warnings = warnings(&db);
        let closed = db.close();
        let contents = worked?;
        closed?;
        Ok(Answer { contents, warnings })
    }

    fn work_on(&self, db: &Db, options: &OpenOptions, work: &Work) -> Result<Contents> {
        match work {
            Work::Put(entries) => put(db, entries)?,
            Work::Flush => db.flush_all()?,
            Work::Compact => {
                let rewrite = CompactRangeOptions::new()
                    .with_bottommost_level_compaction(BottommostRewrite::Force);
                for family in db.column_families() {
                    db.compact_range_cf_opt(&family, None, None, &rewrite)?;
                }
            }
            Work::CreateFamily(name) => {
                db.create_cf(name, options.column_family(name))?;
            }
            Work::DropFamily(name) => db.drop_cf(&db.cf_handle(name)?)?,
            Work::Ingest(file) | Work::Move(file) => {
                let move_files = matches!(work, Work::Move(_));
                let options = IngestOptions::new().with_move_files(move_files);
                let family = db.cf_handle("default")?;
                db.ingest_external_file_cf_opts(&family, &[Path::new(file)], &options)?;
            }
            Work::Checkpoint(target) => db.checkpoint(Path::new(target))?,
            Work::Open | Work::Adopt => return contents(db),
            Work::Destroy | Work::Look | Work::External(_) => {}
        }
        Ok(Contents::new())
    }

    /// Returns the options with which a database is opened.
    fn options(&self, job: &Job<'_>, create: bool) -> Result<OpenOptions> {
        let path = Path::new(job.path);
        let mut options = (self.begin)(&self.storage);
        let is_directory = self.storage.metadata(path).is_ok_and(|it| it.is_directory);
        if is_directory {
            let loaded = OpenOptions::load_from(Arc::clone(&self.storage), path)?;
            options.set_database(loaded.database().clone());
            // The OPTIONS file may name column families that have since been dropped.
            if let Ok(names) = Db::list_cf(path, &loaded) {
                for name in loaded.column_families().filter(|&it| names.iter().any(|n| n == it)) {
                    options.set_column_family(name, loaded.column_family(name).clone());
                }
            }
        }
        options.set_from_string(&format!("create_if_missing={create}"))?;
        options.set_from_string(job.options)?;
        if *job.work == Work::Adopt {
            options.set_adopt_directories(true);
        }
        Ok(options)
    }
}

fn put(db: &Db, entries: &[(String, String)]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (key, value) in entries {
        let (family, key) = key.split_once(':').unwrap_or(("default", key));
        let family = db.cf_handle(family)?;
        batch.put_cf(family.id(), key.as_bytes(), value.as_bytes()).expect("room");
    }
    db.write_opt(&mut batch, &WriteOptions::default())
}

/// Returns the warnings of opening a database, as text.
fn warnings(db: &Db) -> String {
    db.warnings().join("\n")
}

/// Returns the contents of a database.
pub(crate) fn contents(db: &Db) -> Result<Contents> {
    let mut contents = Contents::new();
    for family in db.column_families() {
        let mut iterator = db.raw_iterator_cf_opt(&family, &ReadOptions::default())?;
        iterator.seek_to_first()?;
        while let Some((key, value)) = iterator.item() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let key = match family.name() {
                "default" => text(key),
                name => format!("{name}:{}", text(key)),
            };
            contents.insert(key, text(value));
            iterator.next()?;
        }
    }
    Ok(contents)
}
