/* Flushes, compactions, checkpoints, ingestions, and what the databases say about their files. */
#include "lockstep.h"

/* A flush may remove logs. */
static void forget_logs(struct side* side) {
  side->logged_from = CALL(get_latest_sequence_number)(side->db);
}

static void flush(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* families[FAMILIES];
  int count = 0;
  for (int f = 0; f < FAMILIES; f++) {
    if (side->families[f]) families[count++] = side->families[f];
  }
  rocksdb_flushoptions_t* options = CALL(flushoptions_create)();
  CALL(flushoptions_set_wait)(options, 1);
  char* error = NULL;
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  switch (n[1] % 3) {
    case 0:
      CALL(flush)(side->db, options, &error);
      break;
    case 1:
      if (family) CALL(flush_cf)(side->db, options, family, &error);
      break;
    default:
      CALL(flush_cfs)(side->db, options, families, count, &error);
  }
  print_error(side, error);
  CALL(flushoptions_destroy)(options);
  forget_logs(side);
}

static void flush_wal(struct side* side, const int* n) {
  char* error = NULL;
  CALL(flush_wal)(side->db, (unsigned char)(n[0] % 2), &error);
  print_error(side, error);
}

/* With a compaction filter, everything is compacted, so that its effect does not depend on which
 * tables there are. */
static void compact_all(struct side* side) {
  rocksdb_compactoptions_t* options = CALL(compactoptions_create)();
  CALL(compactoptions_set_bottommost_level_compaction)(options, 2);
  for (int f = 0; f < FAMILIES; f++) {
    if (!side->families[f]) continue;
    CALL(compact_range_cf_opt)(side->db, side->families[f], options, NULL, 0, NULL, 0);
  }
  CALL(compactoptions_destroy)(options);
  forget_logs(side);
}

static void compact(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (configuration.compaction_filter) {
    compact_all(side);
    return;
  }
  char start[KEY_SIZE], end[KEY_SIZE];
  size_t start_length = key_of(n[1], start), end_length = key_of(n[2], end);
  /* For a range with two ends, RocksDB looks for keys in it. Only the files differ. */
  const char* from = n[3] % 2 ? start : NULL;
  const char* to = n[3] % 3 && (!from || configuration.automatic) ? end : NULL;
  /* RocksDB flushes range deletions although nothing is between reversed ends. */
  if (from && to && compare_keys(start, start_length, end, end_length) > 0) return;
  rocksdb_compactoptions_t* options = CALL(compactoptions_create)();
  CALL(compactoptions_set_bottommost_level_compaction)(options, (unsigned char)(n[1] % 4));
  CALL(compactoptions_set_exclusive_manual_compaction)(options, n[2] % 2);
  switch (n[3] % 4) {
    case 0:
      CALL(compact_range)(side->db, from, start_length, to, end_length);
      break;
    case 1:
      CALL(compact_range_opt)(side->db, options, from, start_length, to, end_length);
      break;
    case 2:
      if (family) CALL(compact_range_cf)(side->db, family, from, start_length, to, end_length);
      break;
    default:
      if (!family) break;
      CALL(compact_range_cf_opt)(side->db, family, options, from, start_length, to, end_length);
  }
  CALL(compactoptions_destroy)(options);
  forget_logs(side);
}

static void suggest(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char start[KEY_SIZE], end[KEY_SIZE], *error = NULL;
  size_t start_length = key_of(n[1], start), end_length = key_of(n[2], end);
  if (configuration.compaction_filter) return;
  if (n[3] % 2) {
    CALL(suggest_compact_range)(side->db, start, start_length, end, end_length, &error);
  } else if (family) {
    CALL(suggest_compact_range_cf)(side->db, family, NULL, 0, NULL, 0, &error);
  }
  print_error(side, error);
}

static void manual_compactions(struct side* side, const int* n) {
  (void)n;
  if (side->manual_compactions_disabled) {
    CALL(enable_manual_compaction)(side->db);
  } else {
    CALL(disable_manual_compaction)(side->db);
  }
  side->manual_compactions_disabled = !side->manual_compactions_disabled;
}

