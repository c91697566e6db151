#include "sim/cli/command_line.h"

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "sim/cli/commands.h"
#include "sim/cli/host_checks.h"
#include "sim/cli/machine_file.h"
#include "sim/cli/say.h"
#include "sim/cli/settings_table.h"
#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

constexpr const char* kDescription =
    "Understudy plays the parts of three Linux kernel drivers - KFD with the amdgpu render node, amdxdna "
    "and\n"
    "virtio-gpu - so that unmodified ROCm programs run on machines without the hardware.";

constexpr const char* kExamples =
    "Examples:\n"
    "  understudy run --gpu gfx90a -- rocminfo              one GPU\n"
    "  understudy run --gpu gfx90a:4 -- rocm-smi            four GPUs with their links\n"
    "  understudy run --gpu gfx942 --npu npu4 -- ./test     a GPU and an NPU\n"
    "  understudy run --machine lab.toml --set limits.vram=\"2 GiB\" -- ./test\n"
    "  understudy serve lab --gpu gfx90a --background       a machine for many commands:\n"
    "  understudy exec lab -- rocminfo                        ... used\n"
    "  understudy stop lab                                    ... and stopped\n"
    "  understudy doctor                                    what this host allows\n";

// The words of the command line before and after the first "--".
struct Words {
  std::vector<std::string> own;
  std::vector<std::string> command;
  bool separated = false;
};

Words split(int argc, char** argv) {
  Words words;
  for (int i = 1; i < argc; ++i) {
    if (words.separated) {
      words.command.emplace_back(argv[i]);
    } else if (std::string_view(argv[i]) == "--") {
      words.separated = true;
    } else {
      words.own.emplace_back(argv[i]);
    }
  }
  return words;
}

// The flags of run and serve, as written.
struct MachineFlags {
  std::vector<std::string> gpu, npu, host_gpu, set, require;
  std::vector<std::string> faults, traces, fail_on, suppress;
  std::string trace_call, trace_node;
  bool trace_failures = false, statistics = false, leaks = false;
  std::string virtio_gpu, machine_file, door = "auto", dispatch, seed, mount, report;
  bool cpu_only = false, json = false, verbose = false;

  void add_to(CLI::App& command) {
    command
        .add_option("--gpu", gpu,
                    "GPUs: PROFILE[:N][,PROFILE[:N]...], e.g. gfx90a:2 (see: understudy profiles)")
        ->allow_extra_args(false);
    command.add_option("--npu", npu, "NPUs, likewise, e.g. npu4")->allow_extra_args(false);
    command.add_option("--virtio-gpu", virtio_gpu,
                       "a virtio-gpu: 2d, gl or rocm, and device properties (rocm,hostmem=8G)");
    command.add_option("--host-gpu", host_gpu, "GPUs of the host behind the virtio-gpu")
        ->allow_extra_args(false);
    command.add_flag("--cpu-only", cpu_only, "/dev/kfd on a machine without any GPU");
    command.add_option("--machine", machine_file,
                       "machine file (TOML): devices and settings; flags add to it");
    command.add_option("--set", set, "KEY=VALUE: one setting, over the machine file's (list below)")
        ->allow_extra_args(false);
    command.add_option("--seed", seed, "what is chosen by chance follows this number; the report prints it");
    command
        .add_option(
            "--dispatch", dispatch,
            "shader dispatches end in the driver's queue error, or are skipped with a warning: error, skip")
        ->check(CLI::IsMember({"error", "skip"}));
    command
        .add_option(
            "--door", door,
            "how clients reach the machine: auto (fuse where it works, else socket), fuse, socket, cuse")
        ->check(CLI::IsMember({"auto", "fuse", "socket", "cuse"}));
    command.add_option("--mount", mount,
                       "mount the tree (dev/, sys/) at this empty directory, too, for programs "
                       "without the shim");
    command
        .add_option("--require", require,
                    fmt::format("fail when this host has it not: {} (comma-separated)",
                                fmt::join(host_check_names(), ", ")))
        ->delimiter(',')
        ->allow_extra_args(false);
    command.add_option("--faults", faults, "fault plan (TOML): what to break, and when; may be repeated")
        ->allow_extra_args(false);
    command
        .add_option(
            "--trace", traces,
            "write every call, decoded, to FILE ('-': stderr); .json is Perfetto's format, .jsonl one object "
            "a line, else text; FILE:text, FILE:json, FILE:perfetto choose")
        ->allow_extra_args(false);
    command.add_option("--trace-call", trace_call, "trace only calls whose name matches this glob");
    command.add_option("--trace-node", trace_node, "trace only nodes whose name matches this glob");
    command.add_flag("--trace-failures", trace_failures, "trace only calls that fail");
    command.add_flag("--leaks", leaks, "list what CMD never gave back, with the calls that made it");
    command.add_flag("--stats", statistics, "print calls, errors and times per ioctl at the end");
    command
        .add_option(
            "--fail-on", fail_on,
            "exit with 3 when CMD succeeded but there are such findings: leak, double-destroy, ... or all")
        ->allow_extra_args(false);
    command.add_option("--suppress", suppress, "file of globs: findings ('kind: text') not to speak of")
        ->allow_extra_args(false);
    command.add_option("--report", report, "write the report at the end to this file instead of stderr");
    command.add_flag("--json", json, "the report as JSON, also when there is nothing to report");
    command.add_flag("-v,--verbose", verbose, "say which door was taken, and where the machine's root is");
    std::string settings =
        "Settings (--set KEY=VALUE, or in the machine file as KEY = VALUE with tables for the dots):\n";
    for (const auto& [key, accepted] : setting_help())
      settings += fmt::format("  {:<32} {}\n", key, accepted);
    command.footer(settings);
  }

