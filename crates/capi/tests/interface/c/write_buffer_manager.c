/* A write buffer manager that two databases share, and a cache that it charges. */
#include "test.h"

static void put_kilobytes(rocksdb_t* db, int count) {
  static char value[1000];
  rocksdb_writeoptions_t* options = rocksdb_writeoptions_create();
  for (int i = 0; i < count; i++) {
    char key[16];
    snprintf(key, sizeof key, "%08d", i);
    rocksdb_put(db, options, key, strlen(key), value, sizeof value, &error);
    OK();
  }
  rocksdb_writeoptions_destroy(options);
}

static uint64_t tables(rocksdb_t* db) {
  char* text = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  uint64_t count = strtoull(text, NULL, 10);
  rocksdb_free(text);
  return count;
}

int main(void) {
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(16 << 20);
  rocksdb_write_buffer_manager_t* manager =
      rocksdb_write_buffer_manager_create_with_cache(4 << 20, cache, true);
  CHECK(rocksdb_write_buffer_manager_enabled(manager));
  CHECK(rocksdb_write_buffer_manager_cost_to_cache(manager));
  CHECK(rocksdb_write_buffer_manager_buffer_size(manager) == 4 << 20);
  CHECK(rocksdb_write_buffer_manager_memory_usage(manager) == 0);

  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_options_set_write_buffer_manager(options, manager);
  rocksdb_t* first = rocksdb_open(options, "first", &error);
  OK();
  rocksdb_t* second = rocksdb_open(options, "second", &error);
  OK();
  rocksdb_options_set_write_buffer_manager(options, NULL);
  rocksdb_t* free_one = rocksdb_open(options, "free", &error);
  OK();
  rocksdb_options_destroy(options);

  put_kilobytes(first, 1000);
  size_t usage = rocksdb_write_buffer_manager_memory_usage(manager);
  CHECK(usage > 1000 * 1000 && usage < 4 << 20);
  CHECK(rocksdb_write_buffer_manager_mutable_memtable_memory_usage(manager) == usage);
  size_t charged = rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(manager);
  CHECK(charged >= usage && charged < usage + (256 << 10) && charged % (256 << 10) == 0);
  CHECK(rocksdb_cache_get_usage(cache) >= charged);

  /* Nobody's memtable is near its own limit of 64 MiB. */
  put_kilobytes(second, 8000);
  put_kilobytes(first, 1);
  put_kilobytes(free_one, 8000);
  CHECK(tables(second) > 0);
  CHECK(tables(free_one) == 0);
  CHECK(rocksdb_write_buffer_manager_mutable_memtable_memory_usage(manager) <= 4 << 20);

  rocksdb_write_buffer_manager_set_buffer_size(manager, 64 << 20);
  rocksdb_write_buffer_manager_set_allow_stall(manager, false);
  CHECK(rocksdb_write_buffer_manager_buffer_size(manager) == 64 << 20);
  rocksdb_close(first);
  rocksdb_close(second);
  rocksdb_close(free_one);
  rocksdb_write_buffer_manager_destroy(manager);

  manager = rocksdb_write_buffer_manager_create(0, false);
  CHECK(!rocksdb_write_buffer_manager_enabled(manager));
  CHECK(!rocksdb_write_buffer_manager_cost_to_cache(manager));
  CHECK(rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(manager) == 0);
  rocksdb_write_buffer_manager_destroy(manager);
  rocksdb_cache_destroy(cache);
  return 0;
}