static void wait_for_compactions(struct side* side, const int* n) {
  char* error = NULL;
  rocksdb_wait_for_compact_options_t* options = CALL(wait_for_compact_options_create)();
  CALL(wait_for_compact_options_set_flush)(options, n[0] % 2);
  /* RocksDB may wait for compactions that it does not start. */
  CALL(wait_for_compact_options_set_timeout)(options, 50000);
  CALL(wait_for_compact_options_set_abort_on_pause)(options, n[2] % 2);
  CALL(wait_for_compact_options_set_wait_for_purge)(options, n[3] % 2);
  CALL(wait_for_compact_options_set_close_db)(options, 0);
  print(side, "%d %d %d %d %llu ", CALL(wait_for_compact_options_get_flush)(options),
        CALL(wait_for_compact_options_get_close_db)(options),
        CALL(wait_for_compact_options_get_abort_on_pause)(options),
        CALL(wait_for_compact_options_get_wait_for_purge)(options),
        (unsigned long long)CALL(wait_for_compact_options_get_timeout)(options));
  CALL(wait_for_compact)(side->db, options, &error);
  if (error && strncmp(error, "Operation timed out", 19) == 0) {
    CALL(free)(error);
    error = NULL;
  }
  print_error(side, error);
  CALL(wait_for_compact_options_destroy)(options);
  if (n[0] % 2) forget_logs(side);
}

static void checkpoint(struct side* side, const int* n) {
  (void)n;
  /* RocksDB has no checkpoints of databases with several directories. */
  if (configuration.paths) return;
  char* error = NULL;
  char path[4096];
  snprintf(path, sizeof path, "%s-checkpoint%d", side->path, side->files++);
  rocksdb_checkpoint_t* checkpoint = CALL(checkpoint_object_create)(side->db, &error);
  print_error(side, error);
  error = NULL;
  CALL(checkpoint_create)(checkpoint, path, 0, &error);
  print_error(side, error);
  error = NULL;
  /* The directory exists now. */
  CALL(checkpoint_create)(checkpoint, path, 0, &error);
  print_error(side, error);
  error = NULL;
  CALL(checkpoint_object_destroy)(checkpoint);
  forget_logs(side);

  rocksdb_options_t* options = make_options(side);
  const char* names[FAMILIES];
  const rocksdb_options_t* all[FAMILIES];
  rocksdb_column_family_handle_t* handles[FAMILIES];
  int count = 0;
  for (int f = 0; f < FAMILIES; f++) {
    if (!side->families[f]) continue;
    names[count] = FAMILY_NAMES[f];
    all[count++] = options;
  }
  rocksdb_t* db =
      CALL(open_column_families)(options, path, count, names, all, handles, &error);
  print_error(side, error);
  error = NULL;
  if (db) {
    for (int i = 0; i < count; i++) {
      dump_family(side, db, handles[i]);
      CALL(column_family_handle_destroy)(handles[i]);
    }
    CALL(close)(db);
  }
  CALL(destroy_db)(options, path, &error);
  print_error(side, error);
  CALL(options_destroy)(options);
}

