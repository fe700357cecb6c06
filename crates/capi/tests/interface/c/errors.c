/* Errors: their words, and who frees what. */
#include "test.h"

int main(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  CHECK(rocksdb_open(options, "nothing", &error) == NULL);
  /* The next error replaces this one, and frees it. */
  CHECK(rocksdb_open(options, "nothing", &error) == NULL);
  FAILED("Invalid argument: ");
  CHECK(rocksdb_open_for_read_only(options, "nothing", 0, &error) == NULL);
  FAILED("NotFound: ");
  CHECK(rocksdb_open(options, NULL, &error) == NULL);
  FAILED("Invalid argument: ");
  CHECK(rocksdb_open(NULL, "db", &error) == NULL);
  FAILED("Invalid argument: ");
  size_t length = 1;
  CHECK(rocksdb_list_column_families(options, "nothing", &length, &error) == NULL);
  CHECK(length == 0);
  FAILED("IO error: ");

  rocksdb_t* db = create("db");
  rocksdb_options_set_create_if_missing(options, 1);
  CHECK(rocksdb_open(options, "db", &error) == NULL);
  FAILED("IO error: ");
  rocksdb_options_set_error_if_exists(options, 1);
  rocksdb_close(db);
  CHECK(rocksdb_open(options, "db", &error) == NULL);
  FAILED("Invalid argument: ");
  rocksdb_options_destroy(options);

  db = create("db");
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_merge(db, writes, "k", 1, "v", 1, &error);
  CHECK(error != NULL);
  rocksdb_free(error);
  error = NULL;
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_delete_range_cf(db, writes, family, "b", 1, "a", 1, &error);
  if (error) FAILED("Invalid argument: ");
  put(db, "later", "1");
  check_get(db, "later", "1");
  rocksdb_column_family_handle_destroy(family);

  /* A value that is not an option's makes the opening fail. */
  options = rocksdb_options_create();
  rocksdb_options_set_compression(options, 77);
  CHECK(rocksdb_open(options, "other", &error) == NULL);
  FAILED("Invalid argument: ");
  rocksdb_options_destroy(options);

  /* Destroying nothing does nothing. */
  rocksdb_options_destroy(NULL);
  rocksdb_iter_destroy(NULL);
  rocksdb_free(NULL);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_close(db);
  options = rocksdb_options_create();
  rocksdb_destroy_db(options, "db", &error);
  OK();
  CHECK(rocksdb_open(options, "db", &error) == NULL);
  FAILED("Invalid argument: ");
  rocksdb_options_destroy(options);
  return 0;
}
