/* What the generated program needs to call functions without implementation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

static rocksdb_t* db;
static rocksdb_options_t* options;
static rocksdb_readoptions_t *reads, *plain_reads;
static rocksdb_writeoptions_t *writes, *plain_writes;
static rocksdb_writebatch_t* batch;
static rocksdb_flushoptions_t* flush;
static size_t length;
static char* error;
/* An object of any kind that does nothing. */
static char buffer[64];

/* The arrays of functions that get several keys. */
static void* values[2];
static char* errors[2];

static void set_up(void) {
  rocksdb_options_t* opening = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(opening, 1);
  values[0] = values[1] = buffer;
  db = rocksdb_open(opening, "db", &error);
  if (error) { fprintf(stderr, "%s\n", error); exit(1); }
  rocksdb_options_destroy(opening);
  plain_reads = rocksdb_readoptions_create();
  plain_writes = rocksdb_writeoptions_create();
}

static void tear_down(void) {
  rocksdb_readoptions_destroy(plain_reads);
  rocksdb_writeoptions_destroy(plain_writes);
  rocksdb_close(db);
}

static void begin(void) {
  (void)buffer;
  error = NULL;
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  reads = rocksdb_readoptions_create();
  writes = rocksdb_writeoptions_create();
  batch = rocksdb_writebatch_create();
  flush = rocksdb_flushoptions_create();
}

static void end(void) {
  free(error);
  rocksdb_options_destroy(options);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_writebatch_destroy(batch);
  rocksdb_flushoptions_destroy(flush);
}

static void refused(const char* name) {
  if (error == NULL) {
    fprintf(stderr, "%s: no error\n", name);
    exit(1);
  }
  if (strncmp(error, "Not implemented: ", 17) != 0 || strstr(error, name) == NULL) {
    fprintf(stderr, "%s: %s\n", name, error);
    exit(1);
  }
}

static void refused_each(const char* name) {
  for (int i = 0; i < 2; i++) {
    free(error);
    error = errors[i];
    refused(name);
    if (values[i] != NULL) {
      fprintf(stderr, "%s: a value\n", name);
      exit(1);
    }
    values[i] = buffer;
    errors[i] = NULL;
  }
}

static void accepted(const char* name) {
  if (error != NULL) {
    fprintf(stderr, "%s: %s\n", name, error);
    exit(1);
  }
}
