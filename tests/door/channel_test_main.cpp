// With UNDERSTUDY_TEST_DENY_MEMORY set, the server may not look at its clients' memory.
#include <gtest/gtest.h>

#include "tests/door/deny_memory.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (std::getenv("UNDERSTUDY_TEST_DENY_MEMORY") != nullptr) understudy::test::deny_memory_of_others();
  return RUN_ALL_TESTS();
}
