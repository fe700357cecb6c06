/* Options: those of objects that no database uses, and changes of an open database's. */
#include "lockstep.h"

static void set_option(struct side* side, const int* n) {
  call_setter(side, (n[0] * KEYS + n[1]) % SETTERS, n[2]);
}

static void print_options(struct side* side, const int* n) {
  (void)n;
  for (int which = 0; which < GETTERS; which++) call_getter(side, which);
}

/* Functions that set several options at once. */
static void presets(struct side* side, const int* n) {
  rocksdb_options_t* options = side->objects.options;
  int levels[3] = {n[1], n[2], n[3]};
  switch (n[0] % 16) {
    case 0: CALL(options_increase_parallelism)(options, 1 + n[1] % 8); break;
    case 1: CALL(options_optimize_for_point_lookup)(options, (uint64_t)n[1]); break;
    case 2: CALL(options_optimize_level_style_compaction)(options, (uint64_t)n[1] << 20); break;
    case 3: CALL(options_optimize_universal_style_compaction)(options, (uint64_t)n[1] << 20); break;
    case 4: CALL(options_prepare_for_bulk_load)(options); break;
    case 5: CALL(options_set_compression_options)(options, n[1], n[2], n[3], n[0]); break;
    case 6:
      CALL(options_set_bottommost_compression_options)(options, n[1], n[2], n[3], n[0], n[1] % 2);
      break;
    case 7:
      CALL(options_set_bottommost_compression_options_max_dict_buffer_bytes)(options, (uint64_t)n[1],
                                                                             n[2] % 2);
      break;
    case 8:
      CALL(options_set_bottommost_compression_options_use_zstd_dict_trainer)(options, n[1] % 2,
                                                                             n[2] % 2);
      break;
    case 9:
      CALL(options_set_bottommost_compression_options_zstd_max_train_bytes)(options, n[1], n[2] % 2);
      break;
    case 10: CALL(options_set_max_bytes_for_level_multiplier_additional)(options, levels, 3); break;
    case 11:
      CALL(options_set_fifo_compaction_options)(options, side->objects.fifo_compaction_options);
      break;
    case 12:
      CALL(options_set_universal_compaction_options)(options,
                                                     side->objects.universal_compaction_options);
      break;
    case 13: {
      /* RocksDB does not check the level. */
      int level = n[1] % 5 - 1;
      if (level > CALL(options_get_num_levels)(options)) break;
      CALL(options_set_min_level_to_compress)(options, level);
      break;
    }
    case 14: {
      rocksdb_options_t* copy = CALL(options_create_copy)(options);
      CALL(options_destroy)(options);
      side->objects.options = copy;
      break;
    }
    default:
      CALL(options_set_uint64add_merge_operator)(options);
  }
}

static void options_from_string(struct side* side, const int* n) {
  static const char* const texts[] = {
      "write_buffer_size=1048576",
      "max_open_files=77;compression=kZSTD;",
      "compaction_pri=kByCompensatedSize;compaction_style=kCompactionStyleUniversal",
      "block_based_table_factory={block_size=8192;format_version=5};num_levels=5",
      "compression_opts=4:5:6:7",
      "nothing=1",
      "max_open_files=many",
      "wal_recovery_mode=kAbsoluteConsistency;use_fsync=true",
      "",
      "write_buffer_size=16k;max_write_buffer_number",
      "comparator=rocksdb.ReverseBytewiseComparator",
      "level0_file_num_compaction_trigger=9; max_background_jobs = 3 ;",
      "{write_buffer_size=4096}",
      "compression_per_level=kNoCompression:kLZ4Compression",
  };
  char* error = NULL;
  const char* text = texts[n[1] % (int)(sizeof texts / sizeof *texts)];
  rocksdb_options_t* made = CALL(options_create)();
  CALL(get_options_from_string)(side->objects.options, text, made, &error);
  if (error) {
    CALL(options_destroy)(made);
  } else {
    CALL(options_destroy)(side->objects.options);
    side->objects.options = made;
  }
  print_error(side, error);
}

