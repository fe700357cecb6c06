/* Runs a script of calls on two libraries with RocksDB's C interface, and compares all results.
 *
 * usage: lockstep OURS THEIRS DIRECTORY < SCRIPT
 *
 * A line of the script is the name of an operation, and numbers. Exits with 3 after a difference. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

#define FUNCTIONS(F)                                                                            \
  F(rocksdb_open_column_families) F(rocksdb_close) F(rocksdb_free) F(rocksdb_options_create)    \
  F(rocksdb_options_destroy) F(rocksdb_options_set_create_if_missing)                           \
  F(rocksdb_options_set_create_missing_column_families) F(rocksdb_options_set_comparator)       \
  F(rocksdb_options_set_merge_operator) F(rocksdb_options_set_write_buffer_size)                \
  F(rocksdb_options_set_compression) F(rocksdb_options_set_block_based_table_factory)           \
  F(rocksdb_options_set_num_levels) F(rocksdb_options_set_disable_auto_compactions)             \
  F(rocksdb_options_set_prefix_extractor) F(rocksdb_slicetransform_create_fixed_prefix)         \
  F(rocksdb_block_based_options_create) F(rocksdb_block_based_options_destroy)                  \
  F(rocksdb_block_based_options_set_filter_policy) F(rocksdb_block_based_options_set_block_size) \
  F(rocksdb_filterpolicy_create_bloom) F(rocksdb_filterpolicy_create_ribbon)                    \
  F(rocksdb_comparator_create) F(rocksdb_comparator_destroy) F(rocksdb_mergeoperator_create)    \
  F(rocksdb_list_column_families) F(rocksdb_list_column_families_destroy)                       \
  F(rocksdb_create_column_family) F(rocksdb_drop_column_family)                                 \
  F(rocksdb_column_family_handle_destroy) F(rocksdb_writeoptions_create)                        \
  F(rocksdb_writeoptions_destroy) F(rocksdb_writeoptions_set_sync)                              \
  F(rocksdb_readoptions_create) F(rocksdb_readoptions_destroy) F(rocksdb_readoptions_set_snapshot) \
  F(rocksdb_readoptions_set_iterate_lower_bound) F(rocksdb_readoptions_set_iterate_upper_bound) \
  F(rocksdb_readoptions_set_total_order_seek)                                                   \
  F(rocksdb_put) F(rocksdb_put_cf) F(rocksdb_delete_cf) F(rocksdb_merge_cf)                     \
  F(rocksdb_delete_range_cf) F(rocksdb_get) F(rocksdb_get_cf) F(rocksdb_get_pinned_cf)          \
  F(rocksdb_pinnableslice_value) F(rocksdb_pinnableslice_destroy) F(rocksdb_multi_get_cf)       \
  F(rocksdb_batched_multi_get_cf) F(rocksdb_get_into_buffer_cf) F(rocksdb_writebatch_create)    \
  F(rocksdb_writebatch_destroy) F(rocksdb_writebatch_clear) F(rocksdb_writebatch_count)         \
  F(rocksdb_writebatch_data) F(rocksdb_writebatch_put_cf) F(rocksdb_writebatch_delete_cf)       \
  F(rocksdb_writebatch_merge_cf) F(rocksdb_writebatch_delete_range_cf)                          \
  F(rocksdb_writebatch_put_log_data) F(rocksdb_writebatch_putv_cf)                              \
  F(rocksdb_writebatch_singledelete_cf) F(rocksdb_writebatch_iterate_cf)                        \
  F(rocksdb_writebatch_iterate) F(rocksdb_write) F(rocksdb_create_iterator_cf)                  \
  F(rocksdb_iter_destroy) F(rocksdb_iter_valid) F(rocksdb_iter_seek_to_first)                   \
  F(rocksdb_iter_seek_to_last) F(rocksdb_iter_seek) F(rocksdb_iter_seek_for_prev)               \
  F(rocksdb_iter_next) F(rocksdb_iter_prev) F(rocksdb_iter_key) F(rocksdb_iter_value)           \
  F(rocksdb_iter_get_error) F(rocksdb_iter_refresh) F(rocksdb_create_snapshot)                  \
  F(rocksdb_release_snapshot) F(rocksdb_snapshot_get_sequence_number)                           \
  F(rocksdb_get_latest_sequence_number) F(rocksdb_flushoptions_create)                          \
  F(rocksdb_flushoptions_destroy) F(rocksdb_flush_cf) F(rocksdb_compact_range_cf)               \
  F(rocksdb_property_int_cf) F(rocksdb_property_value_cf) F(rocksdb_flush_wal)                  \
  F(rocksdb_key_may_exist_cf) F(rocksdb_set_options_cf) F(rocksdb_get_updates_since)            \
  F(rocksdb_wal_iter_valid) F(rocksdb_wal_iter_next) F(rocksdb_wal_iter_get_batch)              \
  F(rocksdb_wal_iter_status) F(rocksdb_wal_iter_destroy) F(rocksdb_checkpoint_object_create)    \
  F(rocksdb_checkpoint_create) F(rocksdb_checkpoint_object_destroy)

struct library {
#define POINTER(name) __typeof__(name)* name;
  FUNCTIONS(POINTER)
};

enum { FAMILIES = 3, ITERATORS = 3, SNAPSHOTS = 3, OUTPUT = 1 << 16 };

/* One of the two databases, and what the operations print about it. */
struct side {
  struct library call;
  char path[4096];
  rocksdb_t* db;
  rocksdb_options_t* options;
  rocksdb_comparator_t* comparator;
  rocksdb_column_family_handle_t* families[FAMILIES];
  rocksdb_iterator_t* iterators[ITERATORS];
  rocksdb_readoptions_t* iterator_options[ITERATORS];
  const rocksdb_snapshot_t* snapshots[SNAPSHOTS];
  rocksdb_writeoptions_t* writes;
  rocksdb_writebatch_t* batch;
  char output[OUTPUT];
  size_t used;
};

