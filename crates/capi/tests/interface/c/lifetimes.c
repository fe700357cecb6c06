/* Exits, forks, and many threads, with open databases. */
#include "test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static rocksdb_t* reopen(const char* path) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_t* db = rocksdb_open(options, path, &error);
  OK();
  rocksdb_options_destroy(options);
  return db;
}

/* A child has copies of its parent's threads' memory, without the threads. */
static int is_child = 0;

/* Asked by a leak checker, if there is one. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_child; }

/* Runs `body` in a process of its own, which must end without an error. */
static void in_a_process(void (*body)(void)) {
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    is_child = 1;
    body();
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Ends the process with open databases, an iterator, a snapshot and unflushed writes. */
static void leave_open(void) {
  for (int i = 0; i < 3; i++) {
    char path[20], key[20];
    sprintf(path, "left%d", i);
    rocksdb_t* db = create(path);
    for (int k = 0; k < 1000; k++) {
      sprintf(key, "%d", k);
      put(db, key, path);
    }
    rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
    rocksdb_iterator_t* iter = rocksdb_create_iterator(db, reads);
    rocksdb_iter_seek_to_first(iter);
    CHECK(rocksdb_create_snapshot(db) != NULL);
  }
}

static void exits(void) {
  in_a_process(leave_open);
  for (int i = 0; i < 3; i++) {
    char path[20], key[20];
    sprintf(path, "left%d", i);
    rocksdb_t* db = reopen(path);
    for (int k = 0; k < 1000; k++) {
      sprintf(key, "%d", k);
      check_get(db, key, path);
    }
    rocksdb_close(db);
  }
}

static void open_in_the_child(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  /* The parent has it open. */
  CHECK(rocksdb_open(options, "forked", &error) == NULL);
  FAILED("IO error: ");
  rocksdb_options_destroy(options);
}

static void do_nothing(void) {}

static void forks(void) {
  rocksdb_t* db = create("forked");
  put(db, "before", "1");
  in_a_process(do_nothing);
  put(db, "between", "2");
  in_a_process(open_in_the_child);
  /* The lock is still there after the child has ended. */
  in_a_process(open_in_the_child);
  put(db, "after", "3");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  rocksdb_close(db);
  db = reopen("forked");
  check_get(db, "before", "1");
  check_get(db, "between", "2");
  check_get(db, "after", "3");
  rocksdb_close(db);
}

static rocksdb_t* shared;

static void* use(void* number) {
  char key[32];
  sprintf(key, "%zu", (size_t)number);
  char* failure = NULL;
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_put(shared, writes, key, strlen(key), key, strlen(key), &failure);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  size_t length;
  char* found = rocksdb_get(shared, reads, key, strlen(key), &length, &failure);
  CHECK(failure == NULL && same(found, length, key));
  rocksdb_free(found);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(shared, reads);
  rocksdb_iter_seek(iter, key, strlen(key));
  CHECK(rocksdb_iter_valid(iter));
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(reads);
  return NULL;
}

/* Returns the process's memory, in KiB. */
static long memory(void) {
  FILE* file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  char line[256];
  long memory = -1;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "RssAnon: %ld", &memory) == 1) break;
  }
  fclose(file);
  return memory;
}

/* There with AddressSanitizer, which delays the reuse of memory. */
extern void __asan_init(void) __attribute__((weak));

static void use_threads(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use, (void*)i) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

static void threads(void) {
  shared = create("threads");
  use_threads(0, 1000);
  long before = memory();
  use_threads(1000, 10000);
  /* The entries themselves take about 2 MiB. */
  long grown = memory() - before;
  if (!__asan_init && grown > 16 * 1024) {
    fprintf(stderr, "9000 threads left %ld KiB\n", grown);
    exit(1);
  }
  rocksdb_close(shared);
  shared = reopen("threads");
  check_get(shared, "9999", "9999");
  rocksdb_close(shared);
}

/* An iterator, a snapshot and a handle of one thread are used and destroyed by another. */
static rocksdb_iterator_t* handed_over;
static const rocksdb_snapshot_t* snapshot;