  MachineOptions resolve(const MachineComposer& compose) const {
    MachineOptions options;
    options.plan.compose = compose;
    MachineDescription& machine = options.plan.description;
    if (!machine_file.empty()) read_machine_file(machine_file, machine);
    const auto add = [](std::string_view flag, const std::vector<std::string>& lists,
                        std::vector<DeviceRequest>& to) {
      for (const std::string& list : lists) {
        for (DeviceRequest& request : parse_device_list(flag, list)) to.push_back(std::move(request));
      }
    };
    add("--gpu", gpu, machine.gpus);
    add("--npu", npu, machine.npus);
    add("--host-gpu", host_gpu, machine.host_gpus);
    if (!virtio_gpu.empty()) machine.virtio_gpu = virtio_gpu;
    if (cpu_only) machine.cpu_only = true;
    for (const std::string& assignment : set) apply_set_flag(assignment, machine);
    if (!seed.empty()) apply_set_flag("seed=" + seed, machine);
    if (!dispatch.empty()) apply_set_flag("dispatch=" + dispatch, machine);
    if (machine.cpu_only && !machine.gpus.empty())
      throw UsageError("--cpu-only and --gpu exclude each other");
    for (const std::string& name : require) {
      const auto known = host_check_names();
      if (std::find(known.begin(), known.end(), name) == known.end())
        throw UsageError(fmt::format("--require {}: unknown (known: {})", name, fmt::join(known, ", ")));
    }
    options.required = require;
    options.plan.door = door == "fuse"     ? DoorChoice::kFuse
                        : door == "socket" ? DoorChoice::kSocket
                        : door == "cuse"   ? DoorChoice::kCuse
                                           : DoorChoice::kAuto;
    options.plan.mount_point = mount;
    options.plan.report_as_json = json;
    resolve_observation(options.plan.observation);
    options.report_file = report;
    options.verbose = verbose;
    return options;
  }

  void resolve_observation(ObservationPlan& plan) const {
    for (const std::string& path : faults) plan.add_faults(path);
    for (const std::string& output : traces) plan.add_trace(output);
    if (!trace_call.empty()) plan.filter.call = trace_call;
    if (!trace_node.empty()) plan.filter.node = trace_node;
    plan.filter.failures_only = trace_failures;
    plan.statistics = statistics;
    plan.list_leaks = leaks;
    for (const std::string& kinds : fail_on) plan.add_fail_on(kinds);
    for (const std::string& path : suppress) plan.add_suppressions(path);
  }
};

void check_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' || letter == '_' ||
           letter == '.';
  });
  if (name.empty() || !plain || name[0] == '.' || name[0] == '-' || name.starts_with("run-"))
    throw UsageError(
        fmt::format("'{}' is no name for a machine: use letters, digits, '-', '_' and '.', and do not begin "
                    "with 'run-'",
                    name));
}