static const char* const NAMES[FAMILIES] = {"default", "one", "two"};
static int with_comparator, with_prefix, filter, compression, levels;

static void print(struct side* side, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = OUTPUT - side->used;
  int written = vsnprintf(side->output + side->used, room, format, arguments);
  va_end(arguments);
  if (written > 0) side->used += (size_t)written < room ? (size_t)written : room - 1;
}

static void print_bytes(struct side* side, const char* bytes, size_t length) {
  if (bytes == NULL) {
    print(side, "NULL");
    return;
  }
  print(side, "%zu:", length);
  for (size_t i = 0; i < length && i < 40; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte >= 33 && byte < 127) {
      print(side, "%c", byte);
    } else {
      print(side, "\\%02x", byte);
    }
  }
  print(side, " ");
}

/* Prints the class of an error, and frees the error. */
static void print_error(struct side* side, char* error) {
  if (error == NULL) return;
  const char* end = strstr(error, ": ");
  print(side, "error %.*s ", end ? (int)(end - error) : (int)strlen(error), error);
  if (getenv("LOCKSTEP_VERBOSE")) fprintf(stderr, "%s: %s\n", side->path, error);
  side->call.rocksdb_free(error);
}

static int backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  if (order == 0) order = alen < blen ? -1 : alen > blen;
  return -order;
}
static const char* comparator_name(void* state) { (void)state; return "lockstep.Backwards"; }
static const char* merge_name(void* state) { (void)state; return "lockstep.Join"; }
static void destroy(void* state) { (void)state; }

/* Compactions may merge any of the operands first, so the result does not depend on that. */
static char* join(const char* existing, size_t existing_length, const char* const* operands,
                  const size_t* lengths, int count, size_t* length) {
  size_t total = existing_length + 1;
  for (int i = 0; i < count; i++) total += lengths[i] + 1;
  char* result = malloc(total);
  size_t used = 0;
  if (existing != NULL) {
    memcpy(result, existing, existing_length);
    used = existing_length;
  }
  for (int i = 0; i < count; i++) {
    if (used > 0) result[used++] = ',';
    memcpy(result + used, operands[i], lengths[i]);
    used += lengths[i];
  }
  *length = used;
  return result;
}

static char* full_merge(void* state, const char* key, size_t key_length, const char* existing,
                        size_t existing_length, const char* const* operands, const size_t* lengths,
                        int count, unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length;
  *success = 1;
  return join(existing, existing_length, operands, lengths, count, length);
}

