/* Runs the same calls on two libraries with RocksDB's C interface, and compares all results.
 *
 * A script is a list of lines: the name of an operation, and numbers. The first line is `options`,
 * with the numbers of the configuration. Each operation runs on both sides, and prints what it
 * sees. The program ends at the first difference. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

#include "calls.h"

struct library {
#define POINTER(name) __typeof__(name)* name;
  FUNCTIONS(POINTER)
#undef POINTER
};

enum {
  FAMILIES = 3,
  ITERATORS = 4,
  SNAPSHOTS = 3,
  NUMBERS = 8,
  KEYS = 40,
  KEY_SIZE = 64,
  VALUE_SIZE = 1024,
  OUTPUT = 1 << 18
};

/* One of the two databases, and what the operations print about it. */
struct side {
  struct library call;
  /* 0 for our library, 1 for the real one. */
  int number;
  char path[3000];
  rocksdb_t* db;
  rocksdb_options_t* options;
  rocksdb_comparator_t* comparator;
  rocksdb_compactionfilter_t* compaction_filter;
  rocksdb_ratelimiter_t* rate_limiter;
  rocksdb_write_buffer_manager_t* write_buffer_manager;
  rocksdb_sst_file_manager_t* sst_file_manager;
  rocksdb_cache_t* cache;
  rocksdb_cache_t* rows;
  rocksdb_env_t* env;
  rocksdb_column_family_handle_t* families[FAMILIES];
  rocksdb_iterator_t* iterators[ITERATORS];
  rocksdb_readoptions_t* iterator_options[ITERATORS];
  const rocksdb_snapshot_t* snapshots[SNAPSHOTS];
  rocksdb_writeoptions_t* writes;
  rocksdb_writebatch_t* batch;
  /* Objects whose options are set and read, and which no database uses. */
  struct objects objects;
  /* The sequence number up to which logs may be gone. */
  uint64_t logged_from;
  /* The keys for single deletions, each of which is written and deleted once. */
  int single_written, single_deleted;
  /* The number of files that were made outside of the database. */
  int files;
  /* Whether such files were ingested. Each gets a sequence number if the database has keys in its
   * range, which depends on when automatic compactions run. */
  int ingested;
  int manual_compactions_disabled;
  char output[OUTPUT];
  size_t used;
};

/* The configuration of both databases. */
struct configuration {
  int comparator, prefix, filter, compression, levels, merge, automatic, table, various;
  /* Whether the options change what compactions do with the data. */
  int compaction_filter;
  int paths, unlogged, manual_wal_flush;
  /* Whether there is a row cache. Then no ranges are deleted: rows of the real library lack their
   * tombstones, and writes of tombstones are refused. */
  int rows;
};
extern struct configuration configuration;

#define CALL(name) side->call.rocksdb_##name

struct operation {
  const char* name;
  /* How often the operation is drawn. */
  int weight;
  void (*run)(struct side* side, const int* n);
};
extern const struct operation READS[], WRITES[], BATCHES[], ITERATIONS[], FILES[], OPTIONS[],
    DATABASES[];

extern const char* const FAMILY_NAMES[FAMILIES];

/* side.c */
void print(struct side* side, const char* format, ...) __attribute__((format(printf, 2, 3)));
void print_bytes(struct side* side, const char* bytes, size_t length);
/* Prints the class of an error, and frees the error. */
void print_error(struct side* side, char* error);
size_t key_of(int number, char* key);
size_t value_of(int number, char* value);
/* Compares two keys in the order of the databases. */
int compare_keys(const char* a, size_t a_length, const char* b, size_t b_length);
rocksdb_readoptions_t* read_options(struct side* side, int number);
/* Whether both databases must have the same sequence numbers. */
int compares_sequences(const struct side* side);

/* database.c */
void open_side(struct side* side);
void close_side(struct side* side);
rocksdb_options_t* make_options(struct side* side);
rocksdb_mergeoperator_t* make_merge_operator(struct side* side);
/* Prints all entries of all families. */
void dump(struct side* side);
void dump_family(struct side* side, rocksdb_t* db, rocksdb_column_family_handle_t* family);

/* iterators.c */
void print_iterator(struct side* side, rocksdb_iterator_t* iter);
void close_iterator(struct side* side, int i);
void close_refreshing_iterators(struct side* side);

/* accessors.c, which is generated: the objects, and the functions that set and get one option. */
void create_objects(struct side* side);
void destroy_objects(struct side* side);
extern const int SETTERS, GETTERS;
void call_setter(struct side* side, int which, int value);
void call_getter(struct side* side, int which);

/* Runs a script, which ends with NULL, on the libraries `ours` and `theirs` with databases in
 * `directory`. Returns 3 after a difference, which it prints. */
int lockstep(const char* const* script, const char* ours, const char* theirs,
             const char* directory);

/* Prints the names of the operations, and how often each is drawn. */
void print_operations(void);

/* Makes calls on a database in `directory` of the library that the program is linked with. Each call
 * is the number of an operation and the operation's numbers. */
enum { CALL_NUMBERS = 5 };
void run_alone(const int numbers[NUMBERS], const int (*calls)[CALL_NUMBERS], size_t count,
               const char* directory);

#endif
