//! Installs a compaction: replaces its inputs with its outputs.

use std::sync::Arc;

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::{BlobFileGarbage, DeletedFile, NewFile, VersionEdit};

use super::claim::Claim;
use super::scheduler::CompactionScheduler;
use super::stalls::update_stalls;
use crate::error::{Error, ErrorKind, Result};
use crate::handover::TableHandover;
use crate::table::{FileMetadata, HandedOver, WarmInstallation};
use crate::version::{Compaction, CompactionKind};

impl CompactionScheduler {
    /// Replaces the inputs with the outputs. Records up to the sequence number `settled_through`
    /// need no further compaction to this level.
    pub(super) fn install_compaction(
        &self,
        claim: &Claim,
        outputs: Vec<NewFile>,
        settled_through: Sequence,
        blob_garbage: Vec<BlobFileGarbage>,
        handovers: Vec<TableHandover>,
    ) -> Result<()> {
        let Claim { family, compaction, .. } = claim;
        let edit = edit(claim, outputs.clone(), blob_garbage);
        let warm = WarmInstallation::begin(handovers);
        let files = new_tables(compaction, &outputs);
        for file in files.iter().filter(|file| file.largest_sequence() <= settled_through) {
            file.compaction.set_settled();
        }
        let opened = self.context.open_new_tables(family, &warm.opening_order(&files));
        if let Err(error) = opened {
            self.remove_outputs(claim, &files);
            return Err(error);
        }
        let install = || self.install_outputs(claim, edit, &files, warm);
        let installed = self.context.latch_on_unwind("a compaction", install)?;
        installed.forget(compaction.files());
        self.log_compaction(claim, &outputs);
        update_stalls(&self.context, &[family]);
        Ok(())
    }

    /// Writes the edit to the MANIFEST, and lets readers see the outputs.
    fn install_outputs(
        &self,
        claim: &Claim,
        edit: VersionEdit,
        outputs: &[Arc<FileMetadata>],
        warm: WarmInstallation,
    ) -> Result<HandedOver> {
        let Claim { family, compaction, .. } = claim;
        let installation = self.versions.begin_installation();
        if family.is_dropped() || self.context.background.is_closing() {
            drop(installation);
            self.remove_outputs(claim, outputs);
            let message = "the column family was dropped or the database is closing";
            return Err(Error::new(ErrorKind::Cancelled, message));
        }
        let written = self.context.write_edits(installation, vec![edit], outputs)?;
        let handed_over = warm.install(outputs, compaction.files());
        let mut installed = written.install();
        if let (Some(state), Some(cursor)) = (installed.compactions(family.id()), &claim.cursor) {
            state.move_cursor(cursor);
        }
        self.context.publish(&mut installed, family, &[])?;
        Ok(handed_over)
    }

    /// Removes the outputs of a compaction that is not installed. If a file cannot be removed, the
    /// next open removes it.
    fn remove_outputs(&self, claim: &Claim, outputs: &[Arc<FileMetadata>]) {
        if claim.compaction.kind == CompactionKind::Move {
            return;
        }
        let tables = &claim.settings.readers.tables;
        for output in outputs {
            let _ = self.versions.obsolete().remove_new(tables, output);
        }
    }

    fn log_compaction(&self, claim: &Claim, outputs: &[NewFile]) {
        let Claim { family, compaction, .. } = claim;
        let inputs: Vec<String> = compaction
            .inputs
            .iter()
            .map(|input| format!("{} in level {}", input.files.len(), input.level))
            .collect();
        let bytes: u64 = outputs.iter().map(|output| output.size).sum();
        self.context.info_log.info(format_args!(
            "{} tables of '{}' ({:?}): {} into {} in level {}, {bytes} bytes, in {} ms",
            match compaction.kind {
                CompactionKind::Move => "moved",
                CompactionKind::Merge => "compacted",
                CompactionKind::Drop => "dropped",
            },
            family.name(),
            compaction.reason,
            inputs.join(" and "),
            outputs.len(),
            compaction.output_level,
            self.context.clock.since_ns(claim.begun_ns) / 1_000_000,
        ));
    }
}

/// Returns the MANIFEST edit of a compaction.
fn edit(
    claim: &Claim,
    outputs: Vec<NewFile>,
    blob_file_garbage: Vec<BlobFileGarbage>,
) -> VersionEdit {
    let deleted = claim.compaction.inputs.iter().flat_map(|input| {
        let level = input.level as u32;
        input.files.iter().map(move |file| DeletedFile { level, number: file.number() })
    });
    VersionEdit {
        column_family: claim.family.id(),
        deleted_files: deleted.collect(),
        new_files: outputs,
        blob_file_garbage,
        compact_cursors: claim.cursor.clone().into_iter().collect(),
        ..VersionEdit::default()
    }
}

/// Returns the metadata of a compaction's outputs. In a move, the outputs are the input tables, in
/// the order in which [`moved`] returns them.
fn new_tables(compaction: &Compaction, outputs: &[NewFile]) -> Vec<Arc<FileMetadata>> {
    if compaction.kind != CompactionKind::Move {
        return outputs.iter().map(|output| Arc::new(FileMetadata::new(output.clone()))).collect();
    }
    let moved = compaction.files().zip(outputs);
    moved.map(|(from, output)| Arc::new(FileMetadata::moved(from, output.clone()))).collect()
}

/// Returns the tables of a move, described as tables of the output level.
pub(super) fn moved(compaction: &Compaction) -> Vec<NewFile> {
    let level = compaction.output_level as u32;
    compaction
        .files()
        .map(|file| NewFile {
            level,
            marked_for_compaction: file.is_marked_for_compaction(),
            ..file.added().clone()
        })
        .collect()
}
