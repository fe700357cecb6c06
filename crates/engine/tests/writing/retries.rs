//! Retries of a flush that fails because the disk is full.

use tailwater::{Db, ErrorKind};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{failure, get, put, simulated};

/// Regression test: after a call of `resume`, a flush on a full disk was retried without pauses,
/// some ten thousand times per second.
#[test]
fn a_flush_without_space_is_tried_once_per_resume() {
    let disk = SimStorage::new(1);
    // The first retry comes after an eighth of this interval of eight hours, so not during the
    // test.
    let mut options = simulated(&disk, "bgerror_resume_retry_interval=28800000000");
    options.set_inline_background(false);
    let db = Db::open("/db", &options).expect("a database");
    put(&db, "a", "1").expect("a put");
    let is_attempt =
        |operation, purpose| (operation, purpose) == (Operation::Create, Some(Purpose::FlushWrite));
    let full = FaultRule::new(Fault::NoSpace).operation(Operation::Create);
    disk.set_faults(FaultPlan::none().with(full.purpose(Purpose::FlushWrite).from(0)));
    disk.start_recording();
    let attempts = || {
        let calls = disk.calls();
        calls.iter().filter(|call| is_attempt(call.operation, call.purpose)).count()
    };
    assert_eq!(failure(db.flush_all()).0, ErrorKind::NoSpace);
    assert_eq!(attempts(), 1);
    for resumed in 1..=3 {
        assert_eq!(failure(db.resume()).0, ErrorKind::NoSpace);
        assert_eq!(attempts(), 1 + resumed);
    }
    assert_eq!(failure(db.flush_all()).0, ErrorKind::NoSpace, "a flush that is asked for is tried");
    for _ in 0..3000 {
        // Gives the flushing thread time for a retry, which must not happen.
        std::thread::yield_now();
        assert_eq!(get(&db, "a").as_deref(), Some("1"));
    }
    assert_eq!(attempts(), 5);
    disk.set_faults(FaultPlan::none());
    db.resume().expect("there is space");
    db.flush_all().expect("there is space");
}
