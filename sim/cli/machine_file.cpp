#include "sim/cli/machine_file.h"

#include <charconv>
#include <functional>

#include <fmt/format.h>

#include <toml++/toml.h>

#include "sim/cli/settings_table.h"
#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

constexpr unsigned kMaxDevices = 64;

std::optional<SettingValue> value_of(const toml::node& node) {
  if (const auto* number = node.as_integer()) return SettingValue(number->get());
  if (const auto* on = node.as_boolean()) return SettingValue(on->get());
  if (const auto* text = node.as_string()) return SettingValue(text->get());
  return std::nullopt;
}

class MachineFileReader {
 public:
  MachineFileReader(const std::string& path, MachineDescription& description)
      : path_(path), description_(description) {}

  void read() {
    try {
      for (const auto& [key, node] : toml::parse_file(path_)) read_entry(std::string(key.str()), node);
    } catch (const toml::parse_error& error) {
      // A file that cannot be read at all has no place in it.
      const bool is_unreadable = error.source().begin.line == 0;
      throw UsageError((is_unreadable ? fmt::format("machine file {}: ", path_) : where(error.source())) +
                       std::string(error.description()));
    }
  }

 private:
  std::string where(const toml::source_region& source) const {
    return fmt::format("{}:{}:{}: ", path_, source.begin.line, source.begin.column);
  }
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError(where(node.source()) + what);
  }

  void read_entry(const std::string& key, const toml::node& node) {
    if (key == "gpu") {
      read_devices(key, node, description_.gpus);
    } else if (key == "npu" && node.is_array()) {
      read_devices(key, node, description_.npus);
    } else if (key == "host_gpu") {
      read_devices(key, node, description_.host_gpus);
    } else if (key == "virtio_gpu") {
      const auto* capset = node.as_string();
      if (capset == nullptr) fail(node, "virtio_gpu takes the name of a capset, such as \"rocm\"");
      description_.virtio_gpu = capset->get();
    } else if (key == "cpu_only") {
      const auto* on = node.as_boolean();
      if (on == nullptr) fail(node, "cpu_only takes true or false");
      description_.cpu_only = on->get();
    } else if (const auto* table = node.as_table()) {
      for (const auto& [name, value] : *table) read_setting(key + "." + std::string(name.str()), value);
    } else {
      read_setting(key, node);
    }
  }

  void read_setting(const std::string& key, const toml::node& node) {
    const std::optional<SettingValue> value = value_of(node);
    if (!value && is_setting(key)) fail(node, fmt::format("{} takes a single value", key));
    if (const auto problem = apply_setting(description_, key, value.value_or(std::int64_t{0})))
      fail(node, *problem);
  }

  // [[gpu]] profile = "gfx90a" count = 2
  void read_devices(const std::string& kind, const toml::node& node, std::vector<DeviceRequest>& into) {
    const auto* array = node.as_array();
    if (array == nullptr)
      fail(node, fmt::format("{0} is a list of tables: [[{0}]] with profile = \"...\"", kind));
    for (const toml::node& element : *array) {
      const auto* table = element.as_table();
      if (table == nullptr) fail(element, fmt::format("each {} is a table with profile = \"...\"", kind));
      DeviceRequest request;
      for (const auto& [name, value] : *table) {
        if (name == "profile" && value.is_string()) {
          request.profile = value.as_string()->get();
        } else if (name == "count" && value.is_integer() && value.as_integer()->get() >= 1 &&
                   value.as_integer()->get() <= kMaxDevices) {
          request.count = static_cast<unsigned>(value.as_integer()->get());
        } else {
          fail(value, fmt::format("[[{}]] takes profile = \"NAME\" and count = 1..{}, not {}", kind,
                                  kMaxDevices, name.str()));
        }
      }
      if (request.profile.empty()) fail(element, fmt::format("[[{}]] needs profile = \"NAME\"", kind));
      into.push_back(std::move(request));
    }
  }

  const std::string path_;
  MachineDescription& description_;
};

}  // namespace

void read_machine_file(const std::string& path, MachineDescription& description) {
  MachineFileReader(path, description).read();
}

void apply_set_flag(std::string_view assignment, MachineDescription& description) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw UsageError(fmt::format("--set takes KEY=VALUE, not '{}'", assignment));
  const std::string_view key = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  SettingValue value = std::string(text);
  try {
    const toml::table written = toml::parse(fmt::format("value = {}", text));
    if (auto typed = value_of(*written.get("value"))) value = std::move(*typed);
  } catch (const toml::parse_error&) {
    // Text without quotes.
  }
  if (const auto problem = apply_setting(description, key, value))
    throw UsageError(fmt::format("--set {}: {}", assignment, *problem));
}

std::vector<DeviceRequest> parse_device_list(std::string_view flag, std::string_view text) {
  std::vector<DeviceRequest> requests;
  for (std::string_view rest = text;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    const std::size_t colon = std::min(item.find(':'), item.size());
    DeviceRequest request{std::string(item.substr(0, colon)), 1};
    bool counted = colon == item.size();
    if (!counted) {
      const std::string_view count = item.substr(colon + 1);
      const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), request.count);
      counted = error == std::errc{} && end == count.data() + count.size() && request.count >= 1 &&
                request.count <= kMaxDevices;
    }
    if (request.profile.empty() || !counted)
      throw UsageError(fmt::format("{} takes PROFILE or PROFILE:N with N from 1 to {}, not '{}'", flag,
                                   kMaxDevices, item));
    requests.push_back(std::move(request));
    if (comma == rest.size()) return requests;
    rest.remove_prefix(comma + 1);
  }
}

std::string describe_devices(const MachineDescription& description) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  const auto add_all = [&](const std::vector<DeviceRequest>& requests, std::string_view suffix) {
    for (const DeviceRequest& request : requests) {
      const std::string count = request.count > 1 ? fmt::format("{} x ", request.count) : "";
      add(fmt::format("{}{}{}", count, request.profile, suffix));
    }
  };
  add_all(description.gpus, "");
  add_all(description.npus, "");
  if (!description.virtio_gpu.empty()) add("virtio-gpu " + description.virtio_gpu);
  add_all(description.host_gpus, " on the host");
  if (description.cpu_only) add("kfd without GPU");
  return text.empty() ? "no devices" : text;
}

}  // namespace understudy::cli