int dispatch(int argc, char** argv, const MachineComposer& compose) {
  Words words = split(argc, argv);
  CLI::App app(kDescription, "understudy");
  app.set_version_flag("--version", std::string("understudy ") + UNDERSTUDY_VERSION);
  app.require_subcommand(1);
  app.footer(kExamples);
  app.get_formatter()->column_width(28);

  MachineFlags run_flags, serve_flags;
  CLI::App* run =
      app.add_subcommand("run", "run -- CMD...: start a machine, run CMD on it, and take it down again");
  run_flags.add_to(*run);
  run->prefix_command();
  std::string serve_name, exec_name, stop_name, profile_name, inject_name, inject_file, ledger_name;
  bool background = false;
  CLI::App* serve = app.add_subcommand("serve", "serve NAME: keep a machine up for many commands");
  serve->add_option("NAME", serve_name, "what exec and stop will call it")->required();
  serve->add_flag("--background", background, "return once the machine is up");
  serve_flags.add_to(*serve);
  CLI::App* exec = app.add_subcommand("exec", "exec NAME -- CMD...: run CMD on a machine that is up");
  exec->add_option("NAME", exec_name, "as given to serve")->required();
  exec->prefix_command();
  CLI::App* ps = app.add_subcommand("ps", "list the machines that are up");
  CLI::App* stop = app.add_subcommand("stop", "stop NAME: take a machine down and print its report");
  stop->add_option("NAME", stop_name, "as given to serve")->required();
  CLI::App* inject =
      app.add_subcommand("inject", "inject NAME FILE: add a fault plan to a machine that is up");
  inject->add_option("NAME", inject_name, "as given to serve")->required();
  inject->add_option("FILE", inject_file, "the fault plan (TOML)")->required();
  CLI::App* ledger = app.add_subcommand("ledger", "ledger NAME: what is alive on a machine, and who made it");
  ledger->add_option("NAME", ledger_name, "as given to serve")->required();
  CLI::App* profiles = app.add_subcommand("profiles", "list the device profiles, or show one");
  profiles->add_option("NAME", profile_name, "the profile to show");
  CLI::App* doctor =
      app.add_subcommand("doctor", "try what machines need of this host, and say how to get it");

  std::vector<std::string> reversed(words.own.rbegin(), words.own.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    const auto known = app.get_subcommands([](const CLI::App*) { return true; });
    const std::string word = words.own.empty() ? "-" : words.own[0];
    if (word[0] != '-' && std::none_of(known.begin(), known.end(), [&word](const CLI::App* command) {
          return command->get_name() == word;
        }))
      throw UsageError(fmt::format("unknown command '{}' (understudy --help lists them)", word));
    throw UsageError(fmt::format("{} (understudy --help shows what is accepted)", error.what()));
  }
  for (const CLI::App* command : {static_cast<const CLI::App*>(run), static_cast<const CLI::App*>(exec)}) {
    if (!command->parsed()) continue;
    const std::vector<std::string> rest = command->remaining();
    if (!rest.empty() && (words.separated || rest[0][0] == '-'))
      throw UsageError(fmt::format("{}: unknown argument '{}' (understudy {} --help)", command->get_name(),
                                   rest[0], command->get_name()));
    if (!words.separated) words.command = rest;
    if (words.command.empty())
      throw UsageError(
          fmt::format("{0}: the command to run is missing: understudy {0} ... -- CMD [ARGUMENT...]",
                      command->get_name()));
  }
  if (run->parsed()) {
    MachineOptions options = run_flags.resolve(compose);
    options.plan.command = std::move(words.command);
    return run_command(std::move(options));
  }
  if (exec->parsed()) return exec_command(exec_name, words.command);
  if (words.separated) throw UsageError("only run and exec take a command after '--'");
  if (serve->parsed()) {
    check_name(serve_name);
    return serve_command(serve_flags.resolve(compose), serve_name, background);
  }
  if (ps->parsed()) return ps_command();
  if (stop->parsed()) return stop_command(stop_name);
  if (inject->parsed()) return inject_command(inject_name, inject_file);
  if (ledger->parsed()) return ledger_command(ledger_name);
  if (profiles->parsed()) return profiles_command(profile_name);
  return doctor->parsed() ? doctor_command() : kExitUsage;
}

}  // namespace

int run_command_line(int argc, char** argv, const MachineComposer& compose) {
  try {
    return dispatch(argc, argv, compose);
  } catch (const UsageError& error) {
    say(error.what());
    return kExitUsage;
  }
}

}  // namespace understudy::cli
