// The understudy program with two devices: the test node and its like under an owned name.
#include "sim/cli/command_line.h"
#include "tests/door/test_node.h"

int main(int argc, char** argv) {
  return understudy::cli::run_command_line(
      argc, argv, [](understudy::Machine& machine, const understudy::cli::MachineDescription&) {
        understudy::test::add_test_device(machine);
        understudy::test::add_test_accelerator(machine);
      });
}
