/* Opening and closing the databases, and operations on a database as a whole. */
#include "lockstep.h"

static int backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  if (order == 0) order = alen < blen ? -1 : alen > blen;
  return -order;
}
static const char* comparator_name(void* state) { (void)state; return "lockstep.Backwards"; }
static const char* merge_name(void* state) { (void)state; return "lockstep.Join"; }
static const char* filter_name(void* state) { (void)state; return "lockstep.Filter"; }
static const char* prefix_name(void* state) { (void)state; return "lockstep.Prefix"; }
static void destroy(void* state) { (void)state; }

/* Joins values: with commas, or without, so that partial merges make no difference. */
static char* join(const char* existing, size_t existing_length, const char* const* operands,
                  const size_t* lengths, int count, size_t* length) {
  size_t total = existing_length + 1;
  for (int i = 0; i < count; i++) total += lengths[i] + 1;
  char* result = malloc(total);
  size_t used = 0;
  if (existing != NULL) {
    memcpy(result, existing, existing_length);
    used = existing_length;
  }
  for (int i = 0; i < count; i++) {
    if (configuration.merge == 0 && used > 0) result[used++] = ',';
    memcpy(result + used, operands[i], lengths[i]);
    used += lengths[i];
  }
  *length = used;
  return result;
}

static char* full_merge(void* state, const char* key, size_t key_length, const char* existing,
                        size_t existing_length, const char* const* operands, const size_t* lengths,
                        int count, unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length;
  *success = 1;
  return join(existing, existing_length, operands, lengths, count, length);
}

static char* partial_merge(void* state, const char* key, size_t key_length,
                           const char* const* operands, const size_t* lengths, int count,
                           unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length;
  *success = configuration.merge == 1;
  *length = 0;
  return *success ? join(NULL, 0, operands, lengths, count, length) : NULL;
}

/* Removes some values, and changes others. */
static unsigned char filter(void* state, int level, const char* key, size_t key_length,
                            const char* value, size_t length, char** new_value,
                            size_t* new_length, unsigned char* changed) {
  (void)state, (void)level, (void)key, (void)key_length;
  static char replacement[] = "changed";
  *changed = length > 0 && value[0] == 'D';
  if (*changed) {
    *new_value = replacement;
    *new_length = sizeof replacement - 1;
  }
  return length > 0 && value[0] >= 'T';
}

static char* transform(void* state, const char* key, size_t length, size_t* prefix_length) {
  (void)state, (void)length;
  *prefix_length = 1;
  return (char*)key;
}
static unsigned char in_domain(void* state, const char* key, size_t length) {
  (void)state, (void)key;
  return length > 0;
}

static rocksdb_cache_t* make_cache(struct side* side, int kind) {
  rocksdb_cache_t* cache;
  if (kind == 0) return CALL(cache_create_lru)(1 << 20);
  if (kind == 1) return CALL(cache_create_lru_with_strict_capacity_limit)(8 << 20);
  if (kind == 2) return CALL(cache_create_hyper_clock)(1 << 20, 0);
  if (kind == 3) {
    rocksdb_lru_cache_options_t* options = CALL(lru_cache_options_create)();
    CALL(lru_cache_options_set_capacity)(options, 1 << 16);
    cache = CALL(cache_create_lru_opts)(options);
    CALL(lru_cache_options_destroy)(options);
    return cache;
  }
  rocksdb_hyper_clock_cache_options_t* options = CALL(hyper_clock_cache_options_create)(1 << 20, 0);
  CALL(hyper_clock_cache_options_set_capacity)(options, 1 << 21);
  cache = CALL(cache_create_hyper_clock_opts)(options);
  CALL(hyper_clock_cache_options_destroy)(options);
  return cache;
}

