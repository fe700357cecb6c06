/* Batches, and iterators over the batches in the logs. */
#include "lockstep.h"

static void on_family_put(void* state, uint32_t family, const char* k, size_t klen, const char* v,
                          size_t vlen) {
  print(state, "put %u ", family);
  print_bytes(state, k, klen);
  print_bytes(state, v, vlen);
}
static void on_family_delete(void* state, uint32_t family, const char* k, size_t klen) {
  print(state, "delete %u ", family);
  print_bytes(state, k, klen);
}
static void on_family_merge(void* state, uint32_t family, const char* k, size_t klen, const char* v,
                            size_t vlen) {
  print(state, "merge %u ", family);
  print_bytes(state, k, klen);
  print_bytes(state, v, vlen);
}
static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  on_family_put(state, 0, k, klen, v, vlen);
}
static void on_delete(void* state, const char* k, size_t klen) {
  on_family_delete(state, 0, k, klen);
}
static void on_log_data(void* state, const char* blob, size_t length) {
  print(state, "log ");
  print_bytes(state, blob, length);
}

static void print_batch(struct side* side, rocksdb_writebatch_t* batch) {
  size_t length;
  const char* data = CALL(writebatch_data)(batch, &length);
  print(side, "%d %zu ", CALL(writebatch_count)(batch), length);
  /* The sequence number is in the first eight bytes. */
  if (length >= 8) print_bytes(side, data + 8, length - 8);
}

static void batch_print(struct side* side, const int* n) {
  print_batch(side, side->batch);
  switch (n[0] % 4) {
    case 0:
      CALL(writebatch_iterate)(side->batch, side, on_put, on_delete);
      break;
    case 1:
      CALL(writebatch_iterate_ld)(side->batch, side, on_put, on_delete, on_log_data);
      break;
    case 2:
      CALL(writebatch_iterate_cf)(side->batch, side, on_family_put, on_family_delete,
                                  on_family_merge);
      break;
    default:
      CALL(writebatch_iterate_cf_ld)(side->batch, side, on_family_put, on_family_delete,
                                     on_family_merge, on_log_data);
  }
}

static void batch_put(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], value[VALUE_SIZE];
  size_t key_length = key_of(n[1], key), length = value_of(n[2], value);
  if (n[3] % 3 == 0) {
    CALL(writebatch_put)(side->batch, key, key_length, value, length);
  } else if (family) {
    CALL(writebatch_put_cf)(side->batch, family, key, key_length, value, length);
  }
}

static void batch_delete(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE];
  size_t key_length = key_of(n[1], key);
  if (n[3] % 3 == 0) {
    CALL(writebatch_delete)(side->batch, key, key_length);
  } else if (family) {
    CALL(writebatch_delete_cf)(side->batch, family, key, key_length);
  }
}

static void batch_merge(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], value[VALUE_SIZE];
  size_t key_length = key_of(n[1], key), length = value_of(n[2], value);
  if (n[3] % 3 == 0) {
    CALL(writebatch_merge)(side->batch, key, key_length, value, length);
  } else if (family) {
    CALL(writebatch_merge_cf)(side->batch, family, key, key_length, value, length);
  }
}

/* Single deletions of keys that were never written, which no other operation writes. */
static void batch_single_delete(struct side* side, const int* n) {
  char key[KEY_SIZE];
  size_t key_length = (size_t)sprintf(key, "never%d", n[1]);
  if (n[3] % 2) {
    CALL(writebatch_singledelete)(side->batch, key, key_length);
  } else {
    CALL(writebatch_singledelete_cf)(side->batch, side->families[0], key, key_length);
  }
}

static void batch_delete_range(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char start[KEY_SIZE], end[KEY_SIZE];
  size_t start_length = key_of(n[1], start), end_length = key_of(n[2], end);
  if (compare_keys(start, start_length, end, end_length) >= 0) return;
  const char *starts[2] = {start, start + start_length}, *ends[2] = {end, end + end_length};
  size_t start_lengths[2] = {start_length, 0}, end_lengths[2] = {end_length, 0};
  switch (n[3] % 4) {
    case 0:
      CALL(writebatch_delete_range)(side->batch, start, start_length, end, end_length);
      break;
    case 1:
      CALL(writebatch_delete_rangev)(side->batch, 2, starts, start_lengths, ends, end_lengths);
      break;
    case 2:
      if (!family) return;
      CALL(writebatch_delete_range_cf)(side->batch, family, start, start_length, end, end_length);
      break;
    default:
      if (!family) return;
      CALL(writebatch_delete_rangev_cf)(side->batch, family, 2, starts, start_lengths, ends,
                                        end_lengths);
  }
}

