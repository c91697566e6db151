// Runs a fuzz target without libFuzzer, so with any compiler: every file of the given corpus, then a fixed
// number of inputs made from them. The same numbers give the same inputs.
//   fuzz_kfd_replay [--inputs N] [--seed N] CORPUS...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kMaxNewBytes = 2048;

std::vector<Bytes> read_corpus(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else if (std::filesystem::exists(path)) {
    files.push_back(path);
  }
  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// Bytes changed, or a tail of another input put in, or all new.
Bytes make_input(const std::vector<Bytes>& corpus, std::mt19937& random) {
  if (corpus.empty() || random() % 4 == 0) {
    Bytes fresh(random() % kMaxNewBytes);
    for (std::uint8_t& byte : fresh) byte = static_cast<std::uint8_t>(random());
    return fresh;
  }
  Bytes input = corpus[random() % corpus.size()];
  if (random() % 2 == 0) {
    const Bytes& other = corpus[random() % corpus.size()];
    input.resize(random() % (input.size() + 1));
    input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(random() % (other.size() + 1)),
                 other.end());
  }
  for (unsigned changes = random() % 8; changes > 0 && !input.empty(); --changes)
    input[random() % input.size()] = static_cast<std::uint8_t>(random());
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned long count = 0, seed = 1;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--inputs") == 0 && i + 1 < argc) {
      count = std::stoul(argv[++i]);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = std::stoul(argv[++i]);
    } else {
      std::vector<Bytes> inputs = read_corpus(argv[i]);
      if (inputs.empty()) {
        std::fprintf(stderr, "%s: no inputs there\n", argv[i]);
        return 2;
      }
      std::move(inputs.begin(), inputs.end(), std::back_inserter(corpus));
    }
  }
  for (const Bytes& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  for (unsigned long i = 0; i < count; ++i) {
    const Bytes input = make_input(corpus, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs of the corpus and %lu made ones: OK\n", corpus.size(), count);
  return 0;
}