/* Changes that are made in any state of the database, and some that are refused. */
static void set_options(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  static const char* const family_options[][2] = {
      {"max_compaction_bytes", "9000000"}, {"level0_slowdown_writes_trigger", "30"},
      {"nothing", "1"},                  {"compression", "kNoCompression"},
      {"write_buffer_size", "many"},     {"max_sequential_skip_in_iterations", "2"},
      {"num_levels", "3"},               {"block_based_table_factory", "{block_size=1024;}"},
      {"max_successive_merges", "2"},    {"paranoid_file_checks", "true"},
      {"comparator", "nothing"},         {"ttl", "1000000"},
  };
  static const char* const database_options[][2] = {
      {"max_background_jobs", "3"},      {"nothing", "1"},
      {"bytes_per_sync", "65536"},       {"stats_dump_period_sec", "700"},
      {"max_open_files", "-1"},          {"wal_dir", "elsewhere"},
      {"max_total_wal_size", "1000000"}, {"delayed_write_rate", "zero"},
  };
  char* error = NULL;
  const char* const* pair = family_options[n[1] % 12];
  if (n[2] % 3 == 0) pair = database_options[n[1] % 8];
  const char *keys[2] = {pair[0], "disable_auto_compactions"};
  const char *values[2] = {pair[1], configuration.automatic ? "false" : "true"};
  switch (n[2] % 3) {
    case 0:
      CALL(set_db_options)(side->db, n[3] % 5 != 0, keys, values, &error);
      break;
    case 1:
      CALL(set_options)(side->db, n[3] % 3, keys, values, &error);
      break;
    default:
      if (family) CALL(set_options_cf)(side->db, family, 1 + n[3] % 2, keys, values, &error);
  }
  print_error(side, error);
}

/* The options that the database has stored. */
static void load_options(struct side* side, const int* n) {
  char* error = NULL;
  rocksdb_options_t *database = NULL, **families = NULL;
  size_t count = 0;
  char** names = NULL;
  CALL(load_latest_options)(n[0] % 4 ? side->path : "/nowhere", side->env, n[1] % 2, side->cache,
                            &database, &count, &names, &families, &error);
  print(side, "%zu ", count);
  if (!error) {
    print(side, "%d ", CALL(options_get_max_open_files)(database));
    /* By name: RocksDB does not keep the order of their creation if a family was dropped. */
    const char* last = "";
    for (size_t done = 0; done < count; done++) {
      size_t next = count;
      for (size_t i = 0; i < count; i++) {
        int is_later = strcmp(names[i], last) > 0;
        if (is_later && (next == count || strcmp(names[i], names[next]) < 0)) next = i;
      }
      if (next == count) break;
      last = names[next];
      print(side, "%s %llu %d %d ", last,
            (unsigned long long)CALL(options_get_target_file_size_base)(families[next]),
            CALL(options_get_num_levels)(families[next]),
            CALL(options_get_level0_file_num_compaction_trigger)(families[next]));
    }
    CALL(load_latest_options_destroy)(database, names, families, count);
  }
  print_error(side, error);
}

/* Objects that no database uses. */
static void unused(struct side* side, const int* n) {
  char* error = NULL;
  rocksdb_block_based_table_options_t* table = side->objects.block_based_table_options;
  size_t length = 0;
  switch (n[0] % 8) {
    case 0: CALL(filterpolicy_destroy)(CALL(filterpolicy_create_bloom)(n[1])); break;
    case 1: CALL(slicetransform_destroy)(CALL(slicetransform_create_fixed_prefix)(3)); break;
    case 2:
      CALL(options_set_merge_operator)(side->objects.options, NULL);
      CALL(mergeoperator_destroy)(make_merge_operator(side));
      break;
    case 3: {
      char path[4096];
      snprintf(path, sizeof path, "%s-directory%d", side->path, n[1] % 2);
      CALL(create_dir_if_missing)(side->env, path, &error);
      break;
    }
    case 4: {
      rocksdb_cache_t* cache = CALL(cache_create_lru)((size_t)n[1] << 20);
      CALL(cache_set_capacity)(cache, (size_t)n[2] << 20);
      print(side, "%zu ", CALL(cache_get_capacity)(cache));
      CALL(cache_disown_data)(cache);
      CALL(cache_destroy)(cache);
      CALL(memory_allocator_destroy)(NULL);
      break;
    }
    case 5:
      CALL(block_based_options_set_user_defined_index_factory_from_string)(table, "nothing", 7,
                                                                          &error);
      break;
    case 6:
      CALL(block_based_options_clear_user_defined_index_factory)(table);
      CALL(block_based_options_get_user_defined_index_factory_name)(table, &length);
      print(side, "%zu ", length);
      break;
    default: {
      char path[4096];
      snprintf(path, sizeof path, "%s-absent", side->path);
      CALL(destroy_db)(side->objects.options, path, &error);
    }
  }
  print_error(side, error);
}

