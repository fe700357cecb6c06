/* Iterators. */
#include "lockstep.h"

void print_iterator(struct side* side, rocksdb_iterator_t* iter) {
  char* error = NULL;
  CALL(iter_get_error)(iter, &error);
  print_error(side, error);
  if (!CALL(iter_valid)(iter)) {
    print(side, "invalid ");
    return;
  }
  size_t length;
  const char* bytes = CALL(iter_key)(iter, &length);
  print_bytes(side, bytes, length);
  bytes = CALL(iter_value)(iter, &length);
  print_bytes(side, bytes, length);
  rocksdb_slice_t key = CALL(iter_key_slice)(iter), value = CALL(iter_value_slice)(iter);
  if (value.data != bytes || value.size != length) print(side, "other value ");
  bytes = CALL(iter_key)(iter, &length);
  if (key.data != bytes || key.size != length) print(side, "other key ");
}

void close_iterator(struct side* side, int i) {
  if (!side->iterators[i]) return;
  CALL(iter_destroy)(side->iterators[i]);
  if (side->iterator_options[i]) CALL(readoptions_destroy)(side->iterator_options[i]);
  side->iterators[i] = NULL;
  side->iterator_options[i] = NULL;
}

static rocksdb_readoptions_t* iterator_options(struct side* side, const int* n) {
  rocksdb_readoptions_t* reads = read_options(side, n[2]);
  if (n[3] % 15 == 0) {
    CALL(readoptions_set_auto_prefix_mode)(reads, 1);
  } else {
    CALL(readoptions_set_total_order_seek)(reads, 1);
  }
  static const char* const bounds[] = {"b", "ab", "cb1"};
  const char *low = bounds[n[3] % 3], *high = bounds[n[3] / 3 % 3];
  if (configuration.comparator) {
    const char* other = low;
    low = high;
    high = other;
  }
  if (n[3] % 5 == 1 || n[3] % 5 == 3) {
    CALL(readoptions_set_iterate_upper_bound)(reads, high, strlen(high));
  }
  if (n[3] % 5 == 2 || n[3] % 5 == 3) {
    CALL(readoptions_set_iterate_lower_bound)(reads, low, strlen(low));
  }
  if (n[3] % 5 == 4) CALL(readoptions_set_iterate_upper_bound)(reads, NULL, 0);
  return reads;
}

static void iter_new(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  if (!family) return;
  int i = n[1] % ITERATORS;
  close_iterator(side, i);
  rocksdb_readoptions_t* reads = iterator_options(side, n);
  /* The iterator follows new versions of the database, and keeps its snapshot. */
  CALL(readoptions_set_auto_refresh_iterator_with_snapshot)(reads, n[1] / 4 % 3 == 0);
  side->iterators[i] = n[0] % FAMILIES == 0 && n[1] % 2
                           ? CALL(create_iterator)(side->db, reads)
                           : CALL(create_iterator_cf)(side->db, reads, family);
  side->iterator_options[i] = reads;
}

/* Iterators over several families, which show the same state. */
static void iter_new_all(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* families[FAMILIES];
  rocksdb_iterator_t* iterators[FAMILIES];
  size_t count = 0;
  for (int f = 0; f < FAMILIES; f++) {
    if (side->families[f]) families[count++] = side->families[f];
  }
  rocksdb_readoptions_t* reads = iterator_options(side, n);
  char* error = NULL;
  CALL(create_iterators)(side->db, reads, families, iterators, count, &error);
  for (size_t i = 0; i < count && !error; i++) {
    CALL(iter_seek_to_last)(iterators[i]);
    print_iterator(side, iterators[i]);
    CALL(iter_destroy)(iterators[i]);
  }
  print_error(side, error);
  CALL(readoptions_destroy)(reads);
}

static rocksdb_iterator_t* iterator(struct side* side, const int* n) {
  return side->iterators[n[0] % ITERATORS];
}

static void iter_seek(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  char key[KEY_SIZE];
  CALL(iter_seek)(iter, key, key_of(n[1], key));
  print_iterator(side, iter);
}

static void iter_seek_for_prev(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  char key[KEY_SIZE];
  CALL(iter_seek_for_prev)(iter, key, key_of(n[1], key));
  print_iterator(side, iter);
}

static void iter_first(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  CALL(iter_seek_to_first)(iter);
  print_iterator(side, iter);
}

static void iter_last(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  CALL(iter_seek_to_last)(iter);
  print_iterator(side, iter);
}

/* Moves up to three times in one direction. */
static void iter_next(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  for (int i = 0; i <= n[1] % 3 && CALL(iter_valid)(iter); i++) {
    CALL(iter_next)(iter);
    print_iterator(side, iter);
  }
}

static void iter_prev(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  for (int i = 0; i <= n[1] % 3 && CALL(iter_valid)(iter); i++) {
    CALL(iter_prev)(iter);
    print_iterator(side, iter);
  }
}

static void iter_refresh(struct side* side, const int* n) {
  rocksdb_iterator_t* iter = iterator(side, n);
  if (!iter) return;
  char* error = NULL;
  CALL(iter_refresh)(iter, &error);
  print_error(side, error);
  if (n[1] % 2) CALL(iter_seek_to_first)(iter);
  print_iterator(side, iter);
}

static void iter_close(struct side* side, const int* n) { close_iterator(side, n[0] % ITERATORS); }

/* Within a prefix, with all seeks. */
static void iter_prefix(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE];
  size_t length = key_of(n[1], key);
  if (!family || length < 2) return;
  rocksdb_readoptions_t* reads = read_options(side, n[2]);
  CALL(readoptions_set_prefix_same_as_start)(reads, 1);
  rocksdb_iterator_t* iter = CALL(create_iterator_cf)(side->db, reads, family);
  CALL(iter_seek)(iter, key, length);
  print_iterator(side, iter);
  for (int i = 0; i < 4 && CALL(iter_valid)(iter); i++) {
    CALL(iter_next)(iter);
    print_iterator(side, iter);
  }
  CALL(iter_destroy)(iter);
  CALL(readoptions_destroy)(reads);
}

const struct operation ITERATIONS[] = {
    {"iter_new", 6, iter_new},
    {"iter_new_all", 1, iter_new_all},
    {"iter_seek", 8, iter_seek},
    {"iter_seek_for_prev", 6, iter_seek_for_prev},
    {"iter_first", 3, iter_first},
    {"iter_last", 3, iter_last},
    {"iter_next", 10, iter_next},
    {"iter_prev", 8, iter_prev},
    {"iter_refresh", 2, iter_refresh},
    {"iter_prefix", 2, iter_prefix},
    {"iter_close", 1, iter_close},
    {NULL, 0, NULL},
};
