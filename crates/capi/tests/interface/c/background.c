/* Background work and its end, and the verification of an open database. */
#include <sys/stat.h>

#include "test.h"

/* Changes a byte of the only table of a database. */
static void damage(rocksdb_t* db, const char* directory) {
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 1);
  char path[200];
  snprintf(path, sizeof path, "%s/%s", directory, rocksdb_livefiles_name(files, 0));
  rocksdb_livefiles_destroy(files);
  FILE* table = fopen(path, "r+b");
  CHECK(table != NULL);
  CHECK(fseek(table, 6, SEEK_SET) == 0);
  int byte = fgetc(table);
  CHECK(fseek(table, 6, SEEK_SET) == 0);
  CHECK(fputc(byte ^ 1, table) != EOF);
  CHECK(fclose(table) == 0);
}

/* Reads blocks from the files although they are in the cache. */
static void verification(void) {
  rocksdb_t* db = create("verified");
  put(db, "key", "value");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  check_get(db, "key", "value");
  rocksdb_verify_checksum(db, &error);
  OK();
  damage(db, "verified");
  rocksdb_verify_checksum(db, &error);
  FAILED("Corruption: ");
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_verify_checksum_with_options(db, reads, &error);
  FAILED("Corruption: ");
  rocksdb_readoptions_destroy(reads);
  rocksdb_close(db);
}

static rocksdb_t* small_buffers(const char* directory) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, 65536);
  rocksdb_t* db = rocksdb_open(options, directory, &error);
  OK();
  rocksdb_options_destroy(options);
  return db;
}

/* Puts values of 1,000 bytes until one fails; returns the number of those that did not. */
static int fill(rocksdb_t* db, int most) {
  static char value[1000];
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  int at = 0;
  for (; at < most; at++) {
    rocksdb_put(db, writes, (char*)&at, sizeof at, value, sizeof value, &error);
    if (error != NULL) break;
  }
  rocksdb_writeoptions_destroy(writes);
  return at;
}

static void waiting(void) {
  rocksdb_t* db = small_buffers("waited");
  CHECK(fill(db, 200) == 200);
  rocksdb_wait_for_compact_options_t* options = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact(db, options, &error);
  OK();
  char* sealed = rocksdb_property_value(db, "rocksdb.num-immutable-mem-table");
  CHECK(strcmp(sealed, "0") == 0);
  rocksdb_free(sealed);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) >= 1);
  rocksdb_livefiles_destroy(files);
  rocksdb_wait_for_compact_options_destroy(options);
  rocksdb_close(db);
}

/* Writes continue after the end of background work, until memtables are full. */
static void cancelling(void) {
  rocksdb_t* db = small_buffers("cancelled");
  rocksdb_writeoptions_t* unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(unlogged, 1);
  rocksdb_put(db, unlogged, "unlogged", 8, "1", 1, &error);
  OK();
  rocksdb_cancel_all_background_work(db, 1);
  rocksdb_cancel_all_background_work(db, 0);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 1);
  rocksdb_livefiles_destroy(files);
  put(db, "later", "2");
  check_get(db, "unlogged", "1");
  check_get(db, "later", "2");
  rocksdb_options_t* options = rocksdb_options_create();
  CHECK(rocksdb_open(options, "cancelled", &error) == NULL);
  FAILED("IO error: ");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  FAILED("Shutdown in progress: ");
  rocksdb_flushoptions_destroy(flush);
  CHECK(fill(db, 100000) < 100000);
  FAILED("Shutdown in progress: ");
  check_get(db, "later", "2");
  rocksdb_put(db, unlogged, "last", 4, "3", 1, &error);
  FAILED("Shutdown in progress: ");
  rocksdb_close(db);
  db = rocksdb_open(options, "cancelled", &error);
  OK();
  check_get(db, "unlogged", "1");
  check_get(db, "later", "2");
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_writeoptions_destroy(unlogged);
}

/* Follows the logs from a number that is in none. */
static void following(void) {
  rocksdb_t* db = create("followed");
  put(db, "a", "1");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  rocksdb_wal_iterator_t* updates = rocksdb_get_updates_since(db, 1, NULL, &error);
  OK();
  CHECK(!rocksdb_wal_iter_valid(updates));
  rocksdb_wal_iter_status(updates, &error);
  OK();
  rocksdb_wal_iter_destroy(updates);
  put(db, "b", "2");
  rocksdb_writeoptions_t* unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(unlogged, 1);
  rocksdb_put(db, unlogged, "c", 1, "3", 1, &error);
  OK();
  rocksdb_writeoptions_destroy(unlogged);
  put(db, "d", "4");
  for (uint64_t from = 1; from <= 4; from++) {
    updates = rocksdb_get_updates_since(db, from, NULL, &error);
    OK();
    CHECK(rocksdb_wal_iter_valid(updates));
    uint64_t sequence;
    rocksdb_writebatch_destroy(rocksdb_wal_iter_get_batch(updates, &sequence));
    CHECK(sequence == (from <= 2 ? 2 : 4));
    rocksdb_wal_iter_next(updates);
    CHECK(!rocksdb_wal_iter_valid(updates));
    rocksdb_wal_iter_status(updates, &error);
    if (from <= 2) {
      FAILED("Corruption: ");
    } else {
      OK();
    }
    rocksdb_wal_iter_destroy(updates);
  }
  CHECK(rocksdb_get_updates_since(db, 5, NULL, &error) == NULL);
  FAILED("NotFound: ");
  rocksdb_close(db);
}

/* A table replaces an unfinished one at the same path. */
static void replaced_tables(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writers[2];
  for (int at = 0; at < 2; at++) {
    writers[at] = rocksdb_sstfilewriter_create(env, options);
    rocksdb_sstfilewriter_open(writers[at], "replaced", &error);
    rocksdb_sstfilewriter_put(writers[at], "b", 1, "1", 1, &error);
    OK();
    rocksdb_sstfilewriter_put(writers[at], "a", 1, "1", 1, &error);
    FAILED("Invalid argument: ");
  }
  rocksdb_sstfilewriter_open(writers[0], "replaced", &error);
  rocksdb_sstfilewriter_put(writers[0], "a", 1, "1", 1, &error);
  rocksdb_sstfilewriter_finish(writers[0], &error);
  OK();
  rocksdb_sstfilewriter_destroy(writers[0]);
  rocksdb_sstfilewriter_destroy(writers[1]);
  struct stat found;
  CHECK(stat("replaced", &found) == 0);
  rocksdb_envoptions_destroy(env);
  rocksdb_options_destroy(options);
}

static void no_operator(void) {
  rocksdb_t* db = create("no_operator");
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_merge(db, writes, "k", 1, "v", 1, &error);
  FAILED("Not implemented: ");
  rocksdb_writeoptions_destroy(writes);
  rocksdb_close(db);
}

static void no_database(void) {
  CHECK(mkdir("empty", 0755) == 0);
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_options_t *options, **families;
  char** names;
  size_t count;
  rocksdb_load_latest_options("empty", env, false, NULL, &options, &count, &names, &families,
                              &error);
  FAILED("NotFound: ");
  CHECK(options == NULL && count == 0);
  rocksdb_env_destroy(env);
}

int main(void) {
  verification();
  waiting();
  cancelling();
  following();
  replaced_tables();
  no_operator();
  no_database();
  return 0;
}
