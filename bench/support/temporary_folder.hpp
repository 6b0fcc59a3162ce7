// Where a benchmark puts what its contenders read and write.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace ddprun::bench {

/// Removed at the end, with all that is in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name) {
    path_ = (std::filesystem::temp_directory_path() / (name + ".XXXXXX")).string();
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ddprun::bench
