/* Whose comparators, merge operators and filters a column family uses, and how long they live. */
#include "test.h"

/* An object of the program: its name, and how often it was called and destroyed. */
typedef struct {
  const char* name;
  char mark;
  int calls;
  int destroyed;
} Object;

static const char* name(void* state) { return ((Object*)state)->name; }

static void destroy(void* state) { ++((Object*)state)->destroyed; }

static unsigned char count(void* state, int level, const char* key, size_t key_length,
                           const char* value, size_t value_length, char** new_value,
                           size_t* new_length, unsigned char* value_changed) {
  ++((Object*)state)->calls;
  return 0;
}

/* The mark of the object. */
static char* merge(void* state, const char* key, size_t key_length, const char* existing,
                   size_t existing_length, const char* const* operands, const size_t* lengths,
                   int operand_count, unsigned char* success, size_t* new_length) {
  char* result = malloc(1);
  *result = ((Object*)state)->mark;
  *success = 1;
  *new_length = 1;
  return result;
}

static char* partial_merge(void* state, const char* key, size_t key_length,
                           const char* const* operands, const size_t* lengths, int operand_count,
                           unsigned char* success, size_t* new_length) {
  *success = 0;
  *new_length = 0;
  return NULL;
}

static int backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  size_t shorter = alen < blen ? alen : blen;
  int order = memcmp(a, b, shorter);
  if (order == 0) order = alen < blen ? -1 : alen > blen;
  return -order;
}

static rocksdb_compactionfilter_t* filter(Object* object) {
  return rocksdb_compactionfilter_create(object, destroy, count, name);
}

static rocksdb_options_t* creating(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  return options;
}

static void compact(rocksdb_t* db, rocksdb_column_family_handle_t* family) {
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_put_cf(db, writes, family, "k", 1, "v", 1, &error);
  OK();
  rocksdb_writeoptions_destroy(writes);
  rocksdb_compact_range_cf(db, family, NULL, 0, NULL, 0);
}

/* Objects in the options of the database are not used if families have options of their own. */
static void of_the_database(void) {
  Object of_database = {.name = "test.Filter"}, of_family = {.name = "test.Filter"};
  rocksdb_compactionfilter_t *first = filter(&of_database), *second = filter(&of_family);
  rocksdb_options_t *options = creating(), *family_options = rocksdb_options_create();
  rocksdb_options_set_compaction_filter(options, first);
  rocksdb_options_set_compaction_filter(family_options, second);
  const char* names[1] = {"default"};
  const rocksdb_options_t* all[1] = {family_options};
  rocksdb_column_family_handle_t* families[1];
  rocksdb_t* db = rocksdb_open_column_families(options, "database", 1, names, all, families, &error);
  OK();
  rocksdb_options_destroy(options);
  rocksdb_compactionfilter_destroy(first);
  CHECK(of_database.destroyed == 1);
  compact(db, families[0]);
  CHECK(of_database.calls == 0 && of_family.calls > 0);
  rocksdb_column_family_handle_destroy(families[0]);
  rocksdb_close(db);
  rocksdb_options_destroy(family_options);
  rocksdb_compactionfilter_destroy(second);
}

static rocksdb_options_t* merging(Object* object) {
  rocksdb_options_t* options = creating();
  rocksdb_options_set_create_missing_column_families(options, 1);
  rocksdb_options_set_merge_operator(
      options,
      rocksdb_mergeoperator_create(object, destroy, merge, partial_merge, NULL, name));
  return options;
}

static void check_merge(rocksdb_t* db, rocksdb_column_family_handle_t* family, const char* mark) {
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  rocksdb_merge_cf(db, writes, family, "m", 1, "x", 1, &error);
  OK();
  size_t length;
  char* value = rocksdb_get_cf(db, reads, family, "m", 1, &length, &error);
  OK();
  CHECK(same(value, length, mark));
  rocksdb_free(value);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
}

/* Two families have different objects with the same name. */
static void of_families(void) {
  Object a = {.name = "test.Merge", .mark = 'a'}, b = {.name = "test.Merge", .mark = 'b'};
  Object c = {.name = "test.Merge", .mark = 'c'}, d = {.name = "test.Merge", .mark = 'd'};
  rocksdb_options_t *options[2] = {merging(&a), merging(&b)};
  const char* names[2] = {"default", "other"};
  rocksdb_column_family_handle_t* families[2];
  rocksdb_t* db = rocksdb_open_column_families(options[0], "families", 2, names,
                                               (const rocksdb_options_t* const*)options, families,
                                               &error);
  OK();
  check_merge(db, families[0], "a");
  check_merge(db, families[1], "b");
  rocksdb_options_t *third = merging(&c), *fourth = merging(&d);
  rocksdb_column_family_handle_t* later = rocksdb_create_column_family(db, third, "later", &error);
  OK();
  check_merge(db, later, "c");
  /* A family with the name of a dropped one does not get its objects. */
  rocksdb_drop_column_family(db, later, &error);
  OK();
  rocksdb_column_family_handle_destroy(later);
  rocksdb_options_destroy(third);
  later = rocksdb_create_column_family(db, fourth, "later", &error);
  OK();
  check_merge(db, later, "d");
  rocksdb_column_family_handle_destroy(later);
  rocksdb_options_destroy(fourth);
  for (int at = 0; at < 2; at++) {
    rocksdb_column_family_handle_destroy(families[at]);
    rocksdb_options_destroy(options[at]);
  }
  rocksdb_close(db);
  CHECK(a.destroyed == 1 && b.destroyed == 1 && c.destroyed == 1 && d.destroyed == 1);
}

