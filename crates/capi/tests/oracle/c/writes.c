/* Writes of single keys. */
#include "lockstep.h"

static void put(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], value[VALUE_SIZE], *error = NULL;
  size_t key_length = key_of(n[1], key), length = value_of(n[2], value);
  if (n[3] % 4 == 0) {
    CALL(put)(side->db, side->writes, key, key_length, value, length, &error);
  } else if (family) {
    CALL(put_cf)(side->db, side->writes, family, key, key_length, value, length, &error);
  }
  print_error(side, error);
}

static void delete(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], *error = NULL;
  size_t key_length = key_of(n[1], key);
  if (n[3] % 4 == 0) {
    CALL(delete)(side->db, side->writes, key, key_length, &error);
  } else if (family) {
    CALL(delete_cf)(side->db, side->writes, family, key, key_length, &error);
  }
  print_error(side, error);
}

static void merge(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char key[KEY_SIZE], value[VALUE_SIZE], *error = NULL;
  size_t key_length = key_of(n[1], key), length = value_of(n[2], value);
  if (n[3] % 4 == 0) {
    CALL(merge)(side->db, side->writes, key, key_length, value, length, &error);
  } else if (family) {
    CALL(merge_cf)(side->db, side->writes, family, key, key_length, value, length, &error);
  }
  print_error(side, error);
}

/* RocksDB refuses all later writes after a reversed range, and forgets the sequence number of an
 * empty one when it is opened again. */
static void delete_range(struct side* side, const int* n) {
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  char start[KEY_SIZE], end[KEY_SIZE], *error = NULL;
  size_t start_length = key_of(n[1], start), end_length = key_of(n[2], end);
  if (!family || compare_keys(start, start_length, end, end_length) >= 0) return;
  CALL(delete_range_cf)(side->db, side->writes, family, start, start_length, end, end_length,
                        &error);
  print_error(side, error);
}

/* A key for single deletions is written once, and deleted at most once. Where tables are compared,
 * there are none: a flush of RocksDB drops both entries, and ours does not. */
static void single(struct side* side, const int* n) {
  if (!configuration.automatic) return;
  char key[KEY_SIZE], value[VALUE_SIZE], *error = NULL;
  size_t length = value_of(n[2], value);
  if (n[1] % 2 == 0) {
    size_t key_length = (size_t)sprintf(key, "s%d", side->single_written++);
    CALL(put)(side->db, side->writes, key, key_length, value, length, &error);
  } else if (side->single_deleted < side->single_written) {
    size_t key_length = (size_t)sprintf(key, "s%d", side->single_deleted++);
    if (n[3] % 2) {
      CALL(singledelete)(side->db, side->writes, key, key_length, &error);
    } else {
      CALL(singledelete_cf)(side->db, side->writes, side->families[0], key, key_length, &error);
    }
  }
  print_error(side, error);
  error = NULL;
  /* If nothing is left of a memtable, RocksDB forgets its sequence numbers. */
  CALL(put)(side->db, side->writes, "single", 6, value, length, &error);
  print_error(side, error);
}

static void sequence(struct side* side, const int* n) {
  (void)n;
  uint64_t number = CALL(get_latest_sequence_number)(side->db);
  if (compares_sequences(side)) print(side, "%llu ", (unsigned long long)number);
}

static void write_options(struct side* side, const int* n) {
  CALL(writeoptions_set_sync)(side->writes, (unsigned char)(n[0] % 2));
  CALL(writeoptions_set_no_slowdown)(side->writes, n[1] % 2);
  CALL(writeoptions_disable_WAL)(side->writes, configuration.unlogged && n[0] % 2 == 0 && n[1] % 2);
}

const struct operation WRITES[] = {
    {"put", 14, put},
    {"delete", 7, delete},
    {"merge", 8, merge},
    {"delete_range", 3, delete_range},
    {"single", 5, single},
    {"sequence", 2, sequence},
    {"write_options", 1, write_options},
    {NULL, 0, NULL},
};
