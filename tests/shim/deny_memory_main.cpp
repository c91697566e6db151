// Runs a command that may not use process_vm_readv and process_vm_writev, nor may its children.
#include <unistd.h>

#include "tests/door/deny_memory.h"

int main(int, char** argv) {
  understudy::test::deny_memory_of_others();
  ::setenv("UNDERSTUDY_TEST_DENY_MEMORY", "1", 1);
  ::execvp(argv[1], argv + 1);
  return 127;
}