/* Each family has the block cache of its options. */
static void block_caches(void) {
  const char* names[2] = {"default", "other"};
  rocksdb_cache_t* caches[2];
  rocksdb_options_t* options[2];
  rocksdb_column_family_handle_t* families[2];
  for (int at = 0; at < 2; at++) {
    caches[at] = rocksdb_cache_create_lru((size_t)(at + 1) << 20);
    rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, caches[at]);
    rocksdb_block_based_options_set_block_cache(table, NULL);
    options[at] = creating();
    rocksdb_options_set_create_missing_column_families(options[at], 1);
    rocksdb_options_set_block_based_table_factory(options[at], table);
    rocksdb_block_based_options_destroy(table);
  }
  rocksdb_t* db = rocksdb_open_column_families(options[0], "caches", 2, names,
                                               (const rocksdb_options_t* const*)options, families,
                                               &error);
  OK();
  rocksdb_column_family_handle_t* later =
      rocksdb_create_column_family(db, options[1], "later", &error);
  OK();
  uint64_t capacity;
  for (uint64_t at = 0; at < 2; at++) {
    rocksdb_property_int_cf(db, families[at], "rocksdb.block-cache-capacity", &capacity);
    CHECK(capacity == (at + 1) << 20);
    rocksdb_column_family_handle_destroy(families[at]);
    rocksdb_options_destroy(options[at]);
  }
  rocksdb_property_int_cf(db, later, "rocksdb.block-cache-capacity", &capacity);
  CHECK(capacity == 2 << 20);
  rocksdb_column_family_handle_destroy(later);
  rocksdb_close(db);
  rocksdb_cache_destroy(caches[0]);
  rocksdb_cache_destroy(caches[1]);
}

/* Names that options cannot hold are refused. */
static void names_of_objects(void) {
  const char* names[] = {"order=desc", "", "nullptr", "{a}"};
  for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
    Object object = {.name = names[at]};
    rocksdb_comparator_t* comparator =
        rocksdb_comparator_create(&object, destroy, backwards, name);
    rocksdb_options_t* options = creating();
    rocksdb_options_set_comparator(options, comparator);
    CHECK(rocksdb_open(options, "named", &error) == NULL);
    FAILED("Invalid argument: the name '");
    rocksdb_options_destroy(options);
    rocksdb_comparator_destroy(comparator);
    CHECK(object.destroyed == 1);
  }
}

/* Options do not keep comparators and filters alive. */
static void destructors(void) {
  Object object = {.name = "test.Filter"};
  rocksdb_compactionfilter_t* created = filter(&object);
  rocksdb_options_t* options = creating();
  rocksdb_options_set_compaction_filter(options, created);
  rocksdb_t* db = rocksdb_open(options, "destroyed", &error);
  OK();
  rocksdb_options_t* copy = rocksdb_options_create_copy(options);
  rocksdb_close(db);
  CHECK(object.destroyed == 0);
  rocksdb_compactionfilter_destroy(created);
  CHECK(object.destroyed == 1);
  CHECK(rocksdb_open(copy, "destroyed", &error) == NULL);
  FAILED("Invalid argument: the compaction filter was destroyed");
  rocksdb_options_destroy(copy);
  rocksdb_options_destroy(options);
  CHECK(object.destroyed == 1);
}

/* The comparator of a table is that of the options. */
static void of_tables(void) {
  Object object = {.name = "test.Backwards"};
  rocksdb_comparator_t* comparator = rocksdb_comparator_create(&object, destroy, backwards, name);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer =
      rocksdb_sstfilewriter_create_with_comparator(env, options, comparator);
  rocksdb_sstfilewriter_open(writer, "table", &error);
  OK();
  rocksdb_sstfilewriter_put(writer, "a", 1, "1", 1, &error);
  rocksdb_sstfilewriter_put(writer, "b", 1, "2", 1, &error);
  OK();
  rocksdb_sstfilewriter_finish(writer, &error);
  OK();
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(env);
  rocksdb_options_destroy(options);
  rocksdb_comparator_destroy(comparator);
}

int main(void) {
  of_the_database();
  of_families();
  block_caches();
  names_of_objects();
  destructors();
  of_tables();
  return 0;
}
