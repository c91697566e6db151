#include "sim/profile/profile_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include <toml++/toml.h>

namespace understudy::profile {
namespace {

constexpr std::string_view kBasedOn = "based_on";
// A profile based on one based on one ...
constexpr unsigned kMaxBases = 8;

std::string place_of(const toml::source_region& source, const std::string& path) {
  const std::string& file = source.path ? *source.path : path;
  return source.begin.line == 0 ? file : fmt::format("{}:{}", file, source.begin.line);
}

void merge(toml::table& base, toml::table&& differences) {
  for (auto&& [key, node] : differences) {
    toml::table* into = base[key.str()].as_table();
    if (into != nullptr && node.is_table()) {
      merge(*into, std::move(*node.as_table()));
    } else {
      base.insert_or_assign(key, std::move(node));
    }
  }
}

const toml::table& as_toml(const void* table) {
  return *static_cast<const toml::table*>(table);
}

std::string accepted_range(std::uint64_t min, std::uint64_t max) {
  return min == max ? fmt::format("only {}", min) : fmt::format("a number from {} to {}", min, max);
}

}  // namespace

struct ReaderState {
  std::string path;
  toml::table root;
  std::optional<std::string> problem;
  // What was asked for, by table; the name is for messages.
  struct Asked {
    std::string name;
    std::set<std::string, std::less<>> keys;
  };
  std::map<const void*, Asked> asked;
  toml::table no_table;

  void fail(const toml::source_region& source, const std::string& what) {
    if (!problem) problem = place_of(source, path) + ": " + what;
  }

  std::optional<toml::table> parse(const std::filesystem::path& file) {
    try {
      return toml::parse_file(file.string());
    } catch (const toml::parse_error& error) {
      fail(error.source(), std::string(error.description()));
      return std::nullopt;
    }
  }

  // Reads `file` and what it is based on.
  std::optional<toml::table> load(const std::filesystem::path& file, const Directories& directories,
                                  unsigned depth) {
    std::optional<toml::table> own = parse(file);
    if (!own || !own->contains(kBasedOn)) return own;
    const toml::node& node = *own->get(kBasedOn);
    const auto* name = node.as_string();
    if (name == nullptr || depth == kMaxBases) {
      fail(node.source(), name == nullptr ? "based_on takes the name of a profile"
                                          : "based_on leads through too many profiles");
      return std::nullopt;
    }
    std::string why;
    const auto base_file = find_file(name->get(), {}, directories, &why);
    if (!base_file) {
      fail(node.source(), "based_on: " + why);
      return std::nullopt;
    }
    own->erase(kBasedOn);
    std::optional<toml::table> base = load(*base_file, directories, depth + 1);
    if (base) merge(*base, std::move(*own));
    return base;
  }

  // Null when the key is missing.
  const toml::node* find(const void* table, const std::string& table_name, std::string_view key) {
    Asked& in_table = asked[table];
    in_table.name = table_name;
    in_table.keys.emplace(key);
    return as_toml(table).get(key);
  }

