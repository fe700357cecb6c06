/* Comparators, merge operators, compaction filters and prefix extractors of the program. */
#include "test.h"

static int destroyed[5];

static void destroy(void* state) { ++*(int*)state; }

static int compare_backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  size_t shorter = alen < blen ? alen : blen;
  int order = memcmp(a, b, shorter);
  if (order == 0) order = alen < blen ? -1 : alen > blen;
  return -order;
}

static const char* comparator_name(void* state) { return "test.Backwards"; }

/* Joins the operands, after "none" or the existing value in brackets. */
static char* full_merge(void* state, const char* key, size_t key_length, const char* existing,
                        size_t existing_length, const char* const* operands, const size_t* lengths,
                        int count, unsigned char* success, size_t* new_length) {
  if (key_length == 4 && memcmp(key, "fail", 4) == 0) {
    *success = 0;
    return NULL;
  }
  char* result = malloc(1000);
  size_t length = 0;
  if (existing == NULL) {
    length = (size_t)sprintf(result, "none");
  } else {
    length = (size_t)sprintf(result, "(%.*s)", (int)existing_length, existing);
  }
  for (int i = 0; i < count; i++) {
    memcpy(result + length, operands[i], lengths[i]);
    length += lengths[i];
  }
  *success = 1;
  *new_length = length;
  return result;
}

static char* partial_merge(void* state, const char* key, size_t key_length,
                           const char* const* operands, const size_t* lengths, int count,
                           unsigned char* success, size_t* new_length) {
  *success = 0;
  *new_length = 0;
  return NULL;
}

static int deleted_values, deleted_nulls;

static void delete_value(void* state, const char* value, size_t length) {
  if (value == NULL) ++deleted_nulls;
  ++deleted_values;
  free((char*)value);
}

static const char* merge_name(void* state) { return "test.Join"; }

static char changed[] = "changed";

static unsigned char filter(void* state, int level, const char* key, size_t key_length,
                            const char* value, size_t value_length, char** new_value,
                            size_t* new_length, unsigned char* value_changed) {
  if (key_length > 0 && key[0] == 'r') return 1;
  if (key_length > 0 && key[0] == 'c') {
    *new_value = changed;
    *new_length = strlen(changed);
    *value_changed = 1;
  }
  return 0;
}

static const char* filter_name(void* state) { return "test.Filter"; }

static char* transform(void* state, const char* key, size_t length, size_t* prefix_length) {
  *prefix_length = 2;
  return (char*)key;
}

static unsigned char in_domain(void* state, const char* key, size_t length) { return length >= 2; }

static const char* transform_name(void* state) { return "test.TwoBytes"; }

static void check_order(rocksdb_t* db) {
  put(db, "a", "");
  put(db, "b", "");
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, reads);
  rocksdb_iter_seek_to_first(iter);
  size_t length;
  const char* key = rocksdb_iter_key(iter, &length);
  CHECK(same(key, length, "b"));
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(reads);
}

static void comparators(void) {
  rocksdb_comparator_t* comparator =
      rocksdb_comparator_create(&destroyed[0], destroy, compare_backwards, comparator_name);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_comparator(options, comparator);
  rocksdb_t* db = rocksdb_open(options, "ordered", &error);
  OK();
  check_order(db);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  options = rocksdb_options_create();
  CHECK(rocksdb_open(options, "ordered", &error) == NULL);
  FAILED("Invalid argument: ");
  rocksdb_options_destroy(options);
  CHECK(destroyed[0] == 0);
  rocksdb_comparator_destroy(comparator);
  CHECK(destroyed[0] == 1);
}