/* Operations whose key and value are given in parts. */
static void batch_parts(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], value[VALUE_SIZE];
  size_t key_length = key_of(n[1], key), value_length = value_of(n[2], value);
  size_t half = key_length / 2, third = value_length / 3;
  const char *keys[2] = {key, key + half}, *values[3] = {value, value + third, value + 2 * third};
  size_t key_lengths[2] = {half, key_length - half};
  size_t value_lengths[3] = {third, third, value_length - 2 * third};
  int with_family = family && n[3] / 3 % 2;
  switch (n[3] % 3) {
    case 0:
      if (with_family) {
        CALL(writebatch_putv_cf)(side->batch, family, 2, keys, key_lengths, 3, values,
                                 value_lengths);
      } else {
        CALL(writebatch_putv)(side->batch, 2, keys, key_lengths, 3, values, value_lengths);
      }
      break;
    case 1:
      if (with_family) {
        CALL(writebatch_mergev_cf)(side->batch, family, 2, keys, key_lengths, 3, values,
                                   value_lengths);
      } else {
        CALL(writebatch_mergev)(side->batch, 2, keys, key_lengths, 3, values, value_lengths);
      }
      break;
    default:
      if (with_family) {
        CALL(writebatch_deletev_cf)(side->batch, family, 2, keys, key_lengths);
      } else {
        CALL(writebatch_deletev)(side->batch, 2, keys, key_lengths);
      }
  }
}

static void batch_log_data(struct side* side, const int* n) {
  char blob[KEY_SIZE];
  size_t length = key_of(n[1], blob);
  CALL(writebatch_put_log_data)(side->batch, blob, length);
}

static void batch_write(struct side* side, const int* n) {
  char* error = NULL;
  CALL(write)(side->db, side->writes, side->batch, &error);
  print_error(side, error);
  if (n[0] % 2) CALL(writebatch_clear)(side->batch);
}

static void batch_clear(struct side* side, const int* n) {
  (void)n;
  CALL(writebatch_clear)(side->batch);
}

/* Continues with another batch: a copy, or one with a maximum size. */
static void batch_other(struct side* side, const int* n) {
  rocksdb_writebatch_t* other;
  if (n[0] % 3) {
    size_t length;
    const char* data = CALL(writebatch_data)(side->batch, &length);
    other = CALL(writebatch_create_from)(data, length);
  } else {
    size_t most = n[1] % 4 == 0 ? 0 : 12 + (size_t)n[1] * 10;
    other = CALL(writebatch_create_with_params)((size_t)n[2], most, 0, 0);
  }
  CALL(writebatch_destroy)(side->batch);
  side->batch = other;
}

static void updates(struct side* side, const int* n) {
  if (configuration.unlogged || configuration.manual_wal_flush) return;
  uint64_t latest = CALL(get_latest_sequence_number)(side->db);
  uint64_t count = latest - side->logged_from;
  uint64_t from = count == 0 || n[0] % 6 == 5 ? latest + 1 + (uint64_t)n[1] % 3
                                              : side->logged_from + 1 + (uint64_t)n[1] % count;
  char* error = NULL;
  rocksdb_wal_readoptions_t* reads = n[2] % 2 ? CALL(wal_readoptions_create)() : NULL;
  rocksdb_wal_iterator_t* iter = CALL(get_updates_since)(side->db, from, reads, &error);
  print_error(side, error);
  error = NULL;
  if (iter) {
    int printed = 0;
    for (; printed < 20 && CALL(wal_iter_valid)(iter); CALL(wal_iter_next)(iter)) {
      uint64_t sequence = 0;
      rocksdb_writebatch_t* batch = CALL(wal_iter_get_batch)(iter, &sequence);
      /* RocksDB begins with an empty batch if its search for the first one went into another log. */
      if (printed == 0 && CALL(writebatch_count)(batch) == 0) {
        CALL(writebatch_destroy)(batch);
        continue;
      }
      printed++;
      print(side, "%llu ", (unsigned long long)(sequence - side->logged_from));
      print_batch(side, batch);
      CALL(writebatch_destroy)(batch);
    }
    CALL(wal_iter_status)(iter, &error);
    print_error(side, error);
    CALL(wal_iter_destroy)(iter);
  }
  if (reads) CALL(wal_readoptions_destroy)(reads);
}

const struct operation BATCHES[] = {
    {"batch_put", 6, batch_put},
    {"batch_delete", 3, batch_delete},
    {"batch_merge", 3, batch_merge},
    {"batch_single_delete", 1, batch_single_delete},
    {"batch_delete_range", 2, batch_delete_range},
    {"batch_parts", 4, batch_parts},
    {"batch_log_data", 1, batch_log_data},
    {"batch_print", 4, batch_print},
    {"batch_write", 5, batch_write},
    {"batch_clear", 1, batch_clear},
    {"batch_other", 2, batch_other},
    {"updates", 3, updates},
    {NULL, 0, NULL},
};