static void set_table_options(struct side* side, rocksdb_options_t* options) {
  int number = configuration.table;
  rocksdb_block_based_table_options_t* table = CALL(block_based_options_create)();
  CALL(block_based_options_set_block_size)(table, number % 2 ? 512 : 4096);
  CALL(block_based_options_set_block_restart_interval)(table, 1 + number / 2 % 20);
  static const int versions[] = {5, 6, 7};
  CALL(block_based_options_set_format_version)(table, versions[number % 3]);
  CALL(block_based_options_set_checksum)(table, (char)(1 + number % 4));
  CALL(block_based_options_set_whole_key_filtering)(table, number / 3 % 4 != 0);
  CALL(block_based_options_set_cache_index_and_filter_blocks)(table, number / 5 % 2);
  CALL(block_based_options_set_data_block_index_type)(table,
                                                      configuration.comparator ? 0 : number / 7 % 2);
  static const int indexes[] = {rocksdb_block_based_table_index_type_binary_search,
                                rocksdb_block_based_table_index_type_two_level_index_search, 3};
  int index = number / 11 % 3;
  CALL(block_based_options_set_index_type)(table, indexes[index]);
  CALL(block_based_options_set_metadata_block_size)(table, 256);
  CALL(block_based_options_set_partition_filters)(table, index == 1 && number / 13 % 2);
  CALL(block_based_options_set_use_delta_encoding)(table, number / 17 % 2);
  int bits = 5 + number % 10;
  rocksdb_filterpolicy_t* policy = NULL;
  switch (configuration.filter) {
    case 1: policy = CALL(filterpolicy_create_bloom)(bits); break;
    case 2: policy = CALL(filterpolicy_create_ribbon)(bits); break;
    case 3: policy = CALL(filterpolicy_create_bloom_full)(bits); break;
    case 4: policy = CALL(filterpolicy_create_ribbon_hybrid)(bits, 1); break;
  }
  if (policy) CALL(block_based_options_set_filter_policy)(table, policy);
  if (number % 6 == 5) {
    CALL(block_based_options_set_no_block_cache)(table, 1);
    CALL(block_based_options_set_cache_index_and_filter_blocks)(table, 0);
  } else {
    if (!side->cache) side->cache = make_cache(side, number % 5);
    CALL(block_based_options_set_block_cache)(table, side->cache);
  }
  CALL(options_set_block_based_table_factory)(options, table);
  CALL(block_based_options_destroy)(table);
}

static void set_paths(struct side* side, rocksdb_options_t* options) {
  if (!configuration.paths) return;
  char second[4096];
  snprintf(second, sizeof second, "%s/second", side->path);
  const rocksdb_dbpath_t* paths[2] = {CALL(dbpath_create)(side->path, 1000),
                                      CALL(dbpath_create)(second, 1 << 30)};
  if (configuration.paths == 1) {
    CALL(options_set_db_paths)(options, paths, 2);
  } else {
    CALL(options_set_cf_paths)(options, paths, 2);
  }
  CALL(dbpath_destroy)((rocksdb_dbpath_t*)paths[0]);
  CALL(dbpath_destroy)((rocksdb_dbpath_t*)paths[1]);
}

static rocksdb_ratelimiter_t* make_rate_limiter(struct side* side, int kind) {
  switch (kind) {
    case 0: return CALL(ratelimiter_create)(100 << 20, 100000, 10);
    case 1: return CALL(ratelimiter_create_auto_tuned)(100 << 20, 100000, 10);
    default: return CALL(ratelimiter_create_with_mode)(100 << 20, 100000, 10, kind % 3, kind % 2);
  }
}

/* A limit that no sequence reaches: when memtables are flushed depends on the layout of entries. */
static rocksdb_write_buffer_manager_t* make_write_buffer_manager(struct side* side, int kind) {
  if (kind == 0) return CALL(write_buffer_manager_create)(64 << 20, 1);
  rocksdb_cache_t* cache = CALL(cache_create_lru)(64 << 20);
  rocksdb_write_buffer_manager_t* manager =
      CALL(write_buffer_manager_create_with_cache)(kind == 1 ? 0 : 64 << 20, cache, kind % 2);
  CALL(cache_destroy)(cache);
  return manager;
}

/* Neither the limit of space nor the rate depends on how large the tables of an engine are. */
static rocksdb_sst_file_manager_t* make_sst_file_manager(struct side* side, int kind) {
  rocksdb_sst_file_manager_t* manager = CALL(sst_file_manager_create)(side->env);
  CALL(sst_file_manager_set_max_allowed_space_usage)(manager, kind == 0 ? 0 : 1ull << 40);
  CALL(sst_file_manager_set_compaction_buffer_size)(manager, kind == 1 ? 1 << 20 : 0);
  CALL(sst_file_manager_set_delete_rate_bytes_per_second)(manager, kind == 2 ? 1 << 30 : -kind);
  CALL(sst_file_manager_set_max_trash_db_ratio)(manager, kind == 2 ? 1000 : 0.5);
  return manager;
}

