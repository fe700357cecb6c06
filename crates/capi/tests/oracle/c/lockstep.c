/* The loop over a script. */
#include "lockstep.h"

#include <dlfcn.h>

static const struct operation* const ALL[] = {READS, WRITES, BATCHES, ITERATIONS,
                                              FILES, OPTIONS, DATABASES};
enum { TABLES = sizeof ALL / sizeof *ALL };

#ifdef LINKED

/* The program is linked with the only library. */
static void load(struct side* side, const char* library) {
  (void)library;
#define SYMBOL(name) side->call.name = name;
  FUNCTIONS(SYMBOL)
}

#else

static void load(struct side* side, const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
#define SYMBOL(name)                                      \
  *(void**)&side->call.name = dlsym(handle, #name);       \
  if (!side->call.name) {                                 \
    fprintf(stderr, "%s has no " #name "\n", library);    \
    exit(2);                                              \
  }
  FUNCTIONS(SYMBOL)
}

#endif

static const struct operation* find(const char* name) {
  for (int i = 0; i < TABLES; i++) {
    for (const struct operation* at = ALL[i]; at->name; at++) {
      if (strcmp(at->name, name) == 0) return at;
    }
  }
  fprintf(stderr, "unknown operation %s\n", name);
  exit(2);
}

static void configure(const int* n) {
  configuration = (struct configuration){
      .comparator = n[0] % 4 == 0,
      .prefix = n[0] % 4 == 0 ? 0 : n[1] % 5,
      .filter = n[2] % 5,
      .compression = n[3] % 6,
      .levels = 2 + n[3] / 6 % 6,
      .merge = n[4] % 3,
      .automatic = n[5] % 2,
      .table = n[6],
      .various = n[7],
  };
  configuration.unlogged = n[5] % 6 == 4;
  configuration.manual_wal_flush = n[7] % 17 == 0;
  configuration.rows = n[7] % 6 == 2;
  configuration.paths = n[5] % 10 == 7 ? 1 : n[5] % 10 == 9 ? 2 : 0;
  configuration.compaction_filter = n[5] % 8 == 6 && configuration.merge != 2;
}

static int differ(struct side sides[2], const char* line, int number) {
  int different = strcmp(sides[0].output, sides[1].output) != 0;
  if (different) {
    const char *ours = sides[0].output, *theirs = sides[1].output;
    size_t same = 0;
    while (ours[same] == theirs[same]) same++;
    if (getenv("LOCKSTEP_VERBOSE")) fprintf(stderr, "ours:\n%s\ntheirs:\n%s\n", ours, theirs);
    size_t from = same > 200 ? same - 200 : 0;
    fprintf(stderr, "line %d, %s\n  ours:   %.500s\n  theirs: %.500s\n", number, line,
            ours + from, theirs + from);
  }
  for (int i = 0; i < 2; i++) {
    sides[i].used = 0;
    sides[i].output[0] = 0;
  }
  return different;
}

static void destroy_side(struct side* side) {
  destroy_objects(side);
  if (side->comparator) CALL(comparator_destroy)(side->comparator);
  if (side->compaction_filter) CALL(compactionfilter_destroy)(side->compaction_filter);
  if (side->env) {
    CALL(env_lower_thread_pool_cpu_priority)(side->env);
    CALL(env_lower_high_priority_thread_pool_cpu_priority)(side->env);
    CALL(env_destroy)(side->env);
  }
}

int lockstep(const char* const* script, const char* ours, const char* theirs,
             const char* directory) {
  static struct side sides[2];
  for (int i = 0; i < 2; i++) {
    struct side* side = &sides[i];
    side->number = i;
    snprintf(side->path, sizeof side->path, "%s/%s", directory, i == 0 ? "ours" : "theirs");
    load(side, i == 0 ? ours : theirs);
    create_objects(side);
  }
  int number = 0;
  for (; script[number]; number++) {
    const char* line = script[number];
    char name[64];
    int n[NUMBERS] = {0};
    if (sscanf(line, "%63s %d %d %d %d %d %d %d %d", name, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
               &n[6], &n[7]) < 1) {
      continue;
    }
    if (strcmp(name, "options") == 0) {
      configure(n);
      for (int i = 0; i < 2; i++) open_side(&sides[i]);
    } else {
      const struct operation* operation = find(name);
      for (int i = 0; i < 2; i++) operation->run(&sides[i], n);
    }
    if (differ(sides, line, number)) return 3;
  }
  for (int i = 0; i < 2; i++) dump(&sides[i]);
  if (differ(sides, "the contents", number)) return 3;
  /* Each library opens the other's database. */
  for (int i = 0; i < 2; i++) close_side(&sides[i]);
  char path[sizeof sides[0].path];
  memcpy(path, sides[0].path, sizeof path);
  memcpy(sides[0].path, sides[1].path, sizeof path);
  memcpy(sides[1].path, path, sizeof path);
  for (int i = 0; i < 2; i++) {
    open_side(&sides[i]);
    dump(&sides[i]);
  }
  if (differ(sides, "the contents of the other's database", number)) return 3;
  for (int i = 0; i < 2; i++) {
    close_side(&sides[i]);
    destroy_side(&sides[i]);
  }
  return 0;
}

void print_operations(void) {
  for (int i = 0; i < TABLES; i++) {
    for (const struct operation* at = ALL[i]; at->name; at++) printf("%s %d\n", at->name, at->weight);
  }
}

void run_alone(const int numbers[NUMBERS], const int (*calls)[CALL_NUMBERS], size_t count,
               const char* directory) {
  static struct side only;
  struct side* side = &only;
  memset(side, 0, sizeof *side);
  snprintf(side->path, sizeof side->path, "%s/database", directory);
  load(side, NULL);
  create_objects(side);
  configure(numbers);
  open_side(side);
  for (size_t i = 0; i < count; i++) {
    int operations = 0;
    for (int t = 0; t < TABLES; t++) {
      for (const struct operation* at = ALL[t]; at->name; at++) operations++;
    }
    int chosen = calls[i][0] % operations;
    for (int t = 0; t < TABLES; t++) {
      for (const struct operation* at = ALL[t]; at->name; at++) {
        if (chosen-- == 0) at->run(side, &calls[i][1]);
      }
    }
    side->used = 0;
  }
  dump(side);
  close_side(side);
  destroy_side(side);
}
