/* Reads of keys. */
#include "lockstep.h"

static void print_pinned(struct side* side, rocksdb_pinnableslice_t* pinned) {
  size_t length;
  const char* bytes = CALL(pinnableslice_value)(pinned, &length);
  print_bytes(side, bytes, length);
  if (pinned) CALL(pinnableslice_destroy)(pinned);
}

static void print_handle(struct side* side, rocksdb_pinnable_handle_t* handle) {
  size_t length = 0;
  const char* bytes = handle ? CALL(pinnable_handle_get_value)(handle, &length) : NULL;
  print_bytes(side, bytes, length);
  if (handle) CALL(pinnable_handle_destroy)(handle);
}

static void get(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], buffer[VALUE_SIZE], *error = NULL;
  size_t key_length = key_of(n[1], key), length = 77;
  rocksdb_readoptions_t* reads = read_options(side, n[2]);
  char* found = CALL(get)(side->db, reads, key, key_length, &length, &error);
  print_bytes(side, found, length);
  CALL(free)(found);
  print_pinned(side, CALL(get_pinned)(side->db, reads, key, key_length, &error));
  print_handle(side, CALL(get_pinned_v2)(side->db, reads, key, key_length, &error));
  unsigned char is_found = 9;
  size_t size = (size_t)(n[3] * 3);
  unsigned char fits = CALL(get_into_buffer)(side->db, reads, key, key_length, buffer, size,
                                             &length, &is_found, &error);
  print(side, "%d %d %zu ", fits, is_found, length);
  if (family) {
    found = CALL(get_cf)(side->db, reads, family, key, key_length, &length, &error);
    print_bytes(side, found, length);
    CALL(free)(found);
    print_pinned(side, CALL(get_pinned_cf)(side->db, reads, family, key, key_length, &error));
    print_handle(side, CALL(get_pinned_cf_v2)(side->db, reads, family, key, key_length, &error));
    fits = CALL(get_into_buffer_cf)(side->db, reads, family, key, key_length, buffer, size, &length,
                                    &is_found, &error);
    print(side, "%d %d %zu ", fits, is_found, length);
    if (fits) print_bytes(side, buffer, length);
  }
  print_error(side, error);
  CALL(readoptions_destroy)(reads);
}

/* A key that exists must be found; one that does not may be. */
static void key_may_exist(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) return;
  char key[KEY_SIZE], *error = NULL, *value = NULL;
  size_t key_length = key_of(n[1], key), length, value_length;
  rocksdb_readoptions_t* reads = read_options(side, n[2]);
  for (int with_family = 0; with_family < 2; with_family++) {
    char* exact = with_family
                      ? CALL(get_cf)(side->db, reads, family, key, key_length, &length, &error)
                      : CALL(get)(side->db, reads, key, key_length, &length, &error);
    print_error(side, error);
    error = NULL;
    unsigned char is_found = 0;
    int may = with_family ? CALL(key_may_exist_cf)(side->db, reads, family, key, key_length, &value,
                                                   &value_length, NULL, 0, &is_found)
                          : CALL(key_may_exist)(side->db, reads, key, key_length, &value,
                                                &value_length, NULL, 0, &is_found);
    if (exact && !may) print(side, "denied ");
    if (is_found) {
      int same = exact && length == value_length && memcmp(exact, value, length) == 0;
      /* RocksDB may return another value: without reading, it does not find all merge operands. */
      if (side->number == 0 && !same) print(side, "other value ");
      CALL(free)(value);
    }
    CALL(free)(exact);
  }
  CALL(readoptions_destroy)(reads);
}

static void multi_get(struct side* side, const int* n) {
  enum { COUNT = 6 };
  char keys[COUNT][KEY_SIZE];
  const char* list[COUNT];
  size_t lengths[COUNT], value_lengths[COUNT];
  rocksdb_slice_t slices[COUNT];
  const rocksdb_column_family_handle_t* families[COUNT];
  char *values[COUNT], *errors[COUNT];
  rocksdb_pinnableslice_t* pinned[COUNT];
  size_t count = (size_t)(n[3] % (COUNT + 1));
  for (size_t i = 0; i < count; i++) {
    lengths[i] = key_of(n[1] + (int)i * n[2], keys[i]);
    list[i] = keys[i];
    slices[i] = (rocksdb_slice_t){keys[i], lengths[i]};
    families[i] = side->families[(n[0] + (int)i) % FAMILIES];
    if (!families[i]) families[i] = side->families[0];
  }
  rocksdb_readoptions_t* reads = read_options(side, n[3]);
  for (int with_family = 0; with_family < 2; with_family++) {
    if (with_family) {
      CALL(multi_get_cf)(side->db, reads, families, count, list, lengths, values, value_lengths,
                         errors);
    } else {
      CALL(multi_get)(side->db, reads, count, list, lengths, values, value_lengths, errors);
    }
    for (size_t i = 0; i < count; i++) {
      print_bytes(side, values[i], value_lengths[i]);
      print_error(side, errors[i]);
      CALL(free)(values[i]);
    }
  }
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) family = side->families[0];
  for (int with_slices = 0; with_slices < 2; with_slices++) {
    if (with_slices) {
      CALL(batched_multi_get_cf_slice)(side->db, reads, family, count, slices, pinned, errors, false);
    } else {
      CALL(batched_multi_get_cf)(side->db, reads, family, count, list, lengths, pinned, errors,
                                 false);
    }
    for (size_t i = 0; i < count; i++) {
      print_pinned(side, pinned[i]);
      print_error(side, errors[i]);
    }
  }
  CALL(readoptions_destroy)(reads);
}

void close_refreshing_iterators(struct side* side) {
  for (int i = 0; i < ITERATORS; i++) {
    rocksdb_readoptions_t* reads = side->iterator_options[i];
    if (reads && CALL(readoptions_get_auto_refresh_iterator_with_snapshot)(reads)) {
      close_iterator(side, i);
    }
  }
}

static void snapshot(struct side* side, const int* n) {
  int i = n[0] % SNAPSHOTS;
  /* These iterators go back to their snapshot when the database has a new version. */
  close_refreshing_iterators(side);
  if (side->snapshots[i]) CALL(release_snapshot)(side->db, side->snapshots[i]);
  side->snapshots[i] = NULL;
  if (n[1] % 3 == 0) return;
  side->snapshots[i] = CALL(create_snapshot)(side->db);
  uint64_t number = CALL(snapshot_get_sequence_number)(side->snapshots[i]);
  if (compares_sequences(side)) print(side, "%llu ", (unsigned long long)number);
}

const struct operation READS[] = {
    {"get", 12, get},
    {"key_may_exist", 3, key_may_exist},
    {"multi_get", 6, multi_get},
    {"snapshot", 5, snapshot},
    {NULL, 0, NULL},
};
