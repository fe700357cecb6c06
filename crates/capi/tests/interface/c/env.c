/* The threads of the environment. The numbers are those that RocksDB 11.8.1 returned. */
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

static rocksdb_env_t* env;

static void check_threads(int low, int high, int bottom) {
  CHECK(rocksdb_env_get_background_threads(env) == low);
  CHECK(rocksdb_env_get_low_priority_background_threads(env) == low);
  CHECK(rocksdb_env_get_high_priority_background_threads(env) == high);
  CHECK(rocksdb_env_get_bottom_priority_background_threads(env) == bottom);
}

static rocksdb_t* open_with_jobs(const char* name, int jobs) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_env(options, env);
  rocksdb_options_set_max_background_jobs(options, jobs);
  rocksdb_t* db = rocksdb_open(options, name, &error);
  OK();
  rocksdb_options_destroy(options);
  return db;
}

static void flush_and_compact(rocksdb_t* db) {
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  for (int i = 0; i < 5; i++) {
    put(db, "a", "1");
    rocksdb_flush(db, flush, &error);
    OK();
  }
  rocksdb_flushoptions_destroy(flush);
  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact(db, wait, &error);
  OK();
  rocksdb_wait_for_compact_options_destroy(wait);
  char* tables = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  CHECK(strcmp(tables, "0") == 0 || strcmp(tables, "1") == 0);
  rocksdb_free(tables);
}

/* Uses a database in a child process that does not have the threads of its parent. */
static void use_in_a_child(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    rocksdb_t* db = open_with_jobs("of_child", 2);
    flush_and_compact(db);
    rocksdb_close(db);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* An environment in memory does not exist: calls with it must not change the disk. */
static void refuse_an_environment_in_memory(void) {
  rocksdb_env_t* memory = rocksdb_create_mem_env();
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_env(options, memory);
  rocksdb_destroy_db(options, "two", &error);
  FAILED("Not implemented: rocksdb_create_mem_env");
  CHECK(rocksdb_open(options, "two", &error) == NULL);
  FAILED("Not implemented: rocksdb_create_mem_env");
  rocksdb_create_dir_if_missing(memory, "directory", &error);
  FAILED("Not implemented: rocksdb_create_mem_env");
  CHECK(access("directory", F_OK) != 0);
  rocksdb_options_t* loaded;
  size_t count;
  char** names;
  rocksdb_options_t** families;
  rocksdb_load_latest_options("two", memory, false, NULL, &loaded, &count, &names, &families, &error);
  FAILED("Not implemented: rocksdb_create_mem_env");
  rocksdb_options_destroy(options);
  rocksdb_env_destroy(memory);
  CHECK(access("two/CURRENT", F_OK) == 0);
}

int main(void) {
  env = rocksdb_create_default_env();
  check_threads(0, 0, 0);
  rocksdb_t* two = open_with_jobs("two", 2);
  check_threads(1, 1, 0);
  rocksdb_t* eight = open_with_jobs("eight", 8);
  check_threads(6, 2, 0);

  rocksdb_env_set_background_threads(env, 1);
  check_threads(1, 2, 0);
  rocksdb_env_set_low_priority_background_threads(env, -3);
  check_threads(0, 2, 0);
  rocksdb_env_set_high_priority_background_threads(env, 0);
  rocksdb_env_set_bottom_priority_background_threads(env, 3);
  check_threads(0, 0, 3);
  rocksdb_t* four = open_with_jobs("four", 4);
  check_threads(3, 1, 3);
  flush_and_compact(two);
  flush_and_compact(four);
  use_in_a_child();

  /* Flushes use threads of low priority if there are no others. */
  rocksdb_env_set_high_priority_background_threads(env, 0);
  rocksdb_env_lower_thread_pool_io_priority(env);
  rocksdb_env_lower_thread_pool_cpu_priority(env);
  rocksdb_env_lower_high_priority_thread_pool_io_priority(env);
  rocksdb_env_lower_high_priority_thread_pool_cpu_priority(env);
  flush_and_compact(eight);

  rocksdb_close(two);
  rocksdb_close(eight);
  rocksdb_close(four);
  refuse_an_environment_in_memory();
  rocksdb_env_join_all_threads(env);
  rocksdb_env_destroy(env);

  /* All handles mean the same environment. */
  env = rocksdb_create_default_env();
  check_threads(3, 0, 3);
  rocksdb_env_destroy(env);
  return 0;
}
