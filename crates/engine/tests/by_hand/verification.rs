//! What verification makes of tables that say what cannot be.

use tailwater::verify::Severity;
use tailwater_format::table::BlockHandle;

use crate::database::Database;
use crate::table::table;

#[test]
fn a_meta_block_far_behind_the_end_of_its_file_is_reported() {
    // Verification asked for as much memory as lies between the end of a table and the place where
    // a block of it was said to stand, and aborted.
    let far = BlockHandle { offset: 1 << 60, size: 10 };
    let file = table(&[(&[("a", 1, "v")], "b")], &[("far.away", far)]);
    let report = Database::new().with("000007.sst", &file).verify();
    let leaves = |message: &str| message.contains("leaves the file");
    let found = report.findings.iter().any(|finding| {
        finding.severity == Severity::Damage
            && finding.path.ends_with("000007.sst")
            && leaves(&finding.message)
    });
    assert!(found, "{:?}", report.findings);
}
