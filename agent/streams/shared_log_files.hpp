// Log files to which several workers of a round write: each is opened once, because with a size cap
// one owner must know the size.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/streams/log_file.hpp"

namespace ddprun::agent {

class SharedLogFiles {
 public:
  /// The file of that path: the one that is still in use, else what `open` makes of the path,
  /// which may be null. Files that are in use no more are forgotten: a job may have many rounds.
  template <class Open>
  std::shared_ptr<LogFile> get(const std::string& path, const Open& open) {
    if (const auto found = files_.find(path); found != files_.end()) {
      if (auto file = found->second.lock()) return file;
    }
    std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
    std::shared_ptr<LogFile> file = open(path);
    files_[path] = file;
    return file;
  }

  /// How many are remembered.
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  std::map<std::string, std::weak_ptr<LogFile>> files_;
};

}  // namespace ddprun::agent