  void check_unknown_keys() {
    for (const auto& [table, in_table] : asked) {
      for (const auto& [key, node] : as_toml(table)) {
        if (in_table.keys.contains(key.str())) continue;
        const std::string where = in_table.name.empty() ? "" : fmt::format(" in [{}]", in_table.name);
        fail(key.source(),
             fmt::format("unknown key {}{}; it takes {}", key.str(), where, fmt::join(in_table.keys, ", ")));
      }
    }
  }
};

std::string Table::full_name(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
}

bool Table::has(std::string_view key) const {
  return state_->find(toml_table_, name_, key) != nullptr;
}

std::uint64_t Table::number(std::string_view key, std::uint64_t min, std::uint64_t max) const {
  if (!has(key)) reject(key, "is missing; it takes " + accepted_range(min, max));
  return number_or(key, min, min, max);
}

std::uint64_t Table::number_or(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                               std::uint64_t max) const {
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return fallback;
  const auto* value = node->as_integer();
  if (value != nullptr && value->get() >= 0) {
    const auto number = static_cast<std::uint64_t>(value->get());
    if (number >= min && number <= max) return number;
  }
  reject(key, "takes " + accepted_range(min, max));
  return min;
}

std::vector<std::uint64_t> Table::numbers(std::string_view key, std::uint64_t min, std::uint64_t max) const {
  std::vector<std::uint64_t> all;
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return all;
  const auto* list = node->as_array();
  if (list == nullptr) {
    reject(key, "takes a list of numbers");
    return all;
  }
  for (const toml::node& element : *list) {
    const auto* value = element.as_integer();
    if (value == nullptr || value->get() < 0 || static_cast<std::uint64_t>(value->get()) < min ||
        static_cast<std::uint64_t>(value->get()) > max) {
      reject(key, "takes a list of numbers, each " + accepted_range(min, max));
      break;
    }
    all.push_back(static_cast<std::uint64_t>(value->get()));
  }
  return all;
}

bool Table::flag_or(std::string_view key, bool fallback) const {
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return fallback;
  if (const auto* value = node->as_boolean()) return value->get();
  reject(key, "takes true or false");
  return fallback;
}

std::string Table::text(std::string_view key) const {
  if (!has(key)) reject(key, "is missing; it takes a text in quotes");
  return text_or(key, {});
}

std::string Table::text_or(std::string_view key, std::string fallback) const {
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return fallback;
  // Attributes are single lines.
  if (const auto* value = node->as_string(); value && value->get().find('\n') == std::string::npos)
    return value->get();
  reject(key, "takes a text in quotes, of one line");
  return fallback;
}

std::vector<std::string> Table::texts(std::string_view key) const {
  std::vector<std::string> all;
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return all;
  const auto* list = node->as_array();
  if (list == nullptr || !(list->empty() || list->is_homogeneous<std::string>())) {
    reject(key, "takes a list of texts in quotes");
    return all;
  }
  for (const toml::node& element : *list) all.push_back(element.as_string()->get());
  return all;
}

std::size_t Table::choice(std::string_view key, const std::vector<std::string>& choices) const {
  const std::string value = text_or(key, {});
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == value) return i;
  }
  reject(key, fmt::format("takes one of \"{}\"", fmt::join(choices, "\", \"")));
  return 0;
}

Table Table::table(std::string_view key) const {
  if (std::optional<Table> found = optional_table(key)) return *found;
  state_->fail(as_toml(toml_table_).source(), fmt::format("the table [{}] is missing", full_name(key)));
  return Table(*state_, &state_->no_table, full_name(key));
}

std::optional<Table> Table::optional_table(std::string_view key) const {
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* found = node->as_table()) return Table(*state_, found, full_name(key));
  reject(key, fmt::format("is a table: [{}]", full_name(key)));
  return Table(*state_, &state_->no_table, full_name(key));
}

std::vector<Table> Table::tables(std::string_view key) const {
  std::vector<Table> all;
  const toml::node* node = state_->find(toml_table_, name_, key);
  if (node == nullptr) return all;
  const auto* list = node->as_array();
  if (list == nullptr || !list->is_homogeneous<toml::table>()) {
    reject(key, fmt::format("is a list of tables: [[{}]]", full_name(key)));
    return all;
  }
  for (const toml::node& element : *list) all.push_back(Table(*state_, element.as_table(), full_name(key)));
  return all;
}

void Table::reject(std::string_view key, std::string_view what) const {
  const toml::node* node = as_toml(toml_table_).get(key);
  const toml::source_region& source = node != nullptr ? node->source() : as_toml(toml_table_).source();
  state_->fail(source, fmt::format("{} {}", full_name(key), what));
}

Reader::Reader(const std::filesystem::path& path, const Directories& directories)
    : state_(std::make_unique<ReaderState>()) {
  state_->path = path.string();
  if (std::optional<toml::table> root = state_->load(path, directories, 0)) state_->root = std::move(*root);
}

Reader::~Reader() = default;

Table Reader::root() const {
  return Table(*state_, &state_->root, "");
}

std::optional<std::string> Reader::problem() const {
  state_->check_unknown_keys();
  return state_->problem;
}

std::string kind_of_file(const std::filesystem::path& path, const Directories& directories) {
  return Reader(path, directories).root().text_or("kind", {});
}

}  // namespace understudy::profile
