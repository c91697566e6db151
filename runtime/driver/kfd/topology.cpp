#include "runtime/driver/kfd/topology.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

#include "runtime/base/unique_fd.h"

namespace hsa_rt::kfd {
namespace {

Result<std::string> read_file(const std::string& path) {
  const UniqueFd fd = TRY(UniqueFd::open(path.c_str(), O_RDONLY));
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t got = ::read(fd.get(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Errno{errno};
    if (got == 0) return text;
    text.append(chunk, static_cast<size_t>(got));
  }
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

uint64_t to_number(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Result<uint64_t> read_number(const std::string& path) {
  return to_number(TRY(read_file(path)));
}

Result<Properties> read_properties(const std::string& path) {
  return Properties::parse(TRY(read_file(path)));
}

// Folders <parent>/0 .. <parent>/<count-1>, each with a properties file.
Result<std::vector<Properties>> read_numbered(const std::string& parent, uint64_t count) {
  std::vector<Properties> all;
  for (uint64_t i = 0; i < count; ++i) {
    all.push_back(TRY(read_properties(parent + "/" + std::to_string(i) + "/properties")));
  }
  return all;
}

Result<TopologyNode> read_node(const std::string& folder, uint32_t node_id) {
  TopologyNode node;
  node.node_id = node_id;
  node.gpu_id = static_cast<uint32_t>(TRY(read_number(folder + "/gpu_id")));
  node.properties = TRY(read_properties(folder + "/properties"));
  if (const Result<std::string> name = read_file(folder + "/name")) node.name = first_line(name.value());
  node.memory_banks = TRY(read_numbered(folder + "/mem_banks", node.properties.get("mem_banks_count")));
  node.caches = TRY(read_numbered(folder + "/caches", node.properties.get("caches_count")));
  node.links = TRY(read_numbered(folder + "/io_links", node.properties.get("io_links_count")));
  for (Properties& link : TRY(read_numbered(folder + "/p2p_links", node.properties.get("p2p_links_count")))) {
    node.links.push_back(std::move(link));
  }
  return node;
}

Result<std::vector<TopologyNode>> read_nodes(const std::string& root) {
  std::vector<TopologyNode> nodes;
  for (uint32_t id = 0;; ++id) {
    const std::string folder = root + "/nodes/" + std::to_string(id);
    if (::access(folder.c_str(), F_OK) != 0) return nodes;
    Result<TopologyNode> node = read_node(folder, id);
    if (node) {
      nodes.push_back(std::move(node).value());
    } else if (node.error().value != EPERM) {
      return node.error();
    }
  }
}

}  // namespace

Result<std::vector<TopologyNode>> read_topology(const std::string& root) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t before = TRY(read_number(root + "/generation_id"));
    std::vector<TopologyNode> nodes = TRY(read_nodes(root));
    if (TRY(read_number(root + "/generation_id")) == before) return nodes;
  }
  return Errno{EAGAIN};
}

}  // namespace hsa_rt::kfd
