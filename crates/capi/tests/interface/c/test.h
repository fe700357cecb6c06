/* Helpers of the programs in this folder. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

/* The error of the last call. */
static char* error = NULL;

#define OK()                                                                 \
  do {                                                                       \
    if (error) {                                                             \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, error);             \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

/* Checks that the last call failed with an error that begins with this text. */
#define FAILED(text)                                                         \
  do {                                                                       \
    CHECK(error != NULL);                                                    \
    if (strncmp(error, text, strlen(text)) != 0) {                           \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, error);             \
      exit(1);                                                               \
    }                                                                        \
    rocksdb_free(error);                                                     \
    error = NULL;                                                            \
  } while (0)

static inline int same(const char* a, size_t length, const char* b) {
  return a != NULL && length == strlen(b) && memcmp(a, b, length) == 0;
}

static inline rocksdb_t* create(const char* path) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &error);
  OK();
  rocksdb_options_destroy(options);
  return db;
}

static inline void put(rocksdb_t* db, const char* key, const char* value) {
  rocksdb_writeoptions_t* options = rocksdb_writeoptions_create();
  rocksdb_put(db, options, key, strlen(key), value, strlen(value), &error);
  OK();
  rocksdb_writeoptions_destroy(options);
}

/* Checks the value of a key; NULL for none. */
static inline void check_get(rocksdb_t* db, const char* key, const char* value) {
  rocksdb_readoptions_t* options = rocksdb_readoptions_create();
  size_t length = 99;
  char* found = rocksdb_get(db, options, key, strlen(key), &length, &error);
  OK();
  if (value == NULL) {
    CHECK(found == NULL && length == 0);
  } else {
    CHECK(same(found, length, value));
  }
  rocksdb_free(found);
  rocksdb_readoptions_destroy(options);
}