static void merge_operators(void) {
  rocksdb_mergeoperator_t* operator= rocksdb_mergeoperator_create(
      &destroyed[1], destroy, full_merge, partial_merge, delete_value, merge_name);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  /* The options own the operator from here on. */
  rocksdb_options_set_merge_operator(options, operator);
  rocksdb_t* db = rocksdb_open(options, "merged", &error);
  OK();
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_merge(db, writes, "k", 1, "a", 1, &error);
  rocksdb_merge(db, writes, "k", 1, "b", 1, &error);
  OK();
  check_get(db, "k", "noneab");
  put(db, "e", "");
  rocksdb_merge(db, writes, "e", 1, "x", 1, &error);
  OK();
  check_get(db, "e", "()x");
  rocksdb_merge(db, writes, "fail", 4, "x", 1, &error);
  OK();
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  size_t length;
  CHECK(rocksdb_get(db, reads, "fail", 4, &length, &error) == NULL);
  FAILED("Corruption: Merge operator failed");
  CHECK(deleted_values > 0 && deleted_nulls > 0);
  /* A family that is created later has an operator of its own. */
  rocksdb_options_t* later = rocksdb_options_create();
  rocksdb_options_set_uint64add_merge_operator(later);
  rocksdb_column_family_handle_t* family =
      rocksdb_create_column_family(db, later, "counters", &error);
  OK();
  uint64_t number = 5;
  rocksdb_merge_cf(db, writes, family, "n", 1, (char*)&number, 8, &error);
  rocksdb_merge_cf(db, writes, family, "n", 1, (char*)&number, 8, &error);
  OK();
  char* sum = rocksdb_get_cf(db, reads, family, "n", 1, &length, &error);
  OK();
  memcpy(&number, sum, 8);
  CHECK(length == 8 && number == 10);
  rocksdb_free(sum);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_options_destroy(later);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_options_destroy(options);
  CHECK(destroyed[1] == 0);
  rocksdb_close(db);
  CHECK(destroyed[1] == 1);
}

static void filters(void) {
  rocksdb_compactionfilter_t* object =
      rocksdb_compactionfilter_create(&destroyed[2], destroy, filter, filter_name);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compaction_filter(options, object);
  rocksdb_t* db = rocksdb_open(options, "filtered", &error);
  OK();
  put(db, "c", "1");
  put(db, "k", "2");
  put(db, "r", "3");
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  check_get(db, "c", "changed");
  check_get(db, "k", "2");
  check_get(db, "r", NULL);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  CHECK(destroyed[2] == 0);
  rocksdb_compactionfilter_destroy(object);
  CHECK(destroyed[2] == 1);
}

static void prefixes(void) {
  rocksdb_slicetransform_t* extractor =
      rocksdb_slicetransform_create(&destroyed[3], destroy, transform, in_domain, transform_name);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_prefix_extractor(options, extractor);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom(10));
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_block_based_options_destroy(table);
  rocksdb_t* db = rocksdb_open(options, "prefixed", &error);
  OK();
  put(db, "aa1", "1");
  put(db, "ab1", "2");
  put(db, "ab2", "3");
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_readoptions_set_prefix_same_as_start(reads, 1);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, reads);
  rocksdb_iter_seek(iter, "aa", 2);
  CHECK(rocksdb_iter_valid(iter));
  rocksdb_iter_next(iter);
  CHECK(!rocksdb_iter_valid(iter));
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(reads);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  CHECK(destroyed[3] == 1);
  /* Programs that were built with a header before 11.0 pass six arguments. */
  typedef rocksdb_slicetransform_t* (*older)(void*, void (*)(void*),
                                             char* (*)(void*, const char*, size_t, size_t*),
                                             unsigned char (*)(void*, const char*, size_t), void*,
                                             const char* (*)(void*));
  volatile older create_with_six = (older)(void (*)(void))rocksdb_slicetransform_create;
  extractor =
      create_with_six(&destroyed[4], destroy, transform, in_domain, NULL, transform_name);
  CHECK(extractor != NULL);
  rocksdb_slicetransform_destroy(extractor);
  CHECK(destroyed[4] == 1);
}

int main(void) {
  comparators();
  merge_operators();
  filters();
  prefixes();
  return 0;
}