/* Writes a table with a few keys, some of them perhaps in the wrong order. */
static void write_table(struct side* side, const char* path, const int* n) {
  char* error = NULL;
  rocksdb_envoptions_t* env_options = CALL(envoptions_create)();
  rocksdb_sstfilewriter_t* writer =
      n[3] % 2 && configuration.comparator
          ? CALL(sstfilewriter_create_with_comparator)(env_options, side->options, side->comparator)
          : CALL(sstfilewriter_create)(env_options, side->options);
  CALL(sstfilewriter_open)(writer, path, &error);
  print_error(side, error);
  error = NULL;
  char last[KEY_SIZE], key[KEY_SIZE], value[VALUE_SIZE];
  size_t last_length = 0;
  int any = 0, wrong = n[3] % 9 == 0;
  for (int i = 0; i < 1 + n[2] % 6; i++) {
    size_t key_length = key_of(n[1] + i * (1 + n[3] % 5), key);
    size_t value_length = value_of(n[2] + i, value);
    if (!wrong && any && compare_keys(last, last_length, key, key_length) >= 0) continue;
    switch ((n[3] + i) % 5) {
      case 0:
        CALL(sstfilewriter_add)(writer, key, key_length, value, value_length, &error);
        break;
      case 1:
        CALL(sstfilewriter_merge)(writer, key, key_length, value, value_length, &error);
        break;
      case 2:
        CALL(sstfilewriter_delete)(writer, key, key_length, &error);
        break;
      default:
        CALL(sstfilewriter_put)(writer, key, key_length, value, value_length, &error);
    }
    print_error(side, error);
    error = NULL;
    memcpy(last, key, key_length);
    last_length = key_length;
    any = 1;
  }
  if (n[3] % 4 == 3 && !configuration.rows) {
    char end[KEY_SIZE];
    size_t key_length = key_of(n[1], key), end_length = key_of(n[2], end);
    if (compare_keys(key, key_length, end, end_length) < 0) {
      CALL(sstfilewriter_delete_range)(writer, key, key_length, end, end_length, &error);
      print_error(side, error);
      error = NULL;
    }
  }
  CALL(sstfilewriter_finish)(writer, &error);
  print_error(side, error);
  uint64_t size = 0;
  CALL(sstfilewriter_file_size)(writer, &size);
  print(side, "%d ", size > 0);
  CALL(sstfilewriter_destroy)(writer);
  CALL(envoptions_destroy)(env_options);
}

static void ingest(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) return;
  char path[4096], *error = NULL;
  snprintf(path, sizeof path, "%s-%d.sst", side->path, side->files++);
  write_table(side, path, n);
  /* Snapshots may then see the file, but in RocksDB only some calls of these iterators refresh them. */
  if (n[1] % 5 == 0) close_refreshing_iterators(side);
  rocksdb_ingestexternalfileoptions_t* options = CALL(ingestexternalfileoptions_create)();
  CALL(ingestexternalfileoptions_set_move_files)(options, n[1] % 2);
  CALL(ingestexternalfileoptions_set_snapshot_consistency)(options, n[1] % 5 != 0);
  CALL(ingestexternalfileoptions_set_allow_blocking_flush)(options, n[2] % 5 != 0);
  /* What overlaps the table depends on when automatic compactions run. */
  CALL(ingestexternalfileoptions_set_allow_global_seqno)(
      options, n[2] % 7 != 0 || configuration.automatic);
  CALL(ingestexternalfileoptions_set_fail_if_not_bottommost_level)(
      options, n[2] % 6 == 5 && !configuration.automatic);
  CALL(ingestexternalfileoptions_set_verify_checksums_before_ingest)(options, n[1] % 3 == 0);
  CALL(ingestexternalfileoptions_set_failed_move_fall_back_to_copy)(options, 1);
  const char* paths[1] = {path};
  if (n[0] % FAMILIES == 0 && n[3] % 2) {
    CALL(ingest_external_file)(side->db, paths, 1, options, &error);
  } else {
    CALL(ingest_external_file_cf)(side->db, family, paths, 1, options, &error);
  }
  print_error(side, error);
  side->ingested = 1;
  CALL(ingestexternalfileoptions_destroy)(options);
  remove(path);
  /* An ingestion may flush. */
  forget_logs(side);
}

