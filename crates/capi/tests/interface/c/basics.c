/* Opening, gets, puts, deletions, iterators and snapshots. */
#define _GNU_SOURCE
#include <pthread.h>

#include "test.h"

static void check_position(rocksdb_iterator_t* iter, const char* key, const char* value) {
  CHECK(rocksdb_iter_valid(iter));
  size_t length;
  const char* found = rocksdb_iter_key(iter, &length);
  CHECK(same(found, length, key));
  found = rocksdb_iter_value(iter, &length);
  CHECK(same(found, length, value));
  rocksdb_slice_t slice = rocksdb_iter_key_slice(iter);
  CHECK(same(slice.data, slice.size, key));
  slice = rocksdb_iter_value_slice(iter);
  CHECK(same(slice.data, slice.size, value));
}

static void gets(rocksdb_t* db) {
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  put(db, "a", "1");
  put(db, "empty", "");
  check_get(db, "a", "1");
  check_get(db, "none", NULL);
  size_t length = 7;
  char* value = rocksdb_get(db, reads, "empty", 5, &length, &error);
  OK();
  CHECK(value != NULL && length == 0);
  rocksdb_free(value);

  rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned(db, reads, "a", 1, &error);
  OK();
  const char* bytes = rocksdb_pinnableslice_value(pinned, &length);
  CHECK(same(bytes, length, "1"));
  rocksdb_pinnableslice_destroy(pinned);
  CHECK(rocksdb_get_pinned(db, reads, "none", 4, &error) == NULL && error == NULL);
  CHECK(rocksdb_pinnableslice_value(NULL, &length) == NULL && length == 0);
  rocksdb_pinnable_handle_t* handle = rocksdb_get_pinned_v2(db, reads, "a", 1, &error);
  bytes = rocksdb_pinnable_handle_get_value(handle, &length);
  CHECK(same(bytes, length, "1"));
  rocksdb_pinnable_handle_destroy(handle);

  char buffer[4];
  unsigned char found;
  CHECK(rocksdb_get_into_buffer(db, reads, "a", 1, buffer, 4, &length, &found, &error) == 1);
  CHECK(found && same(buffer, length, "1"));
  CHECK(rocksdb_get_into_buffer(db, reads, "a", 1, buffer, 0, &length, &found, &error) == 0);
  CHECK(found && length == 1);
  CHECK(rocksdb_get_into_buffer(db, reads, "none", 4, buffer, 4, &length, &found, &error) == 0);
  CHECK(!found && length == 0 && error == NULL);

  const char* keys[3] = {"a", "none", "empty"};
  size_t lengths[3] = {1, 4, 5}, value_lengths[3];
  char *values[3], *errors[3];
  rocksdb_multi_get(db, reads, 3, keys, lengths, values, value_lengths, errors);
  CHECK(same(values[0], value_lengths[0], "1") && errors[0] == NULL);
  CHECK(values[1] == NULL && value_lengths[1] == 0 && errors[1] == NULL);
  CHECK(values[2] != NULL && value_lengths[2] == 0 && errors[2] == NULL);
  rocksdb_free(values[0]);
  rocksdb_free(values[2]);

  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_pinnableslice_t* slices[3];
  rocksdb_batched_multi_get_cf(db, reads, family, 3, keys, lengths, slices, errors, false);
  CHECK(slices[0] != NULL && slices[1] == NULL && slices[2] != NULL);
  rocksdb_pinnableslice_destroy(slices[0]);
  rocksdb_pinnableslice_destroy(slices[2]);
  rocksdb_slice_t key_slices[2] = {{"a", 1}, {"none", 4}};
  rocksdb_pinnable_multi_get_t* all =
      rocksdb_batched_multi_get_pinned_cf(db, reads, family, 2, key_slices, 0);
  CHECK(rocksdb_pinnable_multi_get_count(all) == 2);
  const char *found_value, *found_error;
  size_t error_length;
  CHECK(rocksdb_pinnable_multi_get_result(all, 0, &found_value, &length, &found_error,
                                          &error_length) == rocksdb_pinnable_multi_get_found);
  CHECK(same(found_value, length, "1"));
  CHECK(rocksdb_pinnable_multi_get_result(all, 1, &found_value, &length, &found_error,
                                          &error_length) == rocksdb_pinnable_multi_get_not_found);
  CHECK(rocksdb_pinnable_multi_get_result(all, 2, &found_value, &length, &found_error,
                                          &error_length) ==
        rocksdb_pinnable_multi_get_out_of_bounds);
  rocksdb_pinnable_multi_get_destroy(all);
  rocksdb_column_family_handle_destroy(family);

  char* may = NULL;
  CHECK(rocksdb_key_may_exist(db, reads, "a", 1, &may, &length, NULL, 0, &found));
  CHECK(found && same(may, length, "1"));
  rocksdb_free(may);
  CHECK(!rocksdb_key_may_exist(db, reads, "none", 4, &may, &length, NULL, 0, NULL));
  /* There are no timestamps: a call with one denies nothing, and the next call names it. */
  CHECK(rocksdb_key_may_exist(db, reads, "none", 4, &may, &length, "time", 4, &found) && !found);
  CHECK(rocksdb_get(db, reads, "a", 1, &length, &error) == NULL);
  FAILED("Not implemented: rocksdb_key_may_exist");
  rocksdb_readoptions_destroy(reads);
}

