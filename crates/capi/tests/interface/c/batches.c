/* Write batches. */
#include "test.h"

static char seen[1000];

static void add(const char* kind, uint32_t family, const char* k, size_t klen, const char* v,
                size_t vlen) {
  size_t used = strlen(seen);
  snprintf(seen + used, sizeof seen - used, "%s%u:%.*s=%.*s ", kind, family, (int)klen, k,
           (int)vlen, v);
}

static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  CHECK(state == seen);
  add("put", 0, k, klen, v, vlen);
}
static void on_delete(void* state, const char* k, size_t klen) { add("del", 0, k, klen, "", 0); }
static void on_log(void* state, const char* blob, size_t length) {
  add("log", 0, "", 0, blob, length);
}
static void on_put_cf(void* state, uint32_t family, const char* k, size_t klen, const char* v,
                      size_t vlen) {
  add("put", family, k, klen, v, vlen);
}
static void on_delete_cf(void* state, uint32_t family, const char* k, size_t klen) {
  add("del", family, k, klen, "", 0);
}
static void on_merge_cf(void* state, uint32_t family, const char* k, size_t klen, const char* v,
                        size_t vlen) {
  add("merge", family, k, klen, v, vlen);
}

int main(void) {
  rocksdb_t* db = create("db");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_column_family_handle_t* family = rocksdb_create_column_family(db, options, "f", &error);
  OK();
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();

  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "a", 1, "1", 1);
  rocksdb_writebatch_put_log_data(batch, "blob", 4);
  rocksdb_writebatch_delete(batch, "b", 1);
  const char *keys[2] = {"c", "d"}, *values[2] = {"3", "4"};
  size_t lengths[2] = {1, 1};
  rocksdb_writebatch_putv(batch, 2, keys, lengths, 2, values, lengths);
  CHECK(rocksdb_writebatch_count(batch) == 3);
  rocksdb_writebatch_iterate(batch, seen, on_put, on_delete);
  CHECK(strcmp(seen, "put0:a=1 del0:b= put0:cd=34 ") == 0);
  seen[0] = 0;
  rocksdb_writebatch_iterate_ld(batch, seen, on_put, on_delete, on_log);
  CHECK(strcmp(seen, "put0:a=1 log0:=blob del0:b= put0:cd=34 ") == 0);
  rocksdb_write(db, writes, batch, &error);
  OK();
  check_get(db, "a", "1");
  check_get(db, "cd", "34");

  /* A copy of the bytes is the same batch. */
  size_t size;
  const char* data = rocksdb_writebatch_data(batch, &size);
  rocksdb_writebatch_t* copy = rocksdb_writebatch_create_from(data, size);
  CHECK(rocksdb_writebatch_count(copy) == 3);
  rocksdb_writebatch_destroy(copy);

  rocksdb_writebatch_clear(batch);
  CHECK(rocksdb_writebatch_count(batch) == 0);
  rocksdb_writebatch_put_cf(batch, family, "x", 1, "9", 1);
  rocksdb_writebatch_put(batch, "y", 1, "8", 1);
  seen[0] = 0;
  /* Stops at the other family. */
  rocksdb_writebatch_iterate(batch, seen, on_put, on_delete);
  CHECK(strcmp(seen, "") == 0);
  rocksdb_writebatch_merge_cf(batch, family, "m", 1, "7", 1);
  rocksdb_writebatch_delete_cf(batch, family, "n", 1);
  rocksdb_writebatch_delete_range(batch, "p", 1, "q", 1);
  rocksdb_writebatch_put(batch, "z", 1, "6", 1);
  rocksdb_writebatch_iterate_cf(batch, seen, on_put_cf, on_delete_cf, on_merge_cf);
  CHECK(strcmp(seen, "put1:x=9 put0:y=8 merge1:m=7 del1:n= ") == 0);
  rocksdb_writebatch_destroy(batch);

  /* (NULL, 0) is the empty string. */
  rocksdb_put(db, writes, NULL, 0, NULL, 0, &error);
  OK();
  rocksdb_put(db, writes, (const char*)1, 0, "v", 1, &error);
  OK();
  check_get(db, "", "v");

  /* An entry that is too long leaves the batch unchanged. */
  batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "k", 1, "v", ((size_t)1 << 32) + 1);
  CHECK(rocksdb_writebatch_count(batch) == 0);
  rocksdb_writebatch_destroy(batch);
  batch = rocksdb_writebatch_create_with_params(100, 40, 0, 0);
  rocksdb_writebatch_put(batch, "k", 1, "v", 1);
  rocksdb_writebatch_put(batch, "k", 1, "0123456789012345678901234567890123456789", 40);
  CHECK(rocksdb_writebatch_count(batch) == 1);
  rocksdb_writebatch_destroy(batch);

  /* A damaged batch is refused, and later writes succeed. */
  batch = rocksdb_writebatch_create_from("damaged", 7);
  rocksdb_write(db, writes, batch, &error);
  FAILED("Corruption: ");
  rocksdb_writebatch_destroy(batch);
  put(db, "k", "v");

  /* The batches in the log. */
  rocksdb_wal_iterator_t* iter = rocksdb_get_updates_since(db, 1, NULL, &error);
  OK();
  int batches = 0;
  for (; rocksdb_wal_iter_valid(iter); rocksdb_wal_iter_next(iter)) {
    uint64_t sequence;
    batch = rocksdb_wal_iter_get_batch(iter, &sequence);
    CHECK(sequence > 0);
    rocksdb_writebatch_destroy(batch);
    batches++;
  }
  rocksdb_wal_iter_status(iter, &error);
  OK();
  CHECK(batches >= 3);
  rocksdb_wal_iter_destroy(iter);

  rocksdb_writeoptions_destroy(writes);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  return 0;
}
