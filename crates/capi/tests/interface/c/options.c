/* Options: accessors, presets, option strings, options of an open database. */
#include "test.h"

static int log_has(const char* path, const char* text) {
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  static char content[1 << 20];
  size_t length = fread(content, 1, sizeof content - 1, file);
  content[length] = 0;
  fclose(file);
  return strstr(content, text) != NULL;
}

int main(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  CHECK(rocksdb_options_get_write_buffer_size(options) == 64 << 20);
  rocksdb_options_set_write_buffer_size(options, 12345678);
  CHECK(rocksdb_options_get_write_buffer_size(options) == 12345678);
  rocksdb_options_set_compression(options, rocksdb_zstd_compression);
  CHECK(rocksdb_options_get_compression(options) == rocksdb_zstd_compression);
  rocksdb_options_set_wal_dir(options, "logs");
  size_t length;
  const char* text = rocksdb_options_get_wal_dir(options, &length);
  CHECK(same(text, length, "logs"));
  /* It lives until its option is changed. */
  CHECK(rocksdb_options_get_wal_dir(options, &length) == text);
  CHECK(same(text, length, "logs"));
  rocksdb_options_set_wal_dir(options, "");
  rocksdb_options_set_max_bytes_for_level_multiplier(options, 8.5);
  CHECK(rocksdb_options_get_max_bytes_for_level_multiplier(options) == 8.5);

  rocksdb_options_t* copy = rocksdb_options_create_copy(options);
  rocksdb_options_set_write_buffer_size(copy, 1);
  CHECK(rocksdb_options_get_write_buffer_size(options) == 12345678);
  rocksdb_options_destroy(copy);

  rocksdb_options_t* parsed = rocksdb_options_create();
  rocksdb_get_options_from_string(options, "max_background_jobs=7;warm_handover=false", parsed,
                                  &error);
  OK();
  CHECK(rocksdb_options_get_max_background_jobs(parsed) == 7);
  CHECK(rocksdb_options_get_write_buffer_size(parsed) == 12345678);
  rocksdb_get_options_from_string(options, "no_such_option=7", parsed, &error);
  FAILED("Invalid argument: ");
  rocksdb_options_destroy(parsed);

  rocksdb_options_increase_parallelism(options, 4);
  rocksdb_options_optimize_level_style_compaction(options, 64 << 20);
  CHECK(rocksdb_options_get_max_write_buffer_number(options) == 6);

  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_enable_statistics(options);
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(8 << 20);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_block_based_options_set_block_size(table, 8192);
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_block_based_options_destroy(table);
  CHECK(rocksdb_cache_get_capacity(cache) == 8 << 20);
  /* What has no effect is in the LOG. */
  rocksdb_options_set_blob_cache(options, cache);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK();
  CHECK(log_has("db/LOG", "rocksdb_options_set_blob_cache has no effect"));
  put(db, "k", "v");
  check_get(db, "k", "v");
  CHECK(rocksdb_options_statistics_get_ticker_count(options, 0) == 0);
  char* figures = rocksdb_options_statistics_get_string(options);
  CHECK(strstr(figures, "rocksdb.number.keys.written COUNT : 1") != NULL);
  rocksdb_free(figures);

  const char *names[1] = {"write_buffer_size"}, *values[1] = {"1000000"};
  rocksdb_set_options(db, 1, names, values, &error);
  OK();
  names[0] = "max_background_jobs";
  values[0] = "3";
  rocksdb_set_db_options(db, 1, names, values, &error);
  OK();
  names[0] = "nothing";
  rocksdb_set_options(db, 1, names, values, &error);
  FAILED("Invalid argument: ");

  char* property = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  CHECK(strcmp(property, "0") == 0);
  rocksdb_free(property);
  CHECK(rocksdb_property_value(db, "rocksdb.nothing") == NULL);
  uint64_t number;
  CHECK(rocksdb_property_int(db, "rocksdb.estimate-num-keys", &number) == 0 && number == 1);
  CHECK(rocksdb_property_int(db, "rocksdb.nothing", &number) == -1);

  /* Reading a block from a file takes longer than this. */
  names[0] = "slow_read_threshold_us";
  values[0] = "1";
  rocksdb_set_db_options(db, 1, names, values, &error);
  OK();
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  check_get(db, "k", "v");
  char* slow = rocksdb_property_value(db, "tailwater.recent-slow-reads");
  CHECK(strstr(slow, "\"operation\":\"get\"") != NULL);
  rocksdb_free(slow);
  unsigned long long reads = 0, gets = 0;
  slow = rocksdb_property_value(db, "tailwater.slow-reads");
  CHECK(sscanf(slow, "threshold 1 us, slow reads %llu, get %llu", &reads, &gets) == 2);
  CHECK(gets > 0 && reads >= gets);
  rocksdb_free(slow);
  slow = rocksdb_property_value(db, "tailwater.slow-reads-prometheus");
  const char* metric = strstr(slow, "tailwater_slow_reads_total{operation=\"get\"} ");
  CHECK(metric != NULL);
  CHECK(sscanf(strchr(metric, ' '), "%llu", &gets) == 1 && gets > 0);
  rocksdb_free(slow);

  rocksdb_memory_consumers_t* consumers = rocksdb_memory_consumers_create();
  rocksdb_memory_consumers_add_db(consumers, db);
  rocksdb_memory_consumers_add_cache(consumers, cache);
  rocksdb_memory_usage_t* usage = rocksdb_approximate_memory_usage_create(consumers, &error);
  OK();
  CHECK(rocksdb_approximate_memory_usage_get_mem_table_total(usage) > 0);
  rocksdb_approximate_memory_usage_destroy(usage);
  rocksdb_memory_consumers_destroy(consumers);

  /* One note is one line. */
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_low_pri(writes, 1);
  CHECK(rocksdb_writeoptions_get_low_pri(writes) == 1);
  rocksdb_put(db, writes, "k", 1, "v", 1, &error);
  OK();
  CHECK(log_has("db/LOG", "rocksdb_writeoptions_set_low_pri has no effect"));
  rocksdb_close(db);
  rocksdb_cache_destroy(cache);
  /* Each database has the line, also one that takes the place of another one in memory. */
  for (int i = 0; i < 5; i++) {
    char path[20], log[30];
    sprintf(path, "noted%d", i);
    sprintf(log, "%s/LOG", path);
    db = create(path);
    rocksdb_put(db, writes, "k", 1, "v", 1, &error);
    OK();
    CHECK(log_has(log, "rocksdb_writeoptions_set_low_pri has no effect"));
    rocksdb_close(db);
  }
  rocksdb_writeoptions_destroy(writes);

  rocksdb_options_t *loaded, **families;
  char** family_names;
  size_t count;
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_load_latest_options("db", env, false, NULL, &loaded, &count, &family_names, &families,
                              &error);
  OK();
  CHECK(count == 1 && strcmp(family_names[0], "default") == 0);
  CHECK(rocksdb_options_get_write_buffer_size(families[0]) == 1000000);
  CHECK(rocksdb_options_get_max_background_jobs(loaded) == 3);
  rocksdb_load_latest_options_destroy(loaded, family_names, families, count);
  rocksdb_env_destroy(env);

  /* The environment variable overrides the program's options. */
  setenv("TAILWATER_OPTIONS", "max_background_jobs=9;write_buffer_size=2M", 1);
  db = rocksdb_open(options, "db", &error);
  OK();
  CHECK(log_has("db/LOG", "TAILWATER_OPTIONS changed max_background_jobs from '4' to '9'"));
  rocksdb_close(db);
  setenv("TAILWATER_OPTIONS", "no_such_option=1", 1);
  CHECK(rocksdb_open(options, "db", &error) == NULL);
  CHECK(strstr(error, "no_such_option") != NULL);
  FAILED("Invalid argument: TAILWATER_OPTIONS");
  unsetenv("TAILWATER_OPTIONS");
  rocksdb_options_destroy(options);
  return 0;
}
