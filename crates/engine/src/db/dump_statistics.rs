//! Writing statistics to the LOG, every `stats_dump_period_sec` seconds.

use crate::db::Writer;
use crate::db::properties::report_state;
use crate::stats::report::{database_text, family_done, family_text};

impl Writer {
    /// Writes statistics to the LOG, if the period has passed.
    pub(crate) fn dump_statistics_if_due(&self) {
        let activity = &self.shared.activity;
        if !activity.is_dump_due(self.database.now().stats_dump_period_sec.into()) {
            return;
        }
        let done = activity.done();
        let mut text = database_text(&done, &activity.done_at_last_dump());
        activity.dumped(done);
        for family in self.shared.family_set().iter() {
            let state = report_state(family, done.seconds);
            text.push_str(&family_text(&state, family.statistics()));
            family.statistics().dumped(family_done(&state, family.statistics()));
        }
        self.info_log.info(format_args!("------- DUMPING STATS -------{text}"));
        if let Some(statistics) = &self.shared.statistics {
            self.info_log.info(format_args!("STATISTICS:\n{}", statistics.text()));
        }
    }
}