/* The manager of the database. Its memory is not compared: the libraries lay out memtables
 * differently. */
static void write_buffer_manager(struct side* side, const int* n) {
  rocksdb_write_buffer_manager_t* manager = side->write_buffer_manager;
  if (!manager) return;
  /* RocksDB counts memtables from before the first limit wrongly. */
  if (n[0] % 3 == 0 && CALL(write_buffer_manager_enabled)(manager)) {
    CALL(write_buffer_manager_set_buffer_size)(manager, (size_t)(32 + n[1]) << 20);
  }
  if (n[0] % 3 == 1) CALL(write_buffer_manager_set_allow_stall)(manager, n[1] % 2);
  int is_limited = CALL(write_buffer_manager_enabled)(manager);
  int is_charged = CALL(write_buffer_manager_cost_to_cache)(manager);
  size_t used = CALL(write_buffer_manager_memory_usage)(manager);
  size_t charged = CALL(write_buffer_manager_dummy_entries_in_cache_usage)(manager);
  print(side, "%d %d %zu ", is_limited, is_charged, CALL(write_buffer_manager_buffer_size)(manager));
  print(side, "%d %d ", used > 0, charged > 0);
  if (charged % (256 << 10) || (is_charged && charged < used)) print(side, "charged %zu ", charged);
  if (CALL(write_buffer_manager_mutable_memtable_memory_usage)(manager) > used) {
    print(side, "mutable ");
  }
}

/* The threads of the environment, of which low and high priority always have some: without any,
 * flushes could not run, and RocksDB waits at closing for removals of files that no thread does. Their
 * priority for processors is lowered at the end: on a busy machine, they would not run then. */
static void environment(struct side* side, const int* n) {
  rocksdb_env_t* env = side->env ? side->env : (side->env = CALL(create_default_env)());
  switch (n[0] % 6) {
    case 0: CALL(env_set_background_threads)(env, 1 + n[1] % 3); break;
    case 1: CALL(env_set_low_priority_background_threads)(env, 1 + n[1] % 3); break;
    case 2: CALL(env_set_high_priority_background_threads)(env, 1 + n[1] % 3); break;
    case 3: CALL(env_set_bottom_priority_background_threads)(env, n[1] % 3 - 1); break;
    case 4:
      CALL(env_lower_thread_pool_io_priority)(env);
      CALL(env_lower_high_priority_thread_pool_io_priority)(env);
      break;
    default: CALL(env_join_all_threads)(env); break;
  }
  print(side, "%d %d ", CALL(env_get_background_threads)(env),
        CALL(env_get_low_priority_background_threads)(env));
  print(side, "%d %d ", CALL(env_get_high_priority_background_threads)(env),
        CALL(env_get_bottom_priority_background_threads)(env));
}

const struct operation OPTIONS[] = {
    {"set_option", 8, set_option},
    {"print_options", 1, print_options},
    {"presets", 2, presets},
    {"options_from_string", 2, options_from_string},
    {"set_options", 3, set_options},
    {"load_options", 1, load_options},
    {"unused", 2, unused},
    {"write_buffer_manager", 1, write_buffer_manager},
    {"environment", 1, environment},
    {NULL, 0, NULL},
};