static void print_sst_file_manager(struct side* side) {
  rocksdb_sst_file_manager_t* manager = side->sst_file_manager;
  /* The sizes differ between the engines. */
  CALL(sst_file_manager_get_total_size)(manager);
  CALL(sst_file_manager_get_total_trash_size)(manager);
  print(side, "%lld %g %d %d ",
        (long long)CALL(sst_file_manager_get_delete_rate_bytes_per_second)(manager),
        CALL(sst_file_manager_get_max_trash_db_ratio)(manager),
        CALL(sst_file_manager_is_max_allowed_space_reached)(manager),
        CALL(sst_file_manager_is_max_allowed_space_reached_including_compactions)(manager));
}

rocksdb_mergeoperator_t* make_merge_operator(struct side* side) {
  return CALL(mergeoperator_create)(NULL, destroy, full_merge, partial_merge, NULL, merge_name);
}

rocksdb_options_t* make_options(struct side* side) {
  int various = configuration.various;
  rocksdb_options_t* options = CALL(options_create)();
  CALL(options_set_create_if_missing)(options, 1);
  CALL(options_set_create_missing_column_families)(options, 1);
  CALL(options_set_write_buffer_size)(options, various % 2 ? 1 << 16 : 1 << 20);
  static const int compressions[] = {rocksdb_no_compression, rocksdb_snappy_compression,
                                     rocksdb_lz4_compression, rocksdb_zstd_compression,
                                     rocksdb_zlib_compression, rocksdb_lz4hc_compression};
  CALL(options_set_compression)(options, compressions[configuration.compression]);
  CALL(options_set_num_levels)(options, configuration.levels);
  if (various % 3 == 1) {
    int levels[2] = {rocksdb_no_compression, rocksdb_zstd_compression};
    CALL(options_set_compression_per_level)(options, levels, 2);
  } else if (various % 3 == 2) {
    CALL(options_set_min_level_to_compress)(options, 1);
  }
  CALL(options_set_compression_options)(options, -14, 32767, 0, various % 5 == 0 ? 1024 : 0);
  CALL(options_set_level_compaction_dynamic_level_bytes)(options, various / 3 % 2);
  CALL(options_set_level0_file_num_compaction_trigger)(options, 2 + various / 5 % 3);
  /* Without automatic compactions, tables are compared, so their number must not depend on sizes. */
  CALL(options_set_target_file_size_base)(options, configuration.automatic ? 1 << 12 : 64 << 20);
  CALL(options_set_max_bytes_for_level_base)(options, configuration.automatic ? 1 << 14 : 1 << 28);
  int additional[3] = {1, 2, 1};
  if (various % 7 == 0) {
    CALL(options_set_max_bytes_for_level_multiplier_additional)(options, additional, 3);
  }
  CALL(options_set_disable_auto_compactions)(options, !configuration.automatic);
  CALL(options_set_max_background_jobs)(options, 2);
  CALL(options_set_wal_compression)(options, various % 11 == 0 ? rocksdb_zstd_compression : 0);
  CALL(options_set_recycle_log_file_num)(options, various % 13 == 0 ? 2 : 0);
  CALL(options_set_manual_wal_flush)(options, configuration.manual_wal_flush);
  CALL(options_set_use_fsync)(options, various % 2);
  CALL(options_set_enable_pipelined_write)(options, various % 5 == 1);
  CALL(options_set_avoid_flush_during_recovery)(options, various % 4 == 1);
  CALL(options_set_memtable_prefix_bloom_size_ratio)(options, various % 5 == 2 ? 0.1 : 0);
  CALL(options_set_memtable_whole_key_filtering)(options, various % 5 == 2);
  CALL(options_set_max_successive_merges)(options, various % 9 == 0 ? 3 : 0);
  CALL(options_set_max_open_files)(options, various % 6 == 0 ? 20 : -1);
  CALL(options_set_paranoid_file_checks)(options, various % 6 == 1);
  if (configuration.rows) {
    if (!side->rows) side->rows = CALL(cache_create_lru)((size_t)1 << (12 + various / 6 % 10));
    CALL(options_set_row_cache)(options, side->rows);
  }
  CALL(options_set_ttl)(options, 0);
  CALL(options_set_periodic_compaction_seconds)(options, 0);
  if (!side->env) side->env = CALL(create_default_env)();
  if (various % 3 == 0) CALL(options_set_env)(options, side->env);
  CALL(options_set_info_log)(options, NULL);
  CALL(options_enable_statistics)(options);
  if (configuration.comparator) {
    if (!side->comparator) {
      side->comparator = CALL(comparator_create)(NULL, destroy, backwards, comparator_name);
    }
    CALL(options_set_comparator)(options, side->comparator);
  }
  if (configuration.compaction_filter) {
    if (!side->compaction_filter) {
      side->compaction_filter = CALL(compactionfilter_create)(NULL, destroy, filter, filter_name);
    }
    CALL(options_set_compaction_filter)(options, side->compaction_filter);
  }
  if (various % 4 == 3) {
    if (!side->rate_limiter) side->rate_limiter = make_rate_limiter(side, various / 4 % 5);
    CALL(options_set_ratelimiter)(options, side->rate_limiter);
  }
  if (various % 4 == 2) {
    if (!side->write_buffer_manager) {
      side->write_buffer_manager = make_write_buffer_manager(side, various / 4 % 4);
    }
    CALL(options_set_write_buffer_manager)(options, side->write_buffer_manager);
  }
  if (various % 5 == 3) {
    if (!side->sst_file_manager) {
      side->sst_file_manager = make_sst_file_manager(side, various / 5 % 3);
    }
    CALL(options_set_sst_file_manager)(options, side->sst_file_manager);
  }
  switch (configuration.prefix) {
    case 1:
      CALL(options_set_prefix_extractor)(options, CALL(slicetransform_create_fixed_prefix)(2));
      break;
    case 2:
      CALL(options_set_prefix_extractor)(
          options, CALL(slicetransform_create)(NULL, destroy, transform, in_domain, prefix_name));
      break;
    case 3:
      CALL(options_set_prefix_extractor)(options, CALL(slicetransform_create_noop)());
      break;
  }
  if (configuration.merge == 2) {
    CALL(options_set_uint64add_merge_operator)(options);
  } else {
    CALL(options_set_merge_operator)(options, make_merge_operator(side));
  }
  set_table_options(side, options);
  set_paths(side, options);
  return options;
}

