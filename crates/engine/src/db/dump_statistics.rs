//! Writes statistics to the LOG, every `stats_dump_period_sec` seconds.

use crate::db::Database;
use crate::db::properties::report_state;
use crate::stats::report::{database_text, family_done, family_text};

impl Database {
    /// Writes statistics to the LOG, if the period has passed since they were last written.
    pub(super) fn dump_statistics_if_due(&self) {
        let activity = &self.context.shared.activity;
        if !activity.is_dump_due(self.context.options.now().stats_dump_period_sec.into()) {
            return;
        }
        let done = activity.done();
        let mut text = database_text(&done, &activity.done_at_last_dump());
        activity.dumped(done);
        for family in self.context.shared.family_set().iter() {
            let state = report_state(family, done.seconds);
            text.push_str(&family_text(&state, family.statistics()));
            family.statistics().dumped(family_done(&state, family.statistics()));
        }
        self.context.info_log.info(format_args!("------- DUMPING STATS -------{text}"));
        if let Some(statistics) = &self.context.shared.statistics {
            self.context.info_log.info(format_args!("STATISTICS:\n{}", statistics.text()));
        }
    }
}
