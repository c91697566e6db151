#include "sim/cli/command_line.h"
#include "sim/cli/machine_builder.h"

int main(int argc, char** argv) {
  return understudy::cli::run_command_line(argc, argv, &understudy::cli::compose_machine);
}
