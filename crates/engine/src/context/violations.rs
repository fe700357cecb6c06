//! Reports of violated contracts.

use super::Context;
use crate::column_family::ColumnFamily;
use crate::contracts::Violations;
use crate::stats::Ticker;

impl Context {
    /// Writes the violations that a flush or compaction of a column family found to the LOG, and
    /// counts them. `work` names the work, such as "a flush".
    pub(crate) fn report_violations(
        &self,
        family: &ColumnFamily,
        work: &str,
        violations: &Violations,
    ) {
        let count = violations.count();
        if count == 0 {
            return;
        }
        let name = family.name();
        for broken in violations.broken() {
            self.info_log.error(format_args!(
                "{work} of '{name}' went on after {} violations of the contract of {}; the first: \
                 {}",
                broken.count, broken.contract, broken.first
            ));
        }
        family.statistics().contract_violations.add(count);
        if let Some(statistics) = self.shared.statistics.as_deref() {
            statistics.add(Ticker::ContractViolations, count);
        }
    }
}
