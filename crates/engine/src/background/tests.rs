//! Tests of jobs in an environment's threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tailwater_io::sync::Mutex;

use super::*;
use crate::env::{Env, Needs, Priority};
use crate::epoch::Garbage;
use crate::opening::OpeningId;

/// Time within which an event that must not happen would be seen, if the system is not too busy.
const SOON: Duration = Duration::from_millis(20);

/// A database whose jobs report their beginning and wait until the test lets them end.
struct Recorder {
    begun: Mutex<Sender<JobKind>>,
    ends: Mutex<Receiver<()>>,
}

struct Scene {
    background: Arc<Background>,
    begun: Receiver<JobKind>,
    end: Sender<()>,
    _recorder: Arc<Recorder>,
}

impl Work for Recorder {
    fn run(&self, kind: JobKind) {
        if matches!(kind, JobKind::Flush | JobKind::Compaction) {
            self.begun.lock().send(kind).expect("the test listens");
            let _ = self.ends.lock().recv();
        }
    }
}

fn scene_with(env: &Env, limits: (usize, usize), background: Arc<Background>) -> Scene {
    let (begun, begins) = channel();
    let (end, ends) = channel();
    let recorder = Arc::new(Recorder { begun: Mutex::new(begun), ends: Mutex::new(ends) });
    let needs = Needs { flushes: limits.0, compactions: limits.1, jobs: 1 };
    let threads = env.enter(needs).expect("threads");
    let work: Weak<Recorder> = Arc::downgrade(&recorder);
    let collector = Garbage::new().begin_collecting();
    background.start(threads, work, OpeningId::new(), collector, limits);
    Scene { background, begun: begins, end, _recorder: recorder }
}

fn scene(env: &Env, limits: (usize, usize)) -> Scene {
    scene_with(env, limits, Background::new(Arc::default(), None))
}

impl Scene {
    fn has_begun(&self, kind: JobKind) {
        assert_eq!(self.begun.recv(), Ok(kind));
    }

    fn nothing_begins(&self) {
        assert!(self.begun.recv_timeout(SOON).is_err());
    }

    fn close(self) {
        drop(self.end);
        self.background.close().wait();
    }
}

#[test]
fn a_second_compaction_runs_only_when_compactions_are_behind() {
    let pressure = Arc::new(CompactionPressure::default());
    let background = Background::new(Arc::clone(&pressure), None);
    let scene = scene_with(&Env::new(), (1, 2), background);
    scene.background.compact_soon();
    scene.has_begun(JobKind::Compaction);
    scene.background.compact_soon();
    scene.nothing_begins();
    pressure.set_behind(true);
    scene.background.compact_soon();
    scene.close();
}

#[test]
fn compactions_at_the_bottom_count() {
    let env = Env::new();
    env.set_background_threads(1, Priority::Bottom);
    let scene = scene(&env, (1, 1));
    let (end, ended) = channel::<()>();
    assert!(scene.background.run_at_bottom(move || ended.recv()).is_none());
    scene.background.compact_soon();
    scene.nothing_begins();
    drop(end);
    scene.has_begun(JobKind::Compaction);
    scene.close();
}

#[test]
fn as_many_flushes_run_as_the_limit_allows() {
    let env = Env::new();
    env.set_background_threads(2, Priority::High);
    let scene = scene(&env, (1, 1));
    scene.background.flush_soon();
    scene.has_begun(JobKind::Flush);
    scene.background.flush_soon();
    scene.nothing_begins();
    scene.background.set_limits(2, 1);
    scene.close();
}

#[test]
fn a_request_during_a_job_leads_to_another_one() {
    let scene = scene(&Env::new(), (1, 1));
    for (request, kind) in [
        (Background::flush_soon as fn(&Arc<Background>), JobKind::Flush),
        (Background::compact_soon, JobKind::Compaction),
    ] {
        request(&scene.background);
        scene.has_begun(kind);
        request(&scene.background);
        scene.end.send(()).expect("the job waits");
        scene.has_begun(kind);
        scene.end.send(()).expect("the job waits");
        scene.nothing_begins();
    }
    scene.close();
}

#[test]
fn paused_compactions_begin_when_the_pause_ends() {
    let scene = scene(&Env::new(), (1, 1));
    scene.background.pause_compactions();
    scene.background.compact_soon();
    scene.nothing_begins();
    scene.background.continue_compactions();
    scene.has_begun(JobKind::Compaction);
    scene.close();
}

#[test]
fn the_end_of_a_pause_before_a_retry_begins_a_job() {
    let background = Background::new(Arc::default(), Some(1000));
    let scene = scene_with(&Env::new(), (1, 1), background);
    let full = || Error::new(ErrorKind::NoSpace, "a full disk");
    for (retries, kind) in [
        (scene.background.flush_retries(), JobKind::Flush),
        (scene.background.compaction_retries(), JobKind::Compaction),
    ] {
        retries.failed(retries.begin(), [(0, full())]);
        // Any request sets the alarm, as the end of a job does.
        scene.background.clean_soon();
        scene.has_begun(kind);
        retries.retain(|_| false);
        scene.end.send(()).expect("the job waits");
    }
    scene.close();
}

/// Regression test: threads, and waits for the end of work, were once shared by all databases.
#[test]
fn closing_a_database_waits_for_its_own_jobs_only() {
    let env = Env::new();
    let (busy, idle) = (scene(&env, (1, 1)), scene(&env, (1, 1)));
    busy.background.flush_soon();
    busy.has_begun(JobKind::Flush);
    idle.background.flush_soon();
    idle.nothing_begins();
    assert!(idle.background.others_wait_to_flush(), "there is one thread for both");
    idle.close();
    assert!(!busy.background.others_wait_to_flush(), "the job was cancelled");
    busy.end.send(()).expect("the job still runs");
    busy.background.flush_soon();
    busy.has_begun(JobKind::Flush);
    busy.close();
}
