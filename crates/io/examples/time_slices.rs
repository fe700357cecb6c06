//! Measures how late threads wake up beside threads that compute, for each weight of the latter:
//!
//! ```text
//! cargo run --release -p tailwater-io --example time_slices [SECONDS]
//! ```
//!
//! Two threads compute 500 us and sleep 300 us, as compactions do that wait for their reads.
//! Sixteen threads of normal weight compute 30 us every 1.6 ms, as reads do, and record how long
//! after it was due each computation begins. Each weight runs for SECONDS seconds (10 by default).
//! The machine should have nothing else to do.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tailwater_io::thread::{Weight, spawn_with};

/// Number of threads that compute in the background.
const HOGS: usize = 2;
const HOG_COMPUTES: Duration = Duration::from_micros(500);
const HOG_SLEEPS: Duration = Duration::from_micros(300);
/// Number of threads whose lateness is measured.
const SLEEPERS: usize = 16;
const SLEEPER_COMPUTES: Duration = Duration::from_micros(30);
const SLEEPER_PERIOD: Duration = Duration::from_micros(1600);

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let seconds = Duration::from_secs(seconds);
    let processors = std::thread::available_parallelism()?;
    println!("{processors} processors; lateness in microseconds");
    println!("| the two threads | p50 | p99 | p99.9 | their share of the processors |");
    println!("|---|---:|---:|---:|---:|");
    let modes = [
        ("default slice", Weight::Normal),
        ("slice of 6 ms", Weight::Background),
        ("`SCHED_IDLE`", Weight::LowPriority),
    ];
    for (name, weight) in modes {
        let (mut late, hogs) = run(weight, seconds)?;
        late.sort_unstable();
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| {
            let at = (late.len() as f64 * part) as usize;
            late.get(at).map_or(0, Duration::as_micros)
        });
        let share = hogs.as_secs_f64() / seconds.as_secs_f64() / processors.get() as f64;
        println!("| {name} | {p50} | {p99} | {p999} | {:.0} % |", share * 100.0);
    }
    Ok(())
}

/// Runs all threads for a time. Returns the lateness of each computation, and the processor time of
/// the threads in the background.
fn run(weight: Weight, time: Duration) -> Result<(Vec<Duration>, Duration), Box<dyn Error>> {
    let end = Arc::new(AtomicBool::new(false));
    let (mut hogs, mut sleepers) = (Vec::new(), Vec::new());
    for number in 0..HOGS {
        let end = Arc::clone(&end);
        hogs.push(spawn_with(weight, &format!("hog{number}"), move || {
            while !end.load(Ordering::Relaxed) {
                compute(HOG_COMPUTES);
                std::thread::sleep(HOG_SLEEPS);
            }
            processor_time()
        })?);
    }
    for number in 0..SLEEPERS {
        let end = Arc::clone(&end);
        sleepers.push(spawn_with(Weight::Normal, &format!("sleeper{number}"), move || {
            // The threads are due one after the other.
            let mut due = Instant::now() + SLEEPER_PERIOD * number as u32 / SLEEPERS as u32;
            let mut late = Vec::new();
            while !end.load(Ordering::Relaxed) {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let now = Instant::now();
                late.push(now.saturating_duration_since(due));
                compute(SLEEPER_COMPUTES);
                due = (due + SLEEPER_PERIOD).max(now);
            }
            late
        })?);
    }
    std::thread::sleep(time);
    end.store(true, Ordering::Relaxed);
    let mut late = Vec::new();
    for sleeper in sleepers {
        late.extend(sleeper.join().map_err(|_| "a thread panicked")?);
    }
    let mut used = Duration::ZERO;
    for hog in hogs {
        used += hog.join().map_err(|_| "a thread panicked")?;
    }
    Ok((late, used))
}

/// Computes until the calling thread has used this much more processor time.
fn compute(time: Duration) {
    let end = processor_time() + time;
    let mut number = 1_u64;
    while processor_time() < end {
        for _ in 0..200 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Returns the processor time that the calling thread has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
