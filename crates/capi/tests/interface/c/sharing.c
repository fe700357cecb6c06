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
  /* Tables that do not overlap would be moved. */
  put(one, "a", "1");
  put(one, "c", "3");
  flush(one);
  OK();
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

  /* Rate limiters. Ticker 126 has the bytes of writes that they granted. */
  rocksdb_options_enable_statistics(options);
  rocksdb_writeoptions_t* user = rocksdb_writeoptions_create();
  CHECK(rocksdb_writeoptions_get_rate_limiter_priority(user) == 4);
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  CHECK(rocksdb_readoptions_get_rate_limiter_priority(reading) == 4);
  for (int mode = 0; mode < 4; mode++) {
    rocksdb_ratelimiter_t* limiter =
        rocksdb_ratelimiter_create_with_mode(1 << 30, 1000, 10, mode, mode % 2);
    rocksdb_options_set_ratelimiter(options, limiter);
    one = rocksdb_open(options, "one", &error);
    OK();
    put(one, "d", "4");
    flush(one);
    OK();
    rocksdb_compact_range(one, NULL, 0, NULL, 0);
    check_get(one, "d", "4");

    /* Writes can have the priority of users only, reads any. */
    uint64_t before = rocksdb_options_statistics_get_ticker_count(options, 126);
    CHECK((before > 0) == (mode > 0));
    rocksdb_writeoptions_set_rate_limiter_priority(user, 3);
    rocksdb_put(one, user, "e", 1, "5", 1, &error);
    OK();
    CHECK((rocksdb_options_statistics_get_ticker_count(options, 126) > before) == (mode > 0));
    rocksdb_writeoptions_set_rate_limiter_priority(user, 17 * mode);
    CHECK(rocksdb_writeoptions_get_rate_limiter_priority(user) == 17 * mode);
    rocksdb_put(one, user, "e", 1, "6", 1, &error);
    check_error("Invalid argument: ", "must be User, or not set");
    rocksdb_readoptions_set_rate_limiter_priority(reading, mode);
    CHECK(rocksdb_readoptions_get_rate_limiter_priority(reading) == mode);
    size_t length;
    char* value = rocksdb_get(one, reading, "e", 1, &length, &error);
    OK();
    CHECK(length == 1 && value[0] == '5');
    rocksdb_free(value);
    rocksdb_close(one);
    rocksdb_ratelimiter_destroy(limiter);
  }
  rocksdb_writeoptions_destroy(user);
  rocksdb_readoptions_destroy(reading);
  rocksdb_options_destroy(options);
  return 0;
}
