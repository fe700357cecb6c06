//! Who does the work of a run: a process of its own; in tests also this one.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tailwater_io::kernel::{DeviceProbe, Sampler, System, Target};
use tailwater_io::sync::Mutex;

use super::child::{Assignment, Message, Task};
use super::figures::Figures;
use super::incident::Incident;
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
/// In how many steps a limit is lowered, and how long each lasts at least.
const LOWERING_STEPS: u64 = 16;
const LOWERING_PAUSE: Duration = Duration::from_millis(100);
/// As many pages as stay in memory are not worth a word: 1 MiB.
const RESIDENT_PAGES_MAX: u64 = 256;
/// The signal that ends a process for which there is no memory left.
const KILL: i32 = 9;

/// Does the work of runs.
pub(super) trait Launch {
    /// Does that of one, and answers what each of its phases came to. `direct_bytes` says how many
    /// bytes the process read past the page cache in a phase, if it can be told.
    ///
    /// # Errors
    /// Those of the engine, and of the process that it is done in.
    fn run(
        &self,
        assignment: &Assignment,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
    ) -> Result<Vec<Figures>, Failure>;

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
    limit: Option<Mutex<MemoryLimit>>,
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
            say!("memory limit: {}", limit.describe());
        }
        Ok(Self { limit: limit.map(Mutex::new) })
    }

    fn start(&self, task: &Task) -> Result<Child, Failure> {
        let program = std::env::current_exe()?;
        let mut command = match &self.limit {
            Some(limit) => limit.lock().command(program),
            None => Command::new(program),
        };
        command.arg(CHILD_COMMAND).arg(serde_json::to_string(task)?);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    }

    /// Refuses what cannot happen here.
    ///
    /// # Errors
    /// With the argument's name, in words.
    pub(super) fn check(&self, incident: Incident) -> Result<(), Failure> {
        let limited_by = self.limited_by();
        match (incident, limited_by) {
            (Incident::LowerLimit | Incident::Neighbour, "none")
            | (Incident::Neighbour, "systemd-run") => Err(format!(
                "--incident: what limits memory here ({limited_by}) is not of two processes, or \
                 does not change; it takes a memory cgroup"
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Does to the memory limit what is to happen a while after the run has begun, and undoes it
    /// when it has ended. `run` tells of the beginning, and is dropped at the end.
    fn disturb(
        &self,
        incident: Incident,
        after: Duration,
        run: &Receiver<()>,
    ) -> Result<(), Failure> {
        let Some(limit) = &self.limit else { return Ok(()) };
        if run.recv().is_err() || run.recv_timeout(after) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
        let bytes = limit.lock().bytes().unwrap_or(0);
        match incident {
            Incident::LowerLimit => {
                // Cgroup v1 refuses a limit below what is charged. Step by step the process sees
                // it come and can make room.
                for step in 1..=LOWERING_STEPS {
                    limit.lock().set(bytes - bytes / 2 * step / LOWERING_STEPS)?;
                    if run.recv_timeout(LOWERING_PAUSE) != Err(RecvTimeoutError::Timeout) {
                        break;
                    }
                }
                let _ = run.recv();
                limit.lock().set(bytes)?;
            }
            Incident::Neighbour => {
                let mut neighbour = self.start(&Task::Neighbour(bytes / 2))?;
                let _killed = kill_on_interrupt(&neighbour)?;
                let _ = run.recv();
                if let Some(status) = neighbour.try_wait()? {
                    return Err(format!("the neighbour of the run ended: {status}").into());
                }
                neighbour.kill()?;
                neighbour.wait()?;
            }
            Incident::Scan | Incident::MovingHotSet => {}
        }
        Ok(())
    }

    /// What the process of a run says of its phases, and the kernel of the same times.
    fn measured(
        &self,
        assignment: &Assignment,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
        child: &mut Child,
        began: &Sender<()>,
    ) -> Result<Vec<Figures>, Failure> {
        let output = child.stdout.take().ok_or("the process of the run has no output")?;
        let (mut phases, mut sampler) = (Vec::new(), None);
        for line in BufReader::new(output).lines() {
            match serde_json::from_str(&line?)? {
                Message::Began => {
                    // Nobody listens where nothing happens besides.
                    let _ = began.send(());
                    sampler = Some(self.sampler(assignment, child)?);
                }
                Message::Ended(mut figures) => {
                    if let Some(mut told) = sampler.take().and_then(Sampler::stop) {
                        match direct_bytes(&figures) {
                            Some(bytes) => told = told.without_direct_reads(bytes),
                            None => told.missed_pages_per_second = None,
                        }
                        figures.kernel.add(&told);
                    }
                    phases.push(*figures);
                }
            }
        }
        let status = child.wait()?;
        if !status.success() || phases.is_empty() {
            return Err(self.why(status));
        }
        Ok(phases)
    }

    fn sampler(&self, assignment: &Assignment, child: &Child) -> Result<Sampler, Failure> {
        let (directory, process) = (&assignment.directory, child.id());
        let target = match &self.limit {
            Some(limit) => limit.lock().target(directory, process),
            None => Target::new(&System::default(), directory).process(process),
        };
        Ok(Sampler::start(target, SAMPLED)?)
    }

    fn why(&self, status: ExitStatus) -> Failure {
        match (&self.limit, status.signal()) {
            (Some(limit), Some(KILL)) => format!(
                "the process of the run was killed, as it is when there is no memory left: {} are \
                 too little (--limit)",
                Bytes(limit.lock().bytes().unwrap_or(0))
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
    ) -> Result<Vec<Figures>, Failure> {
        let mut child = self.start(&Task::Measure(assignment.clone()))?;
        let _killed = kill_on_interrupt(&child)?;
        std::thread::scope(|scope| {
            let (began, run) = channel();
            let disturbance = assignment.incident.map(|incident| {
                scope.spawn(move || self.disturb(incident, assignment.duration / 2, &run))
            });
            let phases = self.measured(assignment, direct_bytes, &mut child, &began);
            drop(began);
            let panicked = |_| Failure::from("a thread of the run panicked");
            let disturbed = disturbance.map_or(Ok(()), |thread| thread.join().map_err(panicked)?);
            let phases = phases?;
            disturbed.map(|()| phases)
        })
    }

    fn evict(&self, directories: &[&Path]) -> Result<Option<u64>, Failure> {
        let evicted = evict(&System::default(), directories)?;
        let pages = evicted.resident_pages;
        if let Some(pages) = pages.filter(|&pages| pages > RESIDENT_PAGES_MAX) {
            say!("  {pages} pages of the databases could not be put out of memory before");
        }
        Ok(pages)
    }

    fn device_probe(&self) -> DeviceProbe {
        DeviceProbe { bytes: PROBE_BYTES, duration: PROBED }
    }

    fn limited_by(&self) -> &'static str {
        self.limit.as_ref().map_or("none", |limit| limit.lock().kind())
    }

    fn memory_limit(&self) -> (String, bool) {
        match &self.limit {
            Some(limit) => {
                let limit = limit.lock();
                (limit.describe(), limit.bytes().is_some())
            }
            None => ("None was asked for.".to_owned(), false),
        }
    }
}
