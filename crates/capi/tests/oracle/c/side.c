/* What operations print, and the keys, values and read options that they use. */
#include "lockstep.h"

#include <stdarg.h>

struct configuration configuration;
const char* const FAMILY_NAMES[FAMILIES] = {"default", "one", "two"};

void print(struct side* side, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = OUTPUT - side->used;
  int written = vsnprintf(side->output + side->used, room, format, arguments);
  va_end(arguments);
  if (written > 0) side->used += (size_t)written < room ? (size_t)written : room - 1;
}

void print_bytes(struct side* side, const char* bytes, size_t length) {
  if (bytes == NULL) {
    print(side, "NULL ");
    return;
  }
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
  print(side, "%zu:", length);
  for (size_t i = 0; i < length && i < 24; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte >= 33 && byte < 127) {
      print(side, "%c", byte);
    } else {
      print(side, "\\%02x", byte);
    }
  }
  if (length > 24) print(side, "..%08x", hash);
  print(side, " ");
}

void print_error(struct side* side, char* error) {
  if (error == NULL) return;
  if (strstr(error, " panicked: ")) {
    fprintf(stderr, "%s\n", error);
    abort();
  }
  const char* end = strstr(error, ": ");
  print(side, "error %.*s ", end ? (int)(end - error) : (int)strlen(error), error);
  if (getenv("LOCKSTEP_VERBOSE")) fprintf(stderr, "%s: %s\n", side->path, error);
  CALL(free)(error);
}

int compares_sequences(const struct side* side) {
  return !(configuration.automatic && side->ingested);
}

/* Some keys are a prefix of others, and one is empty. */
size_t key_of(int number, char* key) {
  number %= KEYS;
  if (number == 0) return 0;
  return (size_t)sprintf(key, "%c%c%0*d", 'a' + number % 3, 'a' + number % 2, number % 5, number);
}

size_t value_of(int number, char* value) {
  if (configuration.merge == 2) {
    /* Numbers for the merge operator that adds them, and a few values of other lengths. */
    size_t length = number % 13 == 0 ? (size_t)(number % 7) : 8;
    memset(value, 0, 8);
    value[0] = (char)number;
    value[number % 8] = (char)(number * 7);
    return length;
  }
  size_t length = number % 7 == 0 ? 0 : (size_t)(number * 37 % 300);
  for (size_t i = 0; i < length; i++) value[i] = (char)('A' + (number + (int)i) % 26);
  return length;
}

int compare_keys(const char* a, size_t a_length, const char* b, size_t b_length) {
  int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
  if (order == 0) order = a_length < b_length ? -1 : a_length > b_length;
  return configuration.comparator ? -order : order;
}

/* Returns read options, whose effects on a read of single keys is only the snapshot. */
rocksdb_readoptions_t* read_options(struct side* side, int number) {
  rocksdb_readoptions_t* reads = CALL(readoptions_create)();
  if (number % 4) CALL(readoptions_set_snapshot)(reads, side->snapshots[number % SNAPSHOTS]);
  CALL(readoptions_set_fill_cache)(reads, (unsigned char)(number / 4 % 2));
  CALL(readoptions_set_verify_checksums)(reads, (unsigned char)(number / 8 % 2));
  CALL(readoptions_set_background_purge_on_iterator_cleanup)(reads, number / 16 % 2);
  CALL(readoptions_set_readahead_size)(reads, number / 32 % 2 ? 1 << 16 : 0);
  CALL(readoptions_set_pin_data)(reads, number / 64 % 2);
  return reads;
}