static char* partial_merge(void* state, const char* key, size_t key_length,
                           const char* const* operands, const size_t* lengths, int count,
                           unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length, (void)operands, (void)lengths, (void)count;
  *success = 0;
  *length = 0;
  return NULL;
}

static void load(struct side* side, const char* library, const char* path) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
#define SYMBOL(name)                                                       \
  *(void**)&side->call.name = dlsym(handle, #name);                        \
  if (!side->call.name) {                                                  \
    fprintf(stderr, "%s has no " #name "\n", library);                     \
    exit(2);                                                               \
  }
  FUNCTIONS(SYMBOL)
  snprintf(side->path, sizeof side->path, "%s", path);
}

static rocksdb_options_t* make_options(struct side* side) {
  struct library* call = &side->call;
  rocksdb_options_t* options = call->rocksdb_options_create();
  call->rocksdb_options_set_create_if_missing(options, 1);
  call->rocksdb_options_set_create_missing_column_families(options, 1);
  call->rocksdb_options_set_write_buffer_size(options, 1 << 20);
  static const int compressions[] = {rocksdb_no_compression, rocksdb_snappy_compression,
                                     rocksdb_lz4_compression, rocksdb_zstd_compression,
                                     rocksdb_zlib_compression};
  call->rocksdb_options_set_compression(options, compressions[compression]);
  call->rocksdb_options_set_num_levels(options, levels);
  if (with_comparator) {
    if (!side->comparator) {
      side->comparator =
          call->rocksdb_comparator_create(NULL, destroy, backwards, comparator_name);
    }
    call->rocksdb_options_set_comparator(options, side->comparator);
  }
  if (with_prefix) {
    call->rocksdb_options_set_prefix_extractor(
        options, call->rocksdb_slicetransform_create_fixed_prefix(2));
  }
  call->rocksdb_options_set_merge_operator(
      options, call->rocksdb_mergeoperator_create(NULL, destroy, full_merge, partial_merge, NULL,
                                                  merge_name));
  rocksdb_block_based_table_options_t* table = call->rocksdb_block_based_options_create();
  call->rocksdb_block_based_options_set_block_size(table, 512);
  if (filter == 1) {
    call->rocksdb_block_based_options_set_filter_policy(
        table, call->rocksdb_filterpolicy_create_bloom(10));
  } else if (filter == 2) {
    call->rocksdb_block_based_options_set_filter_policy(
        table, call->rocksdb_filterpolicy_create_ribbon(10));
  }
  call->rocksdb_options_set_block_based_table_factory(options, table);
  call->rocksdb_block_based_options_destroy(table);
  return options;
}

static void open_side(struct side* side) {
  struct library* call = &side->call;
  side->options = make_options(side);
  char* error = NULL;
  size_t count = 0;
  char** listed = call->rocksdb_list_column_families(side->options, side->path, &count, &error);
  if (error) {
    call->rocksdb_free(error);
    error = NULL;
    count = 0;
  }
  const char* names[FAMILIES] = {"default"};
  int at[FAMILIES] = {0}, opened = 1;
  for (size_t i = 0; i < count; i++) {
    for (int f = 1; f < FAMILIES; f++) {
      if (strcmp(listed[i], NAMES[f]) == 0) {
        names[opened] = NAMES[f];
        at[opened++] = f;
      }
    }
  }
  const rocksdb_options_t* options[FAMILIES];
  for (int i = 0; i < FAMILIES; i++) options[i] = side->options;
  rocksdb_column_family_handle_t* handles[FAMILIES];
  side->db = call->rocksdb_open_column_families(side->options, side->path, opened, names, options,
                                                handles, &error);
  if (!side->db) {
    fprintf(stderr, "%s: %s\n", side->path, error);
    exit(3);
  }
  for (int i = 0; i < opened; i++) side->families[at[i]] = handles[i];
  for (int i = 0; i < opened; i++) print(side, "%s ", names[i]);
  if (count) call->rocksdb_list_column_families_destroy(listed, count);
  side->writes = call->rocksdb_writeoptions_create();
  side->batch = call->rocksdb_writebatch_create();
}

static void close_iterator(struct side* side, int i) {
  if (!side->iterators[i]) return;
  side->call.rocksdb_iter_destroy(side->iterators[i]);
  side->call.rocksdb_readoptions_destroy(side->iterator_options[i]);
  side->iterators[i] = NULL;
}

static void release_snapshot(struct side* side, int i) {
  if (!side->snapshots[i]) return;
  side->call.rocksdb_release_snapshot(side->db, side->snapshots[i]);
  side->snapshots[i] = NULL;
}

static void close_side(struct side* side) {
  for (int i = 0; i < ITERATORS; i++) close_iterator(side, i);
  for (int i = 0; i < SNAPSHOTS; i++) release_snapshot(side, i);
  for (int i = 0; i < FAMILIES; i++) {
    if (side->families[i]) side->call.rocksdb_column_family_handle_destroy(side->families[i]);
    side->families[i] = NULL;
  }
  side->call.rocksdb_writebatch_destroy(side->batch);
  side->call.rocksdb_writeoptions_destroy(side->writes);
  side->call.rocksdb_close(side->db);
  side->call.rocksdb_options_destroy(side->options);
}

/* Writes the key with this number. Some keys are a prefix of others, and one is empty. */
static size_t key_of(int number, char* key) {
  if (number == 0) return 0;
  return (size_t)sprintf(key, "%c%c%0*d", 'a' + number % 3, 'a' + number % 2, number % 5, number);
}

static size_t value_of(int number, char* value) {
  size_t length = number % 7 == 0 ? 0 : (size_t)(number * 37 % 300);
  for (size_t i = 0; i < length; i++) value[i] = (char)('A' + (number + (int)i) % 26);
  return length;
}

static void print_iterator(struct side* side, rocksdb_iterator_t* iter) {
  struct library* call = &side->call;
  char* error = NULL;
  call->rocksdb_iter_get_error(iter, &error);
  print_error(side, error);
  if (!call->rocksdb_iter_valid(iter)) {
    print(side, "invalid ");
    return;
  }
  size_t length;
  const char* bytes = call->rocksdb_iter_key(iter, &length);
  print_bytes(side, bytes, length);
  bytes = call->rocksdb_iter_value(iter, &length);
  print_bytes(side, bytes, length);
}

static void on_put(void* state, uint32_t family, const char* k, size_t klen, const char* v,
                   size_t vlen) {
  print(state, "put %u ", family);
  print_bytes(state, k, klen);
  print_bytes(state, v, vlen);
}
static void on_delete(void* state, uint32_t family, const char* k, size_t klen) {
  print(state, "delete %u ", family);
  print_bytes(state, k, klen);
}
static void on_merge(void* state, uint32_t family, const char* k, size_t klen, const char* v,
                     size_t vlen) {
  print(state, "merge %u ", family);
  print_bytes(state, k, klen);
  print_bytes(state, v, vlen);
}
static void on_put_default(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  on_put(state, 0, k, klen, v, vlen);
}
static void on_delete_default(void* state, const char* k, size_t klen) {
  on_delete(state, 0, k, klen);
}

/* Prints all entries of all families. */
static void dump(struct side* side) {
  struct library* call = &side->call;
  rocksdb_readoptions_t* reads = call->rocksdb_readoptions_create();
  call->rocksdb_readoptions_set_total_order_seek(reads, 1);
  for (int f = 0; f < FAMILIES; f++) {
    if (!side->families[f]) continue;
    print(side, "\n%s: ", NAMES[f]);
    rocksdb_iterator_t* iter = call->rocksdb_create_iterator_cf(side->db, reads, side->families[f]);
    for (call->rocksdb_iter_seek_to_first(iter); call->rocksdb_iter_valid(iter);
         call->rocksdb_iter_next(iter)) {
      print_iterator(side, iter);
    }
    print_iterator(side, iter);
    call->rocksdb_iter_destroy(iter);
  }
  call->rocksdb_readoptions_destroy(reads);
}

/* Performs an operation on one side. Returns 0 if the operation is unknown. */
static int perform(struct side* side, const char* name, const int* n) {
  struct library* call = &side->call;
  char key[64], other[64], value[512];
  char* error = NULL;
  size_t length = 0, other_length;
  rocksdb_column_family_handle_t* family = side->families[n[0] % FAMILIES];
  size_t key_length = key_of(n[1], key);
#define IS(text) (strcmp(name, text) == 0)
  if (IS("reopen")) {
    close_side(side);
    open_side(side);
    return 1;
  }
  if (IS("create_family")) {
    int f = 1 + n[0] % (FAMILIES - 1);
    rocksdb_column_family_handle_t* made =
        call->rocksdb_create_column_family(side->db, side->options, NAMES[f], &error);
    if (made && side->families[f]) call->rocksdb_column_family_handle_destroy(made);
    if (made && !side->families[f]) side->families[f] = made;
    print(side, "%d ", made != NULL);
    print_error(side, error);
    return 1;
  }
  if (IS("drop_family")) {
    int f = n[0] % FAMILIES;
    if (!side->families[f]) return 1;
    call->rocksdb_drop_column_family(side->db, side->families[f], &error);
    if (!error) {
      call->rocksdb_column_family_handle_destroy(side->families[f]);
      side->families[f] = NULL;
      /* The batch may have operations of the family. */
      call->rocksdb_writebatch_clear(side->batch);
    }
    print_error(side, error);
    return 1;
  }
  if (IS("snapshot")) {
    int i = n[0] % SNAPSHOTS;
    release_snapshot(side, i);
    side->snapshots[i] = call->rocksdb_create_snapshot(side->db);
    print(side, "%llu ",
          (unsigned long long)call->rocksdb_snapshot_get_sequence_number(side->snapshots[i]));
    return 1;
  }
  if (IS("release")) {
    release_snapshot(side, n[0] % SNAPSHOTS);
    return 1;
  }
  if (IS("sequence")) {
    print(side, "%llu ", (unsigned long long)call->rocksdb_get_latest_sequence_number(side->db));
    return 1;
  }
  if (IS("batch_write")) {
    call->rocksdb_write(side->db, side->writes, side->batch, &error);
    print_error(side, error);
    return 1;
  }
  if (IS("batch_clear")) {
    call->rocksdb_writebatch_clear(side->batch);
    return 1;
  }
  if (IS("batch_log_data")) {
    value_of(n[1], value);
    call->rocksdb_writebatch_put_log_data(side->batch, key, key_length);
    return 1;
  }
  if (IS("batch_print")) {
    const char* data = call->rocksdb_writebatch_data(side->batch, &length);
    print(side, "%d %zu ", call->rocksdb_writebatch_count(side->batch), length);
    print_bytes(side, data + 8, length - 8);
    call->rocksdb_writebatch_iterate_cf(side->batch, side, on_put, on_delete, on_merge);
    print(side, "| ");
    call->rocksdb_writebatch_iterate(side->batch, side, on_put_default, on_delete_default);
    return 1;
  }
  if (IS("flush_wal")) {
    call->rocksdb_flush_wal(side->db, (unsigned char)(n[0] % 2), &error);
    print_error(side, error);
    return 1;
  }
  if (strncmp(name, "iter_", 5) == 0 && !IS("iter_new")) {
    int i = n[0] % ITERATORS;
    rocksdb_iterator_t* iter = side->iterators[i];
    if (!iter) return 1;
    if (IS("iter_seek")) call->rocksdb_iter_seek(iter, key, key_length);
    else if (IS("iter_seek_for_prev")) call->rocksdb_iter_seek_for_prev(iter, key, key_length);
    else if (IS("iter_first")) call->rocksdb_iter_seek_to_first(iter);
    else if (IS("iter_last")) call->rocksdb_iter_seek_to_last(iter);
    else if (IS("iter_next")) { if (call->rocksdb_iter_valid(iter)) call->rocksdb_iter_next(iter); }
    else if (IS("iter_prev")) { if (call->rocksdb_iter_valid(iter)) call->rocksdb_iter_prev(iter); }
    else if (IS("iter_close")) { close_iterator(side, i); return 1; }
    else return 0;
    print_iterator(side, iter);
    return 1;
  }
  if (!family) return 1;
  if (IS("put")) {
    call->rocksdb_put_cf(side->db, side->writes, family, key, key_length, value,
                         value_of(n[2], value), &error);
  } else if (IS("delete")) {
    call->rocksdb_delete_cf(side->db, side->writes, family, key, key_length, &error);
  } else if (IS("merge")) {
    call->rocksdb_merge_cf(side->db, side->writes, family, key, key_length, value,
                           value_of(n[2], value), &error);
  } else if (IS("delete_range")) {
    other_length = key_of(n[2], other);
    int order = memcmp(key, other, key_length < other_length ? key_length : other_length);
    if (order == 0) order = key_length < other_length ? -1 : key_length > other_length;
    if (with_comparator) order = -order;
    /* RocksDB refuses all later writes after a reversed range, and forgets the sequence number of
     * an empty one when it is opened again. */
    if (order >= 0) return 1;
    call->rocksdb_delete_range_cf(side->db, side->writes, family, key, key_length, other,
                                  other_length, &error);
  } else if (IS("get")) {
    rocksdb_readoptions_t* reads = call->rocksdb_readoptions_create();
    if (n[2] % 4) call->rocksdb_readoptions_set_snapshot(reads, side->snapshots[n[2] % SNAPSHOTS]);
    char* found =
        call->rocksdb_get_cf(side->db, reads, family, key, key_length, &length, &error);
    print_bytes(side, found, length);
    call->rocksdb_free(found);
    rocksdb_pinnableslice_t* pinned =
        call->rocksdb_get_pinned_cf(side->db, reads, family, key, key_length, &error);
    const char* bytes = call->rocksdb_pinnableslice_value(pinned, &length);
    print_bytes(side, bytes, length);
    if (pinned) call->rocksdb_pinnableslice_destroy(pinned);
    unsigned char is_found = 9, fits;
    fits = call->rocksdb_get_into_buffer_cf(side->db, reads, family, key, key_length, value, 100,
                                            &length, &is_found, &error);
    print(side, "%d %d %zu ", fits, is_found, length);
    call->rocksdb_readoptions_destroy(reads);
  } else if (IS("multi_get")) {
    enum { KEYS = 4 };
    char keys[KEYS][64];
    const char* list[KEYS];
    size_t lengths[KEYS], value_lengths[KEYS];
    const rocksdb_column_family_handle_t* families[KEYS];
    char *values[KEYS], *errors[KEYS];
    rocksdb_pinnableslice_t* slices[KEYS];
    for (int i = 0; i < KEYS; i++) {
      lengths[i] = key_of((n[1] + i * n[2]) % 40, keys[i]);
      list[i] = keys[i];
      families[i] = family;
    }
    rocksdb_readoptions_t* reads = call->rocksdb_readoptions_create();
    call->rocksdb_multi_get_cf(side->db, reads, families, KEYS, list, lengths, values,
                               value_lengths, errors);
    for (int i = 0; i < KEYS; i++) {
      print_bytes(side, values[i], value_lengths[i]);
      print_error(side, errors[i]);
      call->rocksdb_free(values[i]);
    }
    call->rocksdb_batched_multi_get_cf(side->db, reads, family, KEYS, list, lengths, slices,
                                       errors, false);
    for (int i = 0; i < KEYS; i++) {
      const char* bytes = call->rocksdb_pinnableslice_value(slices[i], &length);
      print_bytes(side, bytes, length);
      print_error(side, errors[i]);
      if (slices[i]) call->rocksdb_pinnableslice_destroy(slices[i]);
    }
    call->rocksdb_readoptions_destroy(reads);
  } else if (IS("batch_put")) {
    call->rocksdb_writebatch_put_cf(side->batch, family, key, key_length, value,
                                    value_of(n[2], value));
  } else if (IS("batch_putv")) {
    const char *keys[2] = {key, key}, *values[2] = {value, value};
    size_t lengths[2] = {key_length, key_length}, value_lengths[2];
    value_lengths[0] = value_lengths[1] = value_of(n[2], value);
    call->rocksdb_writebatch_putv_cf(side->batch, family, 2, keys, lengths, 2, values,
                                     value_lengths);
  } else if (IS("batch_delete")) {
    call->rocksdb_writebatch_delete_cf(side->batch, family, key, key_length);
  } else if (IS("batch_merge")) {
    call->rocksdb_writebatch_merge_cf(side->batch, family, key, key_length, value,
                                      value_of(n[2], value));
  } else if (IS("iter_new")) {
    int i = n[1] % ITERATORS;
    close_iterator(side, i);
    rocksdb_readoptions_t* reads = call->rocksdb_readoptions_create();
    call->rocksdb_readoptions_set_total_order_seek(reads, 1);
    if (n[2] % 4) call->rocksdb_readoptions_set_snapshot(reads, side->snapshots[n[2] % SNAPSHOTS]);
    static const char bound[] = "b";
    if (n[2] % 5 == 1) call->rocksdb_readoptions_set_iterate_upper_bound(reads, bound, 1);
    if (n[2] % 5 == 2) call->rocksdb_readoptions_set_iterate_lower_bound(reads, bound, 1);
    side->iterators[i] = call->rocksdb_create_iterator_cf(side->db, reads, family);
    side->iterator_options[i] = reads;
  } else if (IS("flush")) {
    rocksdb_flushoptions_t* flush = call->rocksdb_flushoptions_create();
    call->rocksdb_flush_cf(side->db, flush, family, &error);
    call->rocksdb_flushoptions_destroy(flush);
  } else if (IS("compact")) {
    other_length = key_of(n[2], other);
    if (n[2] % 3) call->rocksdb_compact_range_cf(side->db, family, NULL, 0, NULL, 0);
    else call->rocksdb_compact_range_cf(side->db, family, key, key_length, other, other_length);
  } else if (IS("property")) {
    static const char* const names[] = {
        "rocksdb.num-snapshots", "rocksdb.nothing", "rocksdb.is-write-stopped",
        "rocksdb.is-file-deletions-enabled"};
    uint64_t number = 0;
    int found = call->rocksdb_property_int_cf(side->db, family, names[n[1] % 4], &number);
    print(side, "%d %llu ", found, (unsigned long long)number);
  } else {
    return 0;
  }
  print_error(side, error);
  return 1;
}

static void compare(struct side sides[2], const char* line, int number) {
  if (strcmp(sides[0].output, sides[1].output) != 0) {
    fprintf(stderr, "line %d, %s\n  ours:   %s\n  theirs: %s\n", number, line, sides[0].output,
            sides[1].output);
    exit(3);
  }
  for (int i = 0; i < 2; i++) {
    sides[i].used = 0;
    sides[i].output[0] = 0;
  }
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  static struct side sides[2];
  char path[4096], line[256], name[64];
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", arguments[3], i == 0 ? "ours" : "theirs");
    load(&sides[i], arguments[1 + i], path);
  }
  int number = 0;
  levels = 7;
  while (fgets(line, sizeof line, stdin)) {
    number++;
    line[strcspn(line, "\n")] = 0;
    int n[3] = {0, 0, 0};
    if (sscanf(line, "%63s %d %d %d", name, &n[0], &n[1], &n[2]) < 1) continue;
    if (strcmp(name, "options") == 0) {
      with_comparator = n[0] % 2;
      with_prefix = n[0] / 2 % 2 && !with_comparator;
      filter = n[1] % 3;
      compression = n[2] % 5;
      levels = 2 + n[0] % 6;
      continue;
    }
    for (int i = 0; i < 2; i++) {
      if (!sides[i].db) open_side(&sides[i]);
      if (!perform(&sides[i], name, n)) {
        fprintf(stderr, "unknown operation %s\n", name);
        return 2;
      }
    }
    compare(sides, line, number);
  }
  for (int i = 0; i < 2; i++) {
    if (!sides[i].db) return 0;
    dump(&sides[i]);
  }
  compare(sides, "the contents", number);
  /* Each library opens the other's database. */
  for (int i = 0; i < 2; i++) close_side(&sides[i]);
  snprintf(path, sizeof path, "%s", sides[0].path);
  memcpy(sides[0].path, sides[1].path, sizeof path);
  memcpy(sides[1].path, path, sizeof path);
  for (int i = 0; i < 2; i++) {
    open_side(&sides[i]);
    dump(&sides[i]);
  }
  compare(sides, "the contents of the other's database", number);
  for (int i = 0; i < 2; i++) close_side(&sides[i]);
  return 0;
}
