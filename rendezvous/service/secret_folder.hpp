// A folder with a secret for each tenant: a file's name is a run id, or `PREFIX*` for all that
// begin with PREFIX, and its content is the secret. Files that begin with a dot or end with `~` are
// none.
//
// It is looked at again for each connection, so that a tenant is added, changed or removed by its
// file alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/system/result.hpp>

#include "rendezvous/service/tenants.hpp"

namespace ddprun::rdzv {

class SecretFolder {
 public:
  /// The error is a whole sentence: the folder is none, or others may change it.
  static boost::system::result<SecretFolder, std::string> open(const std::string& folder);

  /// The secret for this run id, or for the many that it names; empty: there is none. A file that
  /// cannot be used counts as none.
  std::string secret_for(std::string_view run_id);
  /// The tenants of now, and how often they have changed.
  [[nodiscard]] const Tenants& tenants() const { return tenants_; }
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  /// Lines on files and the folder that cannot be used, each once until it changes.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  /// By which it is known that a file or folder has changed.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Secret {
    Stamp stamp;
    std::string text;  // empty: the file cannot be used
  };

  explicit SecretFolder(std::string folder) : folder_(std::move(folder)) {}
  static std::optional<Stamp> stamp_of(const std::string& path);
  static bool is_settled(const Stamp& stamp);
  void look();
  void warn(std::string line);

  std::string folder_;
  std::optional<Stamp> stamp_;  // of the list of names; none: it is to be read
  Tenants tenants_;
  std::uint64_t changes_ = 0;
  std::map<std::string, Secret, std::less<>> secrets_;  // that were asked for, by name
  std::string warned_;                                  // of the folder itself
  std::vector<std::string> warnings_;
};

}  // namespace ddprun::rdzv