/* Which tables there are depends on when automatic compactions run. */
static void live_files(struct side* side, const int* n) {
  (void)n;
  const rocksdb_livefiles_t* files = CALL(livefiles)(side->db);
  int count = CALL(livefiles_count)(files);
  if (!configuration.automatic) print(side, "%d ", count);
  for (int i = 0; i < count; i++) {
    size_t small, large;
    const char* smallest = CALL(livefiles_smallestkey)(files, i, &small);
    const char* largest = CALL(livefiles_largestkey)(files, i, &large);
    if (compare_keys(smallest, small, largest, large) > 0) print(side, "wrong keys ");
    const char* name = CALL(livefiles_name)(files, i);
    size_t length = strlen(name);
    if (name[0] != '/' || length < 5 || strcmp(name + length - 4, ".sst") != 0) {
      print(side, "name %s ", name);
    }
    if (strncmp(CALL(livefiles_directory)(files, i), side->path, strlen(side->path)) != 0) {
      print(side, "directory %s ", CALL(livefiles_directory)(files, i));
    }
    if (CALL(livefiles_size)(files, i) == 0) print(side, "empty ");
    /* A flush of RocksDB also merges operands. */
    if (CALL(livefiles_entries)(files, i) < CALL(livefiles_deletions)(files, i)) {
      print(side, "deletions ");
    }
    if (CALL(livefiles_smallest_seqno)(files, i) > CALL(livefiles_largest_seqno)(files, i)) {
      print(side, "numbers ");
    }
    if (configuration.automatic) continue;
    print(side, "%s %d ", CALL(livefiles_column_family_name)(files, i),
          CALL(livefiles_level)(files, i));
    print_bytes(side, smallest, small);
    print_bytes(side, largest, large);
  }
  CALL(livefiles_destroy)(files);
}

static void verify(struct side* side, const int* n) {
  char* error = NULL;
  if (n[0] % 2) {
    CALL(verify_checksum)(side->db, &error);
  } else {
    rocksdb_readoptions_t* reads = read_options(side, n[1] * 4);
    CALL(verify_checksum_with_options)(side->db, reads, &error);
    CALL(readoptions_destroy)(reads);
  }
  print_error(side, error);
}

/* Sizes are estimates: only their errors are compared. */
static void sizes(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) return;
  char start[KEY_SIZE], end[KEY_SIZE], *error = NULL;
  size_t start_length = key_of(n[1], start), end_length = key_of(n[2], end);
  if (compare_keys(start, start_length, end, end_length) >= 0) return;
  const char *starts[1] = {start}, *ends[1] = {end};
  size_t start_lengths[1] = {start_length}, end_lengths[1] = {end_length};
  uint64_t size[1];
  rocksdb_size_approximation_options_t* options = CALL(size_approximation_options_create)();
  CALL(size_approximation_options_set_include_memtables)(options, n[3] % 2);
  CALL(size_approximation_options_set_include_files)(options, n[3] / 2 % 2);
  switch (n[3] % 5) {
    case 0:
      CALL(approximate_sizes)(side->db, 1, starts, start_lengths, ends, end_lengths, size, &error);
      break;
    case 1:
      CALL(approximate_sizes_cf)(side->db, family, 1, starts, start_lengths, ends, end_lengths,
                                 size, &error);
      break;
    case 2:
      CALL(approximate_sizes_cf_with_flags)(side->db, family, 1, starts, start_lengths, ends,
                                            end_lengths, (uint8_t)(n[0] % 4), size, &error);
      break;
    case 3:
      CALL(approximate_sizes_with_options)(side->db, options, 1, starts, start_lengths, ends,
                                           end_lengths, size, &error);
      break;
    default:
      CALL(approximate_sizes_cf_with_options)(side->db, family, options, 1, starts, start_lengths,
                                              ends, end_lengths, size, &error);
  }
  print_error(side, error);
  CALL(size_approximation_options_destroy)(options);
}

static void memory(struct side* side, const int* n) {
  (void)n;
  char* error = NULL;
  rocksdb_memory_consumers_t* consumers = CALL(memory_consumers_create)();
  CALL(memory_consumers_add_db)(consumers, side->db);
  if (side->cache) CALL(memory_consumers_add_cache)(consumers, side->cache);
  rocksdb_memory_usage_t* usage = CALL(approximate_memory_usage_create)(consumers, &error);
  print_error(side, error);
  uint64_t total = CALL(approximate_memory_usage_get_mem_table_total)(usage);
  uint64_t unflushed = CALL(approximate_memory_usage_get_mem_table_unflushed)(usage);
  if (unflushed > total) print(side, "unflushed ");
  (void)CALL(approximate_memory_usage_get_mem_table_readers_total)(usage);
  if (side->cache) {
    size_t used = CALL(cache_get_usage)(side->cache);
    if (CALL(approximate_memory_usage_get_cache_total)(usage) > used + (1 << 22)) {
      print(side, "cache ");
    }
    if (CALL(cache_get_pinned_usage)(side->cache) > used) print(side, "pinned ");
    (void)CALL(cache_get_occupancy_count)(side->cache);
    (void)CALL(cache_get_table_address_count)(side->cache);
  }
  CALL(approximate_memory_usage_destroy)(usage);
  CALL(memory_consumers_destroy)(consumers);
}

