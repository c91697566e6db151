#include "sim/cli/settings_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>

#include <fmt/format.h>

namespace understudy::cli {
namespace {

enum class Accepts : std::uint8_t { kCount, kSize, kSwitch, kText, kChoice };

struct Row {
  std::string_view key;
  Accepts accepts;
  // Receives the value in the form that `accepts` promises.
  void (*set)(MachineDescription&, std::uint64_t number, std::string_view text);
  std::string_view choices = {};  // kChoice: "a|b"
};

constexpr Row kRows[] = {
    {"name", Accepts::kText,
     [](MachineDescription& m, std::uint64_t, std::string_view text) { m.settings.name = text; }},
    {"seed", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) { m.settings.seed = number; }},
    {"dispatch", Accepts::kChoice,
     [](MachineDescription& m, std::uint64_t, std::string_view text) {
       m.settings.dispatch = text == "skip" ? DispatchPolicy::kSkip : DispatchPolicy::kQueueError;
     },
     "error|skip"},
    {"dispatch_plugin", Accepts::kText,
     [](MachineDescription& m, std::uint64_t, std::string_view text) { m.settings.dispatch_plugin = text; }},
    {"npu.complete_unsupported", Accepts::kSwitch,
     [](MachineDescription& m, std::uint64_t on, std::string_view) {
       m.settings.npu_complete_unsupported = on != 0;
     }},
    {"cpu.nodes", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.cpu.nodes = static_cast<unsigned>(number);
     }},
    {"cpu.cores", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.cpu.cores = static_cast<unsigned>(number);
     }},
    {"cpu.memory", Accepts::kSize,
     [](MachineDescription& m, std::uint64_t bytes, std::string_view) { m.cpu.memory_bytes = bytes; }},
    {"flavour.kfd_minor", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.settings.flavour.kfd_minor = static_cast<unsigned>(number);
     }},
    {"flavour.rocm_dkms", Accepts::kSwitch,
     [](MachineDescription& m, std::uint64_t on, std::string_view) {
       m.settings.flavour.rocm_dkms = on != 0;
     }},
    {"flavour.amdxdna", Accepts::kChoice,
     [](MachineDescription& m, std::uint64_t, std::string_view text) { m.settings.flavour.amdxdna = text; },
     "out-of-tree|mainline|first|legacy"},
    {"flavour.virtio_blob_layout", Accepts::kText,
     [](MachineDescription& m, std::uint64_t, std::string_view text) {
       m.settings.flavour.virtio_blob_layout = text;
     }},
    {"flavour.vhsakmt_memory_layout", Accepts::kChoice,
     [](MachineDescription& m, std::uint64_t, std::string_view text) {
       m.settings.flavour.vhsakmt_memory_layout = text;
     },
     "reference|merge-request"},
    {"flavour.virtio_strict", Accepts::kSwitch,
     [](MachineDescription& m, std::uint64_t on, std::string_view) {
       m.settings.flavour.virtio_strict = on != 0;
     }},
    {"limits.vram", Accepts::kSize,
     [](MachineDescription& m, std::uint64_t bytes, std::string_view) {
       m.settings.limits.vram_bytes = bytes;
     }},
    {"limits.vram_in_use", Accepts::kSize,
     [](MachineDescription& m, std::uint64_t bytes, std::string_view) {
       m.settings.limits.vram_in_use_bytes = bytes;
     }},
    {"limits.system", Accepts::kSize,
     [](MachineDescription& m, std::uint64_t bytes, std::string_view) {
       m.settings.limits.system_bytes = bytes;
     }},
    {"limits.events", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.settings.limits.events = number;
     }},
    {"limits.queues", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.settings.limits.queues = number;
     }},
    {"limits.doorbells", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.settings.limits.doorbells = number;
     }},
    {"limits.scatter_entries", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) {
       m.settings.limits.scatter_entries = number;
     }},
    {"limits.fds", Accepts::kCount,
     [](MachineDescription& m, std::uint64_t number, std::string_view) { m.settings.limits.fds = number; }},
};

const Row* find_row(std::string_view key) {
  const auto found =
      std::find_if(std::begin(kRows), std::end(kRows), [key](const Row& row) { return row.key == key; });
  return found == std::end(kRows) ? nullptr : found;
}

std::string accepted(const Row& row) {
  switch (row.accepts) {
    case Accepts::kCount:
      return "a number, 0 or more";
    case Accepts::kSize:
      return "a size such as 4096, \"512 MiB\" or \"8 GiB\"";
    case Accepts::kSwitch:
      return "true or false";
    case Accepts::kText:
      return "text";
    case Accepts::kChoice: {
      std::string choices(row.choices);
      std::replace(choices.begin(), choices.end(), '|', ' ');
      return "one of: " + choices;
    }
  }
  return {};
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const std::size_t bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == text) return true;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return false;
}

std::string shown(const SettingValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* on = std::get_if<bool>(&value)) return *on ? "true" : "false";
  return '"' + std::get<std::string>(value) + '"';
}

bool apply(const Row& row, MachineDescription& machine, const SettingValue& value) {
  const auto* number = std::get_if<std::int64_t>(&value);
  const auto* on = std::get_if<bool>(&value);
  const auto* text = std::get_if<std::string>(&value);
  switch (row.accepts) {
    case Accepts::kCount:
      if (number == nullptr || *number < 0) return false;
      row.set(machine, static_cast<std::uint64_t>(*number), {});
      return true;
    case Accepts::kSize: {
      std::optional<std::uint64_t> bytes;
      if (number != nullptr && *number >= 0) bytes = static_cast<std::uint64_t>(*number);
      if (text != nullptr) bytes = parse_size(*text);
      if (!bytes) return false;
      row.set(machine, *bytes, {});
      return true;
    }
    case Accepts::kSwitch:
      if (on == nullptr) return false;
      row.set(machine, *on ? 1 : 0, {});
      return true;
    case Accepts::kText:
      if (text == nullptr) return false;
      row.set(machine, 0, *text);
      return true;
    case Accepts::kChoice:
      if (text == nullptr || !is_choice(row.choices, *text)) return false;
      row.set(machine, 0, *text);
      return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> apply_setting(MachineDescription& machine, std::string_view key,
                                         const SettingValue& value) {
  const Row* row = find_row(key);
  if (row == nullptr) {
    std::string known;
    for (const Row& other : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", other.key);
    return fmt::format("unknown setting '{}' (known: {})", key, known);
  }
  if (!apply(*row, machine, value))
    return fmt::format("{} = {} is not accepted: it takes {}", key, shown(value), accepted(*row));
  return std::nullopt;
}

bool is_setting(std::string_view key) {
  return find_row(key) != nullptr;
}

std::vector<std::pair<std::string, std::string>> setting_help() {
  std::vector<std::pair<std::string, std::string>> help;
  for (const Row& row : kRows) help.emplace_back(row.key, accepted(row));
  return help;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty() || unit == "B") return number;
  static constexpr std::string_view kUnits = "KMGT";
  const std::size_t power =
      kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
  const std::string_view rest = unit.substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "iB" || rest == "i")) return std::nullopt;
  const unsigned shift = 10 * (static_cast<unsigned>(power) + 1);
  if (number > (UINT64_MAX >> shift)) return std::nullopt;
  return number << shift;
}

}  // namespace understudy::cli
