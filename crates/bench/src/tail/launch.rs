//! Who does the work of a run: a process of its own; in tests also this one.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tailwater_io::kernel::{DeviceProbe, Sampler, System, Target};

use super::child::{Assignment, Message};
use super::figures::Figures;
use super::units::Bytes;
use crate::memory_limit::interrupt::kill_on_interrupt;
use crate::memory_limit::{MemoryLimit, evict};
use crate::store::Failure;

/// The hidden command of the programs that do the experiment.
pub const CHILD_COMMAND: &str = "tail-child";

/// How long each part of the device's probe takes.
const PROBED: Duration = Duration::from_millis(500);
/// How large the file of the device's probe is, in bytes.
const PROBE_BYTES: u64 = 128 << 20;
/// How often the kernel is asked.
const SAMPLED: Duration = Duration::from_millis(200);
/// As many pages as stay in memory are not worth a word: 1 MiB.
const RESIDENT_PAGES_MAX: u64 = 256;
/// The signal that ends a process for which there is no memory left.
const KILL: i32 = 9;

/// Does the work of runs.
pub(super) trait Launch {
    /// Does that of one. `direct_bytes` says how many bytes the process read past the page cache,
    /// if it can be told.
    ///
    /// # Errors
    /// Those of the engine, and of the process that it is done in.
    fn run(
        &self,
        assignment: &Assignment,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
    ) -> Result<Figures, Failure>;

    /// Empties the page cache of what is in some directories. Answers how many pages of it are
    /// there all the same, if the kernel tells.
    ///
    /// # Errors
    /// Those of listing them.
    fn evict(&self, directories: &[&Path]) -> Result<Option<u64>, Failure>;

    /// How the device is probed.
    fn device_probe(&self) -> DeviceProbe;

    /// What holds runs to their memory limit, as [`MemoryLimit::kind`] has it.
    fn limited_by(&self) -> &'static str;

    /// The same in words, and whether anything does.
    fn memory_limit(&self) -> (String, bool);
}

/// A process for each run, inside a memory limit.
pub(super) struct Processes {
    limit: Option<MemoryLimit>,
}

impl Processes {
    /// Processes that have so much memory, if that can be had here; as much as there is without a
    /// number.
    ///
    /// # Errors
    /// Those of making the limit.
    pub(super) fn new(limit_bytes: Option<u64>) -> Result<Self, Failure> {
        let limit = limit_bytes.map(MemoryLimit::new).transpose()?;
        if let Some(limit) = limit.as_ref().filter(|limit| limit.bytes().is_none()) {
            eprintln!("memory limit: {}", limit.describe());
        }
        Ok(Self { limit })
    }

    fn start(&self, assignment: &Assignment) -> Result<Child, Failure> {
        let program = std::env::current_exe()?;
        let mut command = match &self.limit {
            Some(limit) => limit.command(program),
            None => Command::new(program),
        };
        command.arg(CHILD_COMMAND).arg(serde_json::to_string(assignment)?);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    }

    fn sampler(&self, assignment: &Assignment, child: &Child) -> Result<Sampler, Failure> {
        let (directory, process) = (&assignment.directory, child.id());
        let target = match &self.limit {
            Some(limit) => limit.target(directory, process),
            None => Target::new(&System::default(), directory).process(process),
        };
        Ok(Sampler::start(target, SAMPLED)?)
    }

    fn why(&self, status: ExitStatus) -> Failure {
        match (&self.limit, status.signal()) {
            (Some(limit), Some(KILL)) => format!(
                "the process of the run was killed, as it is when there is no memory left: {} are \
                 too little (--limit)",
                Bytes(limit.bytes().unwrap_or(0))
            )
            .into(),
            _ => format!("the process of the run failed: {status}").into(),
        }
    }
}

impl Launch for Processes {
    fn run(
        &self,
        assignment: &Assignment,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
    ) -> Result<Figures, Failure> {
        let mut child = self.start(assignment)?;
        let _killed = kill_on_interrupt(&child)?;
        let output = child.stdout.take().ok_or("the process of the run has no output")?;
        let (mut figures, mut sampler) = (None, None);
        for line in BufReader::new(output).lines() {
            match serde_json::from_str(&line?)? {
                Message::Began => sampler = Some(self.sampler(assignment, &child)?),
                Message::Ended(measured) => {
                    let told = sampler.take().and_then(Sampler::stop);
                    figures = Some((*measured, told));
                }
            }
        }
        let status = child.wait()?;
        let Some((mut figures, told)) = figures.filter(|_| status.success()) else {
            return Err(self.why(status));
        };
        if let Some(mut told) = told {
            match direct_bytes(&figures) {
                Some(bytes) => told = told.without_direct_reads(bytes),
                None => told.missed_pages_per_second = None,
            }
            figures.kernel.add(&told);
        }
        Ok(figures)
    }

    fn evict(&self, directories: &[&Path]) -> Result<Option<u64>, Failure> {
        let evicted = evict(&System::default(), directories)?;
        let pages = evicted.resident_pages;
        if let Some(pages) = pages.filter(|&pages| pages > RESIDENT_PAGES_MAX) {
            eprintln!("  {pages} pages of the databases could not be put out of memory before");
        }
        Ok(pages)
    }

    fn device_probe(&self) -> DeviceProbe {
        DeviceProbe { bytes: PROBE_BYTES, duration: PROBED }
    }

    fn limited_by(&self) -> &'static str {
        self.limit.as_ref().map_or("none", MemoryLimit::kind)
    }

    fn memory_limit(&self) -> (String, bool) {
        match &self.limit {
            Some(limit) => (limit.describe(), limit.bytes().is_some()),
            None => ("None was asked for.".to_owned(), false),
        }
    }
}