static void deletions(rocksdb_t* db) {
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  put(db, "d1", "1");
  put(db, "d2", "2");
  put(db, "d3", "3");
  rocksdb_delete(db, writes, "d1", 2, &error);
  OK();
  check_get(db, "d1", NULL);
  rocksdb_singledelete(db, writes, "d2", 2, &error);
  OK();
  check_get(db, "d2", NULL);
  rocksdb_delete_range_cf(db, writes, family, "d", 1, "e", 1, &error);
  OK();
  check_get(db, "d3", NULL);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_writeoptions_destroy(writes);
}

static void iterators(rocksdb_t* db) {
  put(db, "i1", "1");
  put(db, "i2", "2");
  put(db, "i3", "3");
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_readoptions_set_iterate_lower_bound(reads, "i", 1);
  rocksdb_readoptions_set_iterate_upper_bound(reads, "j", 1);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, reads);
  CHECK(!rocksdb_iter_valid(iter));
  rocksdb_iter_seek_to_first(iter);
  check_position(iter, "i1", "1");
  rocksdb_iter_next(iter);
  check_position(iter, "i2", "2");
  rocksdb_iter_next(iter);
  rocksdb_iter_next(iter);
  CHECK(!rocksdb_iter_valid(iter));
  rocksdb_iter_next(iter);
  rocksdb_iter_get_error(iter, &error);
  OK();
  rocksdb_iter_seek_to_last(iter);
  check_position(iter, "i3", "3");
  rocksdb_iter_prev(iter);
  check_position(iter, "i2", "2");
  rocksdb_iter_seek(iter, "i2x", 3);
  check_position(iter, "i3", "3");
  rocksdb_iter_seek_for_prev(iter, "i2x", 3);
  check_position(iter, "i2", "2");
  put(db, "i4", "4");
  rocksdb_iter_seek_to_last(iter);
  check_position(iter, "i3", "3");
  rocksdb_iter_refresh(iter, &error);
  OK();
  rocksdb_iter_seek_to_last(iter);
  check_position(iter, "i4", "4");
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_set_iterate_lower_bound(reads, NULL, 0);
  rocksdb_readoptions_set_iterate_upper_bound(reads, NULL, 0);
  iter = rocksdb_create_iterator(db, reads);
  rocksdb_iter_seek_to_first(iter);
  check_position(iter, "a", "1");
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(reads);
}

static void snapshots(rocksdb_t* db) {
  put(db, "s", "old");
  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  CHECK(rocksdb_snapshot_get_sequence_number(snapshot) == rocksdb_get_latest_sequence_number(db));
  put(db, "s", "new");
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_readoptions_set_snapshot(reads, snapshot);
  size_t length;
  char* value = rocksdb_get(db, reads, "s", 1, &length, &error);
  OK();
  CHECK(same(value, length, "old"));
  rocksdb_free(value);
  /* An iterator outlives its snapshot. */
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, reads);
  rocksdb_release_snapshot(db, snapshot);
  /* The options do not keep the snapshot. */
  CHECK(rocksdb_get(db, reads, "s", 1, &length, &error) == NULL);
  FAILED("Invalid argument: ");
  uint64_t snapshots;
  CHECK(rocksdb_property_int(db, "rocksdb.num-snapshots", &snapshots) == 0 && snapshots == 0);
  rocksdb_readoptions_set_snapshot(reads, NULL);
  rocksdb_iter_seek(iter, "s", 1);
  check_position(iter, "s", "old");
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(reads);
  check_get(db, "s", "new");
}

static void* reads_on_a_thread(void* db) {
  check_get(db, "a", "1");
  return NULL;
}

int main(void) {
  rocksdb_t* db = create("db");
  gets(db);
  deletions(db);
  iterators(db);
  snapshots(db);
  for (int i = 0; i < 1000; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reads_on_a_thread, db) == 0);
    pthread_join(thread, NULL);
  }

  /* An iterator may be destroyed after the database is closed, and so may a handle. */
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, reads);
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_close(db);
  rocksdb_iter_destroy(iter);
  CHECK(rocksdb_column_family_handle_get_id(family) == 0);
  rocksdb_column_family_handle_destroy(family);

  /* The data is there after the database is closed. */
  rocksdb_options_t* options = rocksdb_options_create();
  db = rocksdb_open_for_read_only(options, "db", 0, &error);
  OK();
  check_get(db, "a", "1");
  rocksdb_close(db);
  db = rocksdb_open(options, "db", &error);
  OK();
  check_get(db, "s", "new");
  rocksdb_flush_wal(db, 1, &error);
  OK();
  /* The database is still open when the process exits. */
  rocksdb_options_destroy(options);
  rocksdb_readoptions_destroy(reads);
  return 0;
}
