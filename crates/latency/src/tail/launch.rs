//! Launches the measured work, in a separate process inside a memory limit.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tailwater_io::kernel::{Sampled, Sampler, System, Target};
use tailwater_io::probe::DeviceProbe;
use tailwater_io::sync::Mutex;

use super::child::{Assignment, Message, Progress, Task};
use super::events::events;
use super::figures::Figures;
use super::incident::Incident;
use super::units::Bytes;
use crate::experiment::timeline::Timeline;
use crate::failure::Failure;
use crate::live::Live;
use crate::memory_limit::interrupt::kill_on_interrupt;
use crate::memory_limit::{MemoryLimit, evict};

/// The hidden command of the program that runs the measured process.
pub const CHILD_COMMAND: &str = "tail-child";

/// Duration of each measurement of the device probe.
const PROBED: Duration = Duration::from_millis(500);
/// Size of the device probe's file, in bytes.
const PROBE_BYTES: u64 = 128 << 20;
/// Interval between two samples of the kernel's counters.
const SAMPLED: Duration = Duration::from_millis(200);
/// [`Incident::LowerLimit`] lowers the memory limit in this many steps; a step takes at least
/// `LOWERING_PAUSE`.
const LOWERING_STEPS: u64 = 16;
const LOWERING_PAUSE: Duration = Duration::from_millis(100);
/// If more pages of the databases than this are still in the page cache after an eviction, a
/// warning is printed. 256 pages are 1 MiB.
const RESIDENT_PAGES_MAX: u64 = 256;
/// Number of SIGKILL, with which the kernel kills a process when memory runs out.
const KILL: i32 = 9;

/// What was measured in a phase.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) figures: Figures,
    pub(super) timeline: Timeline,
}

impl Measured {
    /// Adds what happened in a second.
    pub(super) fn add(&mut self, Progress { reads, batches, engine, .. }: Progress) {
        let latencies = &mut self.timeline.latencies;
        latencies.entry("reads".to_owned()).or_default().push(reads);
        if let Some(batches) = batches {
            latencies.entry("batches".to_owned()).or_default().push(batches);
        }
        self.timeline.engine.push(engine);
    }
}

/// Starts the runs of an experiment, each in a separate process. Tests use an implementation that
/// measures in the test's own process.
pub(super) trait Launch {
    /// Measures one run, and returns what was measured in each of its phases. `direct_bytes`
    /// computes from a phase's figures how many bytes the process read with direct I/O; it returns
    /// `None` if the figures do not show this. These bytes are not misses of the page cache. `name`
    /// is that of the run, for the live view.
    fn run(
        &self,
        assignment: &Assignment,
        name: &str,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
    ) -> Result<Vec<Measured>, Failure>;

    /// Evicts the files in some directories from the page cache. Returns how many pages of these
    /// files are still in the page cache; `None` if the kernel does not report this number.
    fn evict(&self, directories: &[&Path]) -> Result<Option<u64>, Failure>;

    /// Returns the parameters of the device probe.
    fn device_probe(&self) -> DeviceProbe;

    /// Returns the kind of memory limit, as [`MemoryLimit::kind`] does; `none` if there is no
    /// limit.
    fn limited_by(&self) -> &'static str;

    /// Returns a description of the memory limit, and whether a limit is in force.
    fn memory_limit(&self) -> (String, bool);
}

/// Launches a separate process for each run, inside a memory limit.
pub(super) struct Processes {
    limit: Option<Mutex<MemoryLimit>>,
}

impl Processes {
    /// Creates a launcher with a memory limit of `limit_bytes` for its processes, or without one
    /// for `None`. If this machine does not support limits, a warning is printed.
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

    /// Checks that an incident (a disturbance during a run) can be caused on this machine.
    ///
    /// # Errors
    /// If it cannot be caused. The message names the command-line argument `--incident`.
    pub(super) fn check(&self, incident: Incident) -> Result<(), Failure> {
        let limited_by = self.limited_by();
        match (incident, limited_by) {
            (Incident::LowerLimit | Incident::Neighbour, "none")
            | (Incident::Neighbour, "systemd-run") => Err(format!(
                "--incident: the memory limit here ({limited_by}) cannot be shared by two \
                 processes or changed; a memory cgroup is needed"
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Causes an incident that reduces the memory available to the run, and undoes it when the run
    /// has ended. The incident begins when the time `after` has passed since the start of the first
    /// phase. The channel `run` receives a message whenever a phase begins, and is closed when the
    /// run has ended.
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
                // Cgroup v1 refuses a limit that is below the memory that it cannot reclaim.
                // Lowering it in small steps gives the process time to release memory.
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

    /// Reads the child process's messages until the process ends, and returns what was measured in
    /// each phase. The figures of a phase include the kernel statistics of the same period.
    fn measured(
        &self,
        assignment: &Assignment,
        name: &str,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
        child: &mut Child,
        began: &Sender<()>,
    ) -> Result<Vec<Measured>, Failure> {
        let output = child.stdout.take().ok_or("the process of the run has no output")?;
        let live = Live::new(name, assignment.length());
        let (mut phases, mut sampler) = (Vec::new(), None);
        let (mut phase, mut began_us) = (Measured::default(), 0);
        for line in BufReader::new(output).lines() {
            match serde_json::from_str(&line?)? {
                Message::Began { wall_us } => {
                    // The thread that causes an incident (a disturbance during the run) has the
                    // receiver. Without an incident there is no receiver, and the send fails.
                    let _ = began.send(());
                    sampler = Some(self.sampler(assignment, child)?);
                    (phase, began_us) = (Measured::default(), wall_us);
                }
                Message::Second(progress) => {
                    live.show(progress.at(), &progress.to_string());
                    phase.add(progress);
                }
                Message::Ended(figures) => {
                    phase.figures = *figures;
                    if let Some(Sampled { mut figures, seconds }) =
                        sampler.take().and_then(Sampler::stop)
                    {
                        match direct_bytes(&phase.figures) {
                            Some(bytes) => figures = figures.without_direct_reads(bytes),
                            None => figures.missed_pages_per_second = None,
                        }
                        phase.figures.kernel.add(&figures);
                        phase.timeline.add_kernel(&seconds);
                    }
                    let length = Duration::from_secs_f64(phase.figures.seconds);
                    phase.timeline.events = events(&assignment.directory, began_us, length);
                    phases.push(std::mem::take(&mut phase));
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
                "the process of the run was killed, probably because memory ran out: {} are too \
                 little (--limit)",
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
        name: &str,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
    ) -> Result<Vec<Measured>, Failure> {
        let mut child = self.start(&Task::Measure(Box::new(assignment.clone())))?;
        let _killed = kill_on_interrupt(&child)?;
        std::thread::scope(|scope| {
            let (began, run) = channel();
            let disturbance = assignment.incident.map(|incident| {
                scope.spawn(move || self.disturb(incident, assignment.duration / 2, &run))
            });
            let phases = self.measured(assignment, name, direct_bytes, &mut child, &began);
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
            say!(
                "  {pages} pages of the databases could not be evicted from memory before the run"
            );
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
            None => ("None was requested.".to_owned(), false),
        }
    }
}
