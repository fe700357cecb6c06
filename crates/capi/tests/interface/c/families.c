/* Column families. */
#include "test.h"

int main(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK();
  rocksdb_column_family_handle_t* one = rocksdb_create_column_family(db, options, "one", &error);
  OK();
  CHECK(rocksdb_column_family_handle_get_id(one) == 1);
  size_t length;
  char* name = rocksdb_column_family_handle_get_name(one, &length);
  CHECK(same(name, length, "one"));
  rocksdb_free(name);

  /* The handles made before an error are returned. */
  const char* names[3] = {"two", "one", "three"};
  rocksdb_column_family_handle_t** made =
      rocksdb_create_column_families(db, options, 3, names, &length, &error);
  FAILED("Invalid argument: ");
  CHECK(length == 1);
  rocksdb_column_family_handle_t* two = made[0];
  rocksdb_create_column_families_destroy(made);
  CHECK(rocksdb_create_column_family(db, options, "\xff", &error) == NULL);
  FAILED("Invalid argument: ");

  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_put_cf(db, writes, one, "k", 1, "1", 1, &error);
  rocksdb_put_cf(db, writes, two, "k", 1, "2", 1, &error);
  OK();
  check_get(db, "k", NULL);
  char* value = rocksdb_get_cf(db, reads, two, "k", 1, &length, &error);
  OK();
  CHECK(same(value, length, "2"));
  rocksdb_free(value);

  const rocksdb_column_family_handle_t* families[2] = {one, two};
  const char* keys[2] = {"k", "k"};
  size_t lengths[2] = {1, 1}, value_lengths[2];
  char *values[2], *errors[2];
  rocksdb_multi_get_cf(db, reads, families, 2, keys, lengths, values, value_lengths, errors);
  CHECK(same(values[0], value_lengths[0], "1") && same(values[1], value_lengths[1], "2"));
  rocksdb_free(values[0]);
  rocksdb_free(values[1]);

  rocksdb_column_family_handle_t* both[2] = {one, two};
  rocksdb_iterator_t* iterators[2];
  rocksdb_create_iterators(db, reads, both, iterators, 2, &error);
  OK();
  for (int i = 0; i < 2; i++) {
    rocksdb_iter_seek_to_first(iterators[i]);
    const char* found = rocksdb_iter_value(iterators[i], &length);
    CHECK(same(found, length, i == 0 ? "1" : "2"));
  }
  rocksdb_iter_destroy(iterators[1]);

  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush_cfs(db, flush, both, 2, &error);
  OK();
  rocksdb_flush_cf(db, flush, one, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);

  /* An iterator outlives the family and its handle. */
  rocksdb_drop_column_family(db, one, &error);
  OK();
  rocksdb_put_cf(db, writes, one, "k", 1, "3", 1, &error);
  CHECK(error != NULL);
  rocksdb_free(error);
  error = NULL;
  rocksdb_column_family_handle_destroy(one);
  rocksdb_iter_seek_to_first(iterators[0]);
  CHECK(rocksdb_iter_valid(iterators[0]));
  rocksdb_iter_destroy(iterators[0]);
  /* Later writes succeed. */
  put(db, "k", "0");
  rocksdb_column_family_handle_destroy(two);
  rocksdb_close(db);

  char** listed = rocksdb_list_column_families(options, "db", &length, &error);
  OK();
  CHECK(length == 2 && strcmp(listed[0], "default") == 0 && strcmp(listed[1], "two") == 0);
  rocksdb_list_column_families_destroy(listed, length);

  CHECK(rocksdb_open(options, "db", &error) == NULL);
  FAILED("Invalid argument: Column families not opened: two");
  const char* opened[3] = {"default", "two", "three"};
  const rocksdb_options_t* with[3] = {options, options, options};
  rocksdb_column_family_handle_t* handles[3];
  CHECK(rocksdb_open_column_families(options, "db", 3, opened, with, handles, &error) == NULL);
  FAILED("Invalid argument: ");
  rocksdb_options_set_create_missing_column_families(options, 1);
  db = rocksdb_open_column_families(options, "db", 3, opened, with, handles, &error);
  OK();
  value = rocksdb_get_cf(db, reads, handles[1], "k", 1, &length, &error);
  CHECK(same(value, length, "2"));
  rocksdb_free(value);
  rocksdb_close(db);
  for (int i = 0; i < 3; i++) rocksdb_column_family_handle_destroy(handles[i]);

  db = rocksdb_open_for_read_only_column_families(options, "db", 2, opened, with, handles, 0,
                                                  &error);
  OK();
  value = rocksdb_get_cf(db, reads, handles[1], "k", 1, &length, &error);
  CHECK(same(value, length, "2"));
  rocksdb_free(value);
  rocksdb_put_cf(db, writes, handles[1], "k", 1, "3", 1, &error);
  FAILED("Not implemented: ");
  rocksdb_column_family_handle_destroy(handles[0]);
  rocksdb_column_family_handle_destroy(handles[1]);
  rocksdb_close(db);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_options_destroy(options);
  return 0;
}
