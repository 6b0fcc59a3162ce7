// A file system in memory, for the resolution of PROGRAM.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/program/program.hpp"

namespace ddprun::launcher::test {

class FakeFiles : public FileProbe {
 public:
  FakeFiles& program(const std::string& path, const std::string& bytes = "") {
    return add(path, {FileInfo::Kind::regular, true, bytes, "", ""});
  }
  FakeFiles& text(const std::string& path, const std::string& bytes = "import torch\n") {
    return add(path, {FileInfo::Kind::regular, false, bytes, "", ""});
  }
  /// On a file system mounted noexec.
  FakeFiles& noexec(const std::string& path, const std::string& bytes) {
    return add(path, {FileInfo::Kind::regular, false, bytes, "", "", true});
  }
  FakeFiles& folder(const std::string& path) {
    return add(path, {FileInfo::Kind::folder, true, "", "", ""});
  }
  FakeFiles& pipe(const std::string& path) {
    return add(path, {FileInfo::Kind::other, false, "", "a pipe", ""});
  }
  FakeFiles& device(const std::string& path) {
    return add(path, {FileInfo::Kind::other, false, "", "a device", ""});
  }
  FakeFiles& dangling(const std::string& path, const std::string& target) {
    return add(path, {FileInfo::Kind::absent, false, "", "", target});
  }
  FakeFiles& deleted_folder() {
    deleted_ = true;
    return *this;
  }

  [[nodiscard]] FileInfo look(const std::string& path) const override {
    const auto found = files_.find(without_dot(path));
    return found == files_.end() ? FileInfo{} : found->second;
  }
  [[nodiscard]] std::string contents(const std::string& path, std::size_t) const override {
    return look(path).first_bytes;
  }
  [[nodiscard]] bool same_folder(const std::string& one, const std::string& other) const override {
    return without_dot(one) == without_dot(other);
  }
  [[nodiscard]] bool in_deleted_folder() const override { return deleted_; }
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder) const override {
    std::vector<std::string> names;
    const std::string prefix = folder == "." ? "" : without_dot(folder) + "/";
    for (const auto& [path, info] : files_) {
      if (path.starts_with(prefix) && path.find('/', prefix.size()) == std::string::npos) {
        names.push_back(path.substr(prefix.size()));
      }
    }
    return names;
  }

 private:
  FakeFiles& add(const std::string& path, const FileInfo& info) {
    files_[without_dot(path)] = info;
    return *this;
  }
  static std::string without_dot(const std::string& path) {
    return path.starts_with("./") ? path.substr(2) : path;
  }

  std::map<std::string, FileInfo> files_;
  bool deleted_ = false;
};

}  // namespace ddprun::launcher::test