static void* finish(void* db) {
  rocksdb_iter_next(handed_over);
  size_t length;
  CHECK(rocksdb_iter_valid(handed_over));
  const char* key = rocksdb_iter_key(handed_over, &length);
  CHECK(same(key, length, "2"));
  rocksdb_iter_destroy(handed_over);
  rocksdb_release_snapshot(db, snapshot);
  return NULL;
}

static void handovers(void) {
  rocksdb_t* db = create("handed");
  put(db, "1", "");
  put(db, "2", "");
  snapshot = rocksdb_create_snapshot(db);
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_readoptions_set_snapshot(reads, snapshot);
  handed_over = rocksdb_create_iterator(db, reads);
  rocksdb_iter_seek_to_first(handed_over);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, finish, db) == 0);
  pthread_join(thread, NULL);
  rocksdb_readoptions_destroy(reads);
  rocksdb_close(db);
}

#define PINS 100
static rocksdb_pinnableslice_t* pins[PINS];

static void* destroy_pins(void* unused) {
  (void)unused;
  for (int i = 0; i < PINS; i++) rocksdb_pinnableslice_destroy(pins[i * 37 % PINS]);
  return NULL;
}

/* Pinned values, more than a thread keeps memory for, destroyed in another order, by this thread
 * and by another one. Their memory is used again, and they have their own values. */
static void pinned_values(void) {
  rocksdb_t* db = create("pinned");
  char key[20];
  for (int i = 0; i < PINS; i++) {
    sprintf(key, "%d", i);
    put(db, key, key);
  }
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &error);
  OK();
  rocksdb_flushoptions_destroy(flush);
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  for (int turn = 0; turn < 4; turn++) {
    for (int i = 0; i < PINS; i++) {
      sprintf(key, "%d", (i + turn) % PINS);
      pins[i] = rocksdb_get_pinned(db, reads, key, strlen(key), &error);
      OK();
    }
    for (int i = 0; i < PINS; i++) {
      sprintf(key, "%d", (i + turn) % PINS);
      size_t length;
      const char* value = rocksdb_pinnableslice_value(pins[i], &length);
      CHECK(same(value, length, key));
    }
    if (turn % 2) {
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, destroy_pins, NULL) == 0);
      CHECK(pthread_join(thread, NULL) == 0);
    } else {
      destroy_pins(NULL);
    }
  }
  rocksdb_readoptions_destroy(reads);
  rocksdb_close(db);
}

/* Objects that outlive what they belong to: a family's drop, its handle, the options, the cache. */
static void orders(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_cache_destroy(cache);
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_block_based_options_destroy(table);
  rocksdb_t* db = rocksdb_open(options, "orders", &error);
  OK();
  rocksdb_column_family_handle_t* family =
      rocksdb_create_column_family(db, options, "family", &error);
  OK();
  rocksdb_options_destroy(options);
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_put_cf(db, writes, family, "1", 1, "v", 1, &error);
  OK();
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_iterator_t* iter = rocksdb_create_iterator_cf(db, reads, family);
  rocksdb_readoptions_destroy(reads);
  rocksdb_drop_column_family(db, family, &error);
  OK();
  /* The next write to the family is refused, and no other one is. */
  rocksdb_put_cf(db, writes, family, "2", 1, "v", 1, &error);
  CHECK(error != NULL);
  rocksdb_free(error);
  error = NULL;
  put(db, "default", "1");
  rocksdb_column_family_handle_destroy(family);
  rocksdb_iter_seek_to_first(iter);
  CHECK(rocksdb_iter_valid(iter));
  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &error);
  OK();
  rocksdb_pinnableslice_t* pinned;
  reads = rocksdb_readoptions_create();
  pinned = rocksdb_get_pinned(db, reads, "default", 7, &error);
  OK();
  rocksdb_close(db);
  size_t length;
  const char* value = rocksdb_pinnableslice_value(pinned, &length);
  CHECK(same(value, length, "1"));
  rocksdb_pinnableslice_destroy(pinned);
  rocksdb_checkpoint_object_destroy(checkpoint);
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
}

int main(void) {
  /* First, as a fork of a process with threads has only one of them. */
  exits();
  forks();
  threads();
  handovers();
  pinned_values();
  orders();
  return 0;
}
