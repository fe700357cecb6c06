/* Managers of tables and blob files, which databases share. */
#include "test.h"

#include <unistd.h>

static void flush(rocksdb_t* db) {
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  rocksdb_flushoptions_destroy(flush);
}

static void check_error(const char* beginning, const char* end) {
  CHECK(error != NULL);
  CHECK(strncmp(error, beginning, strlen(beginning)) == 0);
  CHECK(strcmp(error + strlen(error) - strlen(end), end) == 0);
  rocksdb_free(error);
  error = NULL;
}

static void check_defaults(rocksdb_sst_file_manager_t* manager) {
  CHECK(rocksdb_sst_file_manager_get_total_size(manager) == 0);
  CHECK(rocksdb_sst_file_manager_get_total_trash_size(manager) == 0);
  CHECK(rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(manager) == 0);
  CHECK(rocksdb_sst_file_manager_get_max_trash_db_ratio(manager) == 0.25);
  CHECK(!rocksdb_sst_file_manager_is_max_allowed_space_reached(manager));
  CHECK(!rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(manager));
  rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(manager, -1);
  CHECK(rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(manager) == -1);
}

int main(void) {
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_sst_file_manager_t* manager = rocksdb_sst_file_manager_create(env);
  rocksdb_env_destroy(env);
  check_defaults(manager);

  /* Two databases with one manager. */
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_sst_file_manager(options, manager);
  rocksdb_t* one = rocksdb_open(options, "one", &error);
  OK();
  rocksdb_t* two = rocksdb_open(options, "two", &error);
  OK();
  put(one, "a", "1");
  flush(one);
  OK();
  uint64_t size = rocksdb_sst_file_manager_get_total_size(manager);
  CHECK(size > 0);
  put(two, "a", "1");
  flush(two);
  OK();
  CHECK(rocksdb_sst_file_manager_get_total_size(manager) > size);
  rocksdb_close(two);
  CHECK(rocksdb_sst_file_manager_get_total_size(manager) == size);

  /* The limit. */
  rocksdb_sst_file_manager_set_max_allowed_space_usage(manager, size + 1);
  put(one, "b", "2");
  flush(one);
  check_error("IO error: Space limit reached: ", "Max allowed space was reached");
  CHECK(rocksdb_sst_file_manager_is_max_allowed_space_reached(manager));
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_put(one, writing, "c", 1, "3", 1, &error);
  check_error("IO error: Space limit reached: ", "Max allowed space was reached");
  rocksdb_sst_file_manager_set_max_allowed_space_usage(manager, 0);
  for (int i = 0; i < 6000; i++) {
    rocksdb_put(one, writing, "c", 1, "3", 1, &error);
    if (!error) break;
    rocksdb_free(error);
    error = NULL;
    usleep(10000);
  }
  rocksdb_writeoptions_destroy(writing);
  check_get(one, "c", "3");
  check_get(one, "b", "2");

  /* Trash: at one byte per second, the tables that a compaction replaces are removed slowly. */
  rocksdb_sst_file_manager_set_compaction_buffer_size(manager, 1 << 20);
  rocksdb_sst_file_manager_set_max_trash_db_ratio(manager, 2.0);
  CHECK(rocksdb_sst_file_manager_get_max_trash_db_ratio(manager) == 2.0);
  rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(manager, 1);
  CHECK(rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(manager) == 1);
  size = rocksdb_sst_file_manager_get_total_size(manager);
  rocksdb_compact_range(one, NULL, 0, NULL, 0);
  for (int i = 0; i < 6000 && !rocksdb_sst_file_manager_get_total_trash_size(manager); i++) {
    usleep(10000);
  }
  CHECK(rocksdb_sst_file_manager_get_total_trash_size(manager) > 0);
  rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(manager, 0);
  for (int i = 0; i < 6000 && rocksdb_sst_file_manager_get_total_size(manager) >= size; i++) {
    usleep(10000);
  }
  CHECK(rocksdb_sst_file_manager_get_total_size(manager) > 0);
  CHECK(rocksdb_sst_file_manager_get_total_size(manager) < size);
  check_get(one, "a", "1");
  rocksdb_sst_file_manager_destroy(manager);
  rocksdb_close(one);
  rocksdb_options_destroy(options);
  return 0;
}
