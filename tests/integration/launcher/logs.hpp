// The log folder of a job under test.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// A folder given as --log-dir, and what the newest run left there.
class Logs {
 public:
  [[nodiscard]] std::string option() const { return "--log-dir=" + folder_.path().string(); }
  [[nodiscard]] std::filesystem::path newest() const { return folder_ / "latest"; }
  [[nodiscard]] std::string text(const std::string& file) const {
    std::ifstream stream(newest() / file);
    if (!stream) return "no file " + file;
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  [[nodiscard]] bool has(const std::string& file) const {
    return std::filesystem::exists(newest() / file);
  }
  [[nodiscard]] const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
};

}  // namespace ddprun::test
