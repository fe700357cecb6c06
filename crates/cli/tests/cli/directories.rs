//! The scenarios of `docs/directories.md`, run with the program.

use std::path::PathBuf;

use tailwater::{OpenOptions, SstFileWriter};
use tailwater_testkit::scenario::{
    self, Answer as Done, Column, Contents, Files, Job, RealFiles, RocksDb, Target, Work,
};

use crate::support::{Answer, program, run_with_input};

/// The program, with its working directory.
struct Program {
    files: RealFiles,
}

impl Program {
    /// Runs `tailwater db VERB PATH ARGUMENT...` with the given options.
    fn run(&self, verb: &str, job: &Job<'_>, arguments: &[&str], input: &str) -> Answer {
        let mut command = program();
        command.current_dir(self.files.directory());
        command.args(["db", verb]).arg(job.path).args(arguments);
        if !job.options.is_empty() {
            command.args(["--options", job.options]);
        }
        run_with_input(command, input.as_bytes())
    }

    /// The contents of the database, as `dump` prints it.
    fn dump(&self, job: &Job<'_>) -> Result<Done, String> {
        let Answer { output, complaints, .. } = succeeded(self.run("dump", job, &["--all"], ""))?;
        let entry = |line: &str| {
            let mut fields = line.split('\t');
            let mut field = || fields.next().expect("a field").to_owned();
            let (family, key, value) = (field(), field(), field());
            let key = if family == "default" { key } else { format!("{family}:{key}") };
            (key, value)
        };
        let contents: Contents = output.lines().map(entry).collect();
        Ok(Done { contents, warnings: complaints })
    }
}

/// Returns the output of a run; if the run failed, returns its standard error as the error.
fn succeeded(answer: Answer) -> Result<Answer, String> {
    match answer.code {
        // Exit code 3 means that a last record is truncated; the output is complete.
        0 | 3 => Ok(answer),
        1 | 2 => Err(answer.complaints),
        code => panic!("exit code {code}: {}", answer.complaints),
    }
}

impl Target for Program {
    fn files(&mut self) -> &mut dyn Files {
        &mut self.files
    }

    fn work(&mut self, job: &Job<'_>) -> Result<Done, String> {
        let run = |verb: &str, arguments: &[&str]| succeeded(self.run(verb, job, arguments, ""));
        match job.work {
            Work::Put(entries) => {
                let lines = entries.iter().map(|(key, value)| {
                    let (family, key) = key.split_once(':').unwrap_or(("default", key));
                    format!("{family}\t{key}\t{value}\n")
                });
                let lines: String = lines.collect();
                succeeded(self.run("load", job, &["--create", "--format", "tsv", "-"], &lines))?;
            }
            Work::Flush => _ = run("flush", &[])?,
            Work::Compact => _ = run("compact", &[])?,
            Work::CreateFamily(name) => _ = run("create-column-family", &[name])?,
            Work::DropFamily(name) => _ = run("drop-column-family", &[name])?,
            Work::Ingest(file) => _ = run("ingest", &[file])?,
            Work::Move(file) => _ = run("ingest", &[file, "--move"])?,
            Work::Checkpoint(target) => _ = run("checkpoint", &[target])?,
            Work::Destroy => _ = run("destroy", &["--yes"])?,
            // Opening the database writes the contents of logs to tables, so there is nothing to
            // flush.
            Work::Open => {
                let warnings = run("flush", &[])?.complaints;
                return Ok(Done { warnings, ..self.dump(job)? });
            }
            Work::Adopt => {
                run("flush", &["--adopt-directories"])?;
                return self.dump(job);
            }
            Work::Look => return self.dump(job),
            Work::External(entries) => {
                let path: PathBuf = self.files.directory().join(job.path);
                let mut writer =
                    SstFileWriter::new(&OpenOptions::default(), "default").expect("a writer");
                writer.open(&path).expect("a file");
                for (key, value) in entries {
                    writer.put(key.as_bytes(), value.as_bytes()).expect("a put");
                }
                writer.finish().expect("a whole file");
            }
        }
        Ok(Done::default())
    }
}

#[test]
fn documented_directory_scenarios_hold_for_the_program() {
    let scratch = tempfile::tempdir().expect("a directory");
    let rocksdb = RocksDb::start("scenarios of databases that RocksDB makes");
    scenario::run_all(Column::Tailwater, rocksdb, || {
        Box::new(Program { files: RealFiles::new(scratch.path()) })
    });
}
