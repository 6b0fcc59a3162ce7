// Seeded changes of known inputs, for tests that take any bytes.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

/// The bytes of a line that inputs.py has written.
inline std::string bytes_of_line(const std::string& line) {
  std::string bytes;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      bytes += line[i];
    } else if (const char kind = line.at(++i); kind == 'x') {
      bytes += static_cast<char>(std::stoi(line.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      bytes += kind == 'n' ? '\n' : kind;
    }
  }
  return bytes;
}

/// All inputs of an entry in the order of their names: those in `place`.txt (see inputs.py), or the
/// files of a folder `place`.
inline std::vector<std::string> corpus(const std::string& place) {
  std::vector<std::string> inputs;
  if (!std::filesystem::is_directory(place)) {
    std::ifstream file(place + ".txt");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("# ")) {
        inputs.emplace_back();
      } else {
        inputs.back() += bytes_of_line(line);
      }
    }
    return inputs;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(place))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

/// `usual`, or the number in the environment variable `name`, for the long runs.
inline std::size_t run_length(const char* name, std::size_t usual) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> inputs, unsigned seed)
      : inputs_(std::move(inputs)), random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// An input with up to six changes; every eighth is random bytes instead.
  std::string next() {
    if (below(8) == 0) return noise(below(64));
    std::string input = inputs_[below(inputs_.size())];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) change(input);
    return input;
  }

 private:
  std::string noise(std::size_t length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(below(256));
    return bytes;
  }
  void change(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    switch (below(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 2:
        input.erase(at, 1 + below(8));
        break;
      case 3:
        input.insert(at, 1 + below(8), static_cast<char>(below(3)));
        break;
      case 4:
        input.insert(at, noise(1 + below(8)));
        break;
      case 5: {  // a length that is at an edge
        static constexpr unsigned long long kEdges[] = {
            0, 1, 127, 128, 8192, 8193, 1ULL << 31, 1ULL << 32, 1ULL << 63, ~0ULL};
        const unsigned long long edge = kEdges[below(std::size(kEdges))];
        input.replace(at, 8, reinterpret_cast<const char*>(&edge), sizeof edge);
        break;
      }
      default: {  // the end of another one
        const std::string& other = inputs_[below(inputs_.size())];
        input.resize(at);
        input += other.substr(below(other.size() + 1));
        break;
      }
    }
    if (input.size() > 4096) input.resize(4096);
  }

  std::vector<std::string> inputs_;
  std::mt19937 random_;
};

}  // namespace ddprun::test