/* The names of the existing families, and their places among all. */
struct found {
  int count;
  const char* names[FAMILIES];
  int at[FAMILIES];
  const rocksdb_options_t* options[FAMILIES];
};

static struct found find_families(struct side* side) {
  struct found found = {1, {"default"}, {0}, {side->options, side->options, side->options}};
  char* error = NULL;
  size_t count = 0;
  char** listed = CALL(list_column_families)(side->options, side->path, &count, &error);
  if (error) {
    CALL(free)(error);
    return found;
  }
  for (size_t i = 0; i < count; i++) {
    for (int f = 1; f < FAMILIES; f++) {
      if (strcmp(listed[i], FAMILY_NAMES[f]) == 0) {
        found.names[found.count] = FAMILY_NAMES[f];
        found.at[found.count++] = f;
      }
    }
  }
  CALL(list_column_families_destroy)(listed, count);
  return found;
}

void open_side(struct side* side) {
  side->options = make_options(side);
  struct found found = find_families(side);
  rocksdb_column_family_handle_t* handles[FAMILIES];
  char* error = NULL;
  if (found.count == 1 && configuration.various % 2) {
    side->db = CALL(open)(side->options, side->path, &error);
    if (side->db) handles[0] = CALL(get_default_column_family_handle)(side->db);
  } else {
    side->db = CALL(open_column_families)(side->options, side->path, found.count, found.names,
                                          found.options, handles, &error);
  }
  if (!side->db) {
    fprintf(stderr, "%s: %s\n", side->path, error);
    exit(3);
  }
  for (int i = 0; i < found.count; i++) {
    side->families[found.at[i]] = handles[i];
    print(side, "%s %u ", found.names[i], CALL(column_family_handle_get_id)(handles[i]));
  }
  side->writes = CALL(writeoptions_create)();
  side->batch = CALL(writebatch_create)();
  side->logged_from = CALL(get_latest_sequence_number)(side->db);
  side->manual_compactions_disabled = 0;
}

