/* Tables, checkpoints, compactions, sizes, live files. */
#include "test.h"

int main(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_envoptions_t* environment = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(environment, options);
  rocksdb_sstfilewriter_put(writer, "a", 1, "1", 1, &error);
  CHECK(error != NULL);
  rocksdb_free(error);
  error = NULL;
  rocksdb_sstfilewriter_open(writer, "table.sst", &error);
  OK();
  rocksdb_sstfilewriter_put(writer, "a", 1, "1", 1, &error);
  rocksdb_sstfilewriter_add(writer, "b", 1, "2", 1, &error);
  rocksdb_sstfilewriter_delete(writer, "c", 1, &error);
  OK();
  rocksdb_sstfilewriter_finish(writer, &error);
  OK();
  uint64_t size;
  rocksdb_sstfilewriter_file_size(writer, &size);
  CHECK(size > 0);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(environment);

  rocksdb_t* db = create("db");
  rocksdb_ingestexternalfileoptions_t* ingestion = rocksdb_ingestexternalfileoptions_create();
  const char* tables[1] = {"table.sst"};
  rocksdb_ingest_external_file(db, tables, 1, ingestion, &error);
  OK();
  check_get(db, "a", "1");
  check_get(db, "b", "2");
  rocksdb_ingestexternalfileoptions_destroy(ingestion);

  put(db, "d", "4");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 2);
  size_t length;
  for (int i = 0; i < 2; i++) {
    CHECK(strcmp(rocksdb_livefiles_column_family_name(files, i), "default") == 0);
    CHECK(rocksdb_livefiles_name(files, i)[0] == '/');
    CHECK(rocksdb_livefiles_size(files, i) > 0);
    const char* smallest = rocksdb_livefiles_smallestkey(files, i, &length);
    CHECK(same(smallest, length, "a") || same(smallest, length, "d"));
  }
  CHECK(rocksdb_livefiles_name(files, 2) == NULL);
  rocksdb_livefiles_destroy(files);

  const char *starts[1] = {"a"}, *limits[1] = {"z"};
  size_t lengths[1] = {1};
  uint64_t sizes[1] = {0};
  rocksdb_approximate_sizes(db, 1, starts, lengths, limits, lengths, sizes, &error);
  OK();
  CHECK(sizes[0] > 0);

  rocksdb_compactoptions_t* compaction = rocksdb_compactoptions_create();
  rocksdb_compactoptions_set_bottommost_level_compaction(compaction, 2);
  rocksdb_compact_range_opt(db, compaction, NULL, 0, NULL, 0);
  rocksdb_compactoptions_destroy(compaction);
  files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 1);
  CHECK(rocksdb_livefiles_entries(files, 0) == 3);
  rocksdb_livefiles_destroy(files);
  rocksdb_disable_manual_compaction(db);
  put(db, "more", "1");
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_entries(files, 0) == 3);
  rocksdb_livefiles_destroy(files);
  rocksdb_enable_manual_compaction(db);
  rocksdb_suggest_compact_range(db, NULL, 0, NULL, 0, &error);
  OK();
  rocksdb_verify_checksum(db, &error);
  OK();

  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &error);
  OK();
  rocksdb_checkpoint_create(checkpoint, "copy", 0, &error);
  OK();
  rocksdb_checkpoint_object_destroy(checkpoint);
  char* identity = rocksdb_get_db_identity(db, &length);
  CHECK(length == 36);
  rocksdb_free(identity);
  rocksdb_close(db);

  db = rocksdb_open(options, "copy", &error);
  OK();
  check_get(db, "d", "4");
  check_get(db, "c", NULL);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  return 0;
}
