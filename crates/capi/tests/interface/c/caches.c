/* Caches: strict capacity, figures, resizing, the row cache, and what has no effect. */
#include "test.h"

enum { KEYS = 100 };

static const char* key(int number) {
  static char text[20];
  sprintf(text, "%06d", number);
  return text;
}

/* Creates a database with a table of KEYS keys. A block has one value. */
static rocksdb_t* fill(const char* path, rocksdb_cache_t* blocks, rocksdb_cache_t* rows) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(table, blocks);
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_set_row_cache(options, rows);
  rocksdb_options_set_row_cache(options, NULL);
  rocksdb_t* db = rocksdb_open(options, path, &error);
  OK();
  rocksdb_options_destroy(options);
  static char value[4001];
  memset(value, '.', 4000);
  for (int number = 0; number < KEYS; number++) {
    put(db, key(number), value);
  }
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  return db;
}

/* Pins values until a read fails. Returns their number. */
static int pin(rocksdb_t* db, rocksdb_pinnableslice_t** values) {
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  int count = 0;
  for (; count < KEYS; count++) {
    values[count] = rocksdb_get_pinned(db, reads, key(count), 6, &error);
    if (error) break;
    CHECK(values[count] != NULL);
  }
  rocksdb_readoptions_destroy(reads);
  return count;
}

static void release(rocksdb_pinnableslice_t** values, int count) {
  for (int number = 0; number < count; number++) {
    rocksdb_pinnableslice_destroy(values[number]);
  }
}

static int read_ok(rocksdb_t* db, const char* sought) {
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  size_t length;
  char* found = rocksdb_get(db, reads, sought, 6, &length, &error);
  rocksdb_readoptions_destroy(reads);
  int ok = found != NULL && length == 4000;
  rocksdb_free(found);
  return ok;
}

static void strict(void) {
  rocksdb_pinnableslice_t* values[KEYS];
  rocksdb_cache_t* cache = rocksdb_cache_create_lru_with_strict_capacity_limit(100 << 10);
  rocksdb_t* db = fill("strict", cache, NULL);
  int pinned = pin(db, values);
  FAILED("Operation aborted: Memory limit reached: Insert failed due to LRU cache being full.");
  CHECK(pinned > 15 && pinned < 25);
  CHECK(rocksdb_cache_get_usage(cache) <= 100 << 10);
  /* The background work of the database may see a block for a moment. */
  for (int wait = 0; rocksdb_cache_get_usage(cache) > rocksdb_cache_get_pinned_usage(cache); wait++) {
    CHECK(wait < 10000000);
  }
  CHECK(rocksdb_cache_get_occupancy_count(cache) == (size_t)pinned);
  CHECK(rocksdb_cache_get_table_address_count(cache) >= (size_t)pinned);

  /* More room, and less than what is pinned. */
  rocksdb_cache_set_capacity(cache, 1 << 20);
  CHECK(rocksdb_cache_get_capacity(cache) == 1 << 20);
  CHECK(read_ok(db, key(KEYS - 1)));
  rocksdb_cache_set_capacity(cache, 10 << 10);
  CHECK(rocksdb_cache_get_usage(cache) > 10 << 10);
  CHECK(!read_ok(db, key(KEYS - 2)));
  FAILED("Operation aborted: Memory limit reached: ");
  release(values, pinned);
  CHECK(rocksdb_cache_get_pinned_usage(cache) == 0);
  rocksdb_cache_set_capacity(cache, 1 << 20);
  CHECK(read_ok(db, key(KEYS - 2)));
  rocksdb_close(db);
  rocksdb_cache_destroy(cache);

  /* Without a strict limit. */
  cache = rocksdb_cache_create_lru(100 << 10);
  db = fill("lenient", cache, NULL);
  pinned = pin(db, values);
  CHECK(pinned == KEYS && error == NULL);
  release(values, pinned);
  rocksdb_close(db);
  rocksdb_cache_destroy(cache);
}

static void rows(void) {
  rocksdb_cache_t* blocks = rocksdb_cache_create_lru(0);
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_t* db = fill("rows", blocks, cache);
  rocksdb_cache_destroy(cache);
  CHECK(read_ok(db, key(1)));
  CHECK(read_ok(db, key(1)));
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_delete_range_cf(db, writes, family, "a", 1, "b", 1, &error);
  FAILED("Not implemented: DeleteRange is not compatible with row cache.");
  rocksdb_column_family_handle_destroy(family);
  rocksdb_close(db);

  /* One row for each key that was read, in a cache that another database shares. */
  cache = rocksdb_cache_create_lru(1 << 20);
  db = fill("first", blocks, cache);
  rocksdb_t* other = fill("second", blocks, cache);
  for (int number = 0; number < 10; number++) {
    CHECK(read_ok(db, key(number)) && read_ok(db, key(number)) && read_ok(other, key(number)));
  }
  CHECK(rocksdb_cache_get_occupancy_count(cache) == 20);
  rocksdb_close(other);
  CHECK(read_ok(db, key(3)));
  put(db, key(3), "new");
  check_get(db, key(3), "new");
  rocksdb_close(db);
  rocksdb_cache_destroy(cache);
  rocksdb_cache_destroy(blocks);
  rocksdb_writeoptions_destroy(writes);
}

static void allocators(void) {
  rocksdb_memory_allocator_t* allocator = rocksdb_jemalloc_nodump_allocator_create(&error);
  FAILED("Not implemented: ");
  rocksdb_lru_cache_options_t* lru = rocksdb_lru_cache_options_create();
  rocksdb_lru_cache_options_set_capacity(lru, 1 << 20);
  rocksdb_lru_cache_options_set_memory_allocator(lru, allocator);
  rocksdb_cache_t* cache = rocksdb_cache_create_lru_opts(lru);
  CHECK(rocksdb_cache_get_capacity(cache) == 1 << 20);
  rocksdb_cache_destroy(cache);
  rocksdb_lru_cache_options_destroy(lru);
  rocksdb_hyper_clock_cache_options_t* clock =
      rocksdb_hyper_clock_cache_options_create(1 << 20, 0);
  rocksdb_hyper_clock_cache_options_set_memory_allocator(clock, allocator);
  cache = rocksdb_cache_create_hyper_clock_opts(clock);
  CHECK(rocksdb_cache_get_usage(cache) == 0 && rocksdb_cache_get_occupancy_count(cache) == 0);
  rocksdb_cache_destroy(cache);
  rocksdb_hyper_clock_cache_options_destroy(clock);
  rocksdb_memory_allocator_destroy(allocator);
}

int main(void) {
  strict();
  rows();
  allocators();
  return 0;
}