void close_side(struct side* side) {
  for (int i = 0; i < ITERATORS; i++) close_iterator(side, i);
  for (int i = 0; i < SNAPSHOTS; i++) {
    if (side->snapshots[i]) CALL(release_snapshot)(side->db, side->snapshots[i]);
    side->snapshots[i] = NULL;
  }
  for (int i = 0; i < FAMILIES; i++) {
    if (side->families[i]) CALL(column_family_handle_destroy)(side->families[i]);
    side->families[i] = NULL;
  }
  CALL(writebatch_destroy)(side->batch);
  CALL(writeoptions_destroy)(side->writes);
  if (configuration.various % 3 == 2) CALL(cancel_all_background_work)(side->db, 1);
  CALL(close)(side->db);
  side->db = NULL;
  CALL(options_destroy)(side->options);
  if (side->rate_limiter) CALL(ratelimiter_destroy)(side->rate_limiter);
  side->rate_limiter = NULL;
  if (side->write_buffer_manager) CALL(write_buffer_manager_destroy)(side->write_buffer_manager);
  side->write_buffer_manager = NULL;
  if (side->sst_file_manager) {
    print_sst_file_manager(side);
    CALL(sst_file_manager_destroy)(side->sst_file_manager);
  }
  side->sst_file_manager = NULL;
  if (side->cache) CALL(cache_destroy)(side->cache);
  side->cache = NULL;
  if (side->rows) CALL(cache_destroy)(side->rows);
  side->rows = NULL;
}

void dump_family(struct side* side, rocksdb_t* db, rocksdb_column_family_handle_t* family) {
  rocksdb_readoptions_t* reads = CALL(readoptions_create)();
  CALL(readoptions_set_total_order_seek)(reads, 1);
  rocksdb_iterator_t* iter = CALL(create_iterator_cf)(db, reads, family);
  for (CALL(iter_seek_to_first)(iter); CALL(iter_valid)(iter); CALL(iter_next)(iter)) {
    print_iterator(side, iter);
  }
  print_iterator(side, iter);
  CALL(iter_destroy)(iter);
  CALL(readoptions_destroy)(reads);
}

void dump(struct side* side) {
  for (int f = 0; f < FAMILIES; f++) {
    if (!side->families[f]) continue;
    print(side, "\n%s: ", FAMILY_NAMES[f]);
    dump_family(side, side->db, side->families[f]);
  }
}

static void reopen(struct side* side, const int* n) {
  (void)n;
  close_side(side);
  open_side(side);
}

/* Opens the database for reading, and then for writing again. */
static void reopen_read_only(struct side* side, const int* n) {
  close_side(side);
  rocksdb_options_t* options = side->options = make_options(side);
  struct found found = find_families(side);
  rocksdb_column_family_handle_t* handles[FAMILIES];
  char* error = NULL;
  rocksdb_t* db;
  unsigned char no_logs = n[1] % 3 == 0;
  /* The paths of families that are not opened are unknown. */
  if (n[0] % 2 && !configuration.paths) {
    db = CALL(open_for_read_only)(options, side->path, no_logs, &error);
    found.count = 1;
    if (db) handles[0] = CALL(get_default_column_family_handle)(db);
  } else {
    db = CALL(open_for_read_only_column_families)(options, side->path, found.count, found.names,
                                                  found.options, handles, no_logs, &error);
  }
  /* Which logs exist depends on when they are removed. */
  if (no_logs) {
    if (error) CALL(free)(error);
  } else {
    print_error(side, error);
  }
  error = NULL;
  if (db) {
    for (int i = 0; i < found.count; i++) {
      if (!no_logs) dump_family(side, db, handles[i]);
      CALL(column_family_handle_destroy)(handles[i]);
    }
    rocksdb_writeoptions_t* writes = CALL(writeoptions_create)();
    CALL(put)(db, writes, "k", 1, "v", 1, &error);
    if (!no_logs) {
      print_error(side, error);
    } else {
      CALL(free)(error);
    }
    CALL(writeoptions_destroy)(writes);
    CALL(close)(db);
  }
  CALL(options_destroy)(options);
  open_side(side);
}

