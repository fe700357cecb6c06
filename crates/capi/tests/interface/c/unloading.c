/* The library is loaded, and unloaded with an open database. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rocksdb/c.h"

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

#define CALL(name) ((__typeof__(rocksdb_##name)*)dlsym(library, "rocksdb_" #name))

static void use(const char* path, int closes) {
  void* library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  char* error = NULL;
  rocksdb_options_t* options = CALL(options_create)();
  CALL(options_set_create_if_missing)(options, 1);
  rocksdb_t* db = CALL(open)(options, path, &error);
  CHECK(error == NULL);
  rocksdb_writeoptions_t* writes = CALL(writeoptions_create)();
  CALL(put)(db, writes, "k", 1, "v", 1, &error);
  CHECK(error == NULL);
  CALL(writeoptions_destroy)(writes);
  CALL(options_destroy)(options);
  if (closes) CALL(close)(db);
  CHECK(dlclose(library) == 0);
}

int main(void) {
  for (int i = 0; i < 5; i++) use("closed", 1);
  use("open", 0);
  /* The database's threads are still running. */
  usleep(1200 * 1000);
  use("other", 1);
  return 0;
}
