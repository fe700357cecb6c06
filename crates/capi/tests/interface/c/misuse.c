/* Uses of objects that were destroyed. In debug builds, each aborts with a message. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void closes_twice(void) {
  rocksdb_t* db = create("db");
  rocksdb_close(db);
  rocksdb_close(db);
}

static void gets_after_close(void) {
  rocksdb_t* db = create("db");
  rocksdb_close(db);
  check_get(db, "k", NULL);
}

static void destroys_options_twice(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_destroy(options);
  rocksdb_options_destroy(options);
}

static void releases_a_snapshot_after_close(void) {
  rocksdb_t* db = create("db");
  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  rocksdb_close(db);
  rocksdb_release_snapshot(db, snapshot);
}

static void gives_an_owned_object_away_twice(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_slicetransform_t* prefix = rocksdb_slicetransform_create_fixed_prefix(2);
  rocksdb_options_set_prefix_extractor(options, prefix);
  rocksdb_options_set_prefix_extractor(options, prefix);
}

static void passes_another_object(void) {
  rocksdb_t* db = create("db");
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  size_t length;
  rocksdb_get(db, (rocksdb_readoptions_t*)(void*)writes, "k", 1, &length, &error);
}

/* Runs `body` in a process, which must abort and say this. */
static void check_abort(void (*body)(void), const char* message) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    signal(SIGABRT, SIG_DFL);
    body();
    exit(0);
  }
  close(ends[1]);
  char output[4096];
  size_t used = 0;
  ssize_t got;
  while ((got = read(ends[0], output + used, sizeof output - 1 - used)) > 0) used += (size_t)got;
  output[used] = 0;
  close(ends[0]);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(output, message) == NULL) {
    fprintf(stderr, "status %x, \"%s\" instead of \"%s\"\n", status, output, message);
    exit(1);
  }
}

int main(void) {
  check_abort(closes_twice, "argument db is not a live rocksdb_t");
  check_abort(gets_after_close, "argument db is not a live rocksdb_t");
  check_abort(destroys_options_twice, "argument options is not a live rocksdb_options_t");
  check_abort(releases_a_snapshot_after_close, "argument db is not a live rocksdb_t");
  check_abort(gives_an_owned_object_away_twice,
              "argument slice_transform is not a live rocksdb_slicetransform_t");
  check_abort(passes_another_object, "argument options is not a live rocksdb_readoptions_t");
  (void)put;
  return 0;
}