/* Opening that fails. */
static void open_wrongly(struct side* side, const int* n) {
  char* error = NULL;
  rocksdb_options_t* options = make_options(side);
  rocksdb_column_family_handle_t* handles[2];
  const rocksdb_options_t* both[2] = {options, options};
  rocksdb_t* db = NULL;
  char other[4096];
  snprintf(other, sizeof other, "%s-absent%d", side->path, side->files++);
  switch (n[0] % 4) {
    case 0: { /* The database is open. */
      struct found found = find_families(side);
      rocksdb_column_family_handle_t* all[FAMILIES];
      db = CALL(open_column_families)(options, side->path, found.count, found.names, found.options,
                                      all, &error);
      break;
    }
    case 1: /* There is none. */
      CALL(options_set_create_if_missing)(options, 0);
      db = CALL(open)(options, other, &error);
      break;
    case 2: /* There is none. */
      db = CALL(open_for_read_only)(options, other, 0, &error);
      break;
    default: { /* The default family is missing. */
      const char* names[] = {"one"};
      db = CALL(open_column_families)(options, other, 1, names, both, handles, &error);
    }
  }
  print(side, "%d ", db != NULL);
  print_error(side, error);
  if (db) CALL(close)(db);
  CALL(options_destroy)(options);
}

static void create_family(struct side* side, const int* n) {
  char* error = NULL;
  if (n[1] % 2) {
    int f = 1 + n[0] % (FAMILIES - 1);
    rocksdb_column_family_handle_t* made =
        CALL(create_column_family)(side->db, side->options, FAMILY_NAMES[f], &error);
    if (made && side->families[f]) CALL(column_family_handle_destroy)(made);
    if (made && !side->families[f]) side->families[f] = made;
    print(side, "%d ", made != NULL);
  } else {
    size_t count = 0;
    int order = n[0] % 2;
    const char* names[2] = {FAMILY_NAMES[1 + order], FAMILY_NAMES[2 - order]};
    rocksdb_column_family_handle_t** made =
        CALL(create_column_families)(side->db, side->options, 2, names, &count, &error);
    print(side, "%zu ", count);
    for (size_t i = 0; i < count; i++) side->families[i == 0 ? 1 + order : 2 - order] = made[i];
    CALL(create_column_families_destroy)(made);
  }
  print_error(side, error);
}

static void drop_family(struct side* side, const int* n) {
  char* error = NULL;
  int f = n[0] % FAMILIES;
  if (!side->families[f]) return;
  CALL(drop_column_family)(side->db, side->families[f], &error);
  if (!error) {
    CALL(column_family_handle_destroy)(side->families[f]);
    side->families[f] = NULL;
    /* The batch may have operations of the family. */
    CALL(writebatch_clear)(side->batch);
    /* RocksDB forgets the sequence numbers of a family's unflushed writes. */
    CALL(put)(side->db, side->writes, "dropped", 7, "", 0, &error);
  }
  print_error(side, error);
}

static void family_handle(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) return;
  size_t length;
  char* name = CALL(column_family_handle_get_name)(family, &length);
  print_bytes(side, name, length);
  CALL(free)(name);
  rocksdb_column_family_handle_t* first = CALL(get_default_column_family_handle)(side->db);
  print(side, "%u ", CALL(column_family_handle_get_id)(first));
  CALL(column_family_handle_destroy)(first);
  char* identity = CALL(get_db_identity)(side->db, &length);
  print(side, "%zu ", length);
  CALL(free)(identity);
}

const struct operation DATABASES[] = {
    {"reopen", 2, reopen},
    {"reopen_read_only", 1, reopen_read_only},
    {"open_wrongly", 1, open_wrongly},
    {"create_family", 4, create_family},
    {"drop_family", 1, drop_family},
    {"family_handle", 1, family_handle},
    {NULL, 0, NULL},
};