static void property(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) return;
  static const char* const names[] = {
      "rocksdb.num-snapshots",
      "rocksdb.nothing",
      "rocksdb.is-write-stopped",
      "rocksdb.is-file-deletions-enabled",
      "rocksdb.num-entries-active-mem-table",
      "rocksdb.num-deletes-active-mem-table",
      "rocksdb.background-errors",
      "rocksdb.actual-delayed-write-rate",
      "rocksdb.oldest-snapshot-sequence",
      "rocksdb.num-blob-files",
      /* From here on, only where nothing happens in the background. */
      "rocksdb.mem-table-flush-pending",
      "rocksdb.num-immutable-mem-table",
      "rocksdb.num-entries-imm-mem-tables",
      "rocksdb.num-deletes-imm-mem-tables",
      "rocksdb.num-files-at-level0",
      "rocksdb.num-files-at-level1",
      "rocksdb.num-files-at-level99",
  };
  const char* name = names[n[1] % (configuration.automatic ? 10 : 17)];
  if (strstr(name, "sequence") && !compares_sequences(side)) return;
  uint64_t number = 7;
  int found = n[2] % 2 ? CALL(property_int)(side->db, name, &number)
                       : CALL(property_int_cf)(side->db, family, name, &number);
  print(side, "%s %d %llu ", name, found, (unsigned long long)number);
  char* value = n[2] % 2 ? CALL(property_value)(side->db, name)
                         : CALL(property_value_cf)(side->db, family, name);
  print_bytes(side, value, value ? strlen(value) : 0);
  CALL(free)(value);
}

static void statistics(struct side* side, const int* n) {
  (void)n;
  enum { KEYS_WRITTEN = 58 };
  uint64_t written = CALL(options_statistics_get_ticker_count)(side->options, KEYS_WRITTEN);
  print(side, "%llu ", (unsigned long long)written);
  char* text = CALL(options_statistics_get_string)(side->options);
  if (text == NULL || strstr(text, "rocksdb.block.cache.miss") == NULL) print(side, "no text ");
  CALL(free)(text);
  rocksdb_statistics_histogram_data_t* data = CALL(statistics_histogram_data_create)();
  CALL(options_statistics_get_histogram_data)(side->options, 0, data);
  double least = CALL(statistics_histogram_data_get_min)(data);
  double most = CALL(statistics_histogram_data_get_max)(data);
  double median = CALL(statistics_histogram_data_get_median)(data);
  double average = CALL(statistics_histogram_data_get_average)(data);
  uint64_t count = CALL(statistics_histogram_data_get_count)(data);
  if (count > 0 && (least > most || median > most || average > most)) print(side, "figures ");
  if (CALL(statistics_histogram_data_get_p95)(data) > most) print(side, "p95 ");
  if (CALL(statistics_histogram_data_get_p99)(data) > most) print(side, "p99 ");
  if (CALL(statistics_histogram_data_get_std_dev)(data) < 0) print(side, "deviation ");
  if (count == 0 && CALL(statistics_histogram_data_get_sum)(data) != 0) print(side, "sum ");
  CALL(statistics_histogram_data_destroy)(data);
}

const struct operation FILES[] = {
    {"flush", 5, flush},
    {"flush_wal", 1, flush_wal},
    {"compact", 4, compact},
    {"suggest", 1, suggest},
    {"manual_compactions", 1, manual_compactions},
    {"wait_for_compactions", 1, wait_for_compactions},
    {"checkpoint", 1, checkpoint},
    {"ingest", 3, ingest},
    {"live_files", 3, live_files},
    {"verify", 1, verify},
    {"sizes", 1, sizes},
    {"memory", 1, memory},
    {"property", 5, property},
    {"statistics", 1, statistics},
    {NULL, 0, NULL},
};
