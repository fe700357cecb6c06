/* usage: lockstep OURS THEIRS DIRECTORY < SCRIPT
 *        lockstep                           prints the operations, each with its weight */
#include "lockstep.h"

#include <unistd.h>

int main(int count, char** arguments) {
  enum { LINES = 10000, LENGTH = 200 };
  static char lines[LINES][LENGTH];
  static const char* script[LINES + 1];
  if (count == 1) {
    print_operations();
    return 0;
  }
  if (count != 4) return 2;
  /* Both libraries have calls that wait for background work. SIGALRM ends one that waits forever. */
  alarm(60);
  int number = 0;
  for (; number < LINES && fgets(lines[number], LENGTH, stdin); number++) {
    lines[number][strcspn(lines[number], "\n")] = 0;
    script[number] = lines[number];
  }
  int status = lockstep(script, arguments[1], arguments[2], arguments[3]);
  /* After a difference, databases are open. RocksDB does not survive that at an exit. */
  fflush(NULL);
  _exit(status);
}
