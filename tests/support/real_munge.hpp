// A munged with a key and a socket of its own, as a real process. Where munge is not installed, the
// test is skipped.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

class RealMunge {
 public:
  /// Those with the same key trust each other.
  explicit RealMunge(char key = 'k') {
    if (access("/usr/sbin/munged", X_OK) != 0)
      skip("munge is not installed: scripts/install-deps --cluster");
    // Other users connect to the socket, but cannot read the key.
    std::filesystem::permissions(folder_.path(), std::filesystem::perms{0755});
    const std::string file = path("key");
    std::ofstream(file) << std::string(32, key);
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    // --force: it would not trust a folder below /tmp.
    daemon_.emplace(std::vector<std::string>{
        "/usr/sbin/munged", "--foreground", "--force", "--key-file=" + file, "--socket=" + socket(),
        "--pid-file=" + path("pid"), "--log-file=" + path("log"), "--seed-file=" + path("seed")});
    REQUIRE(eventually([this] { return std::filesystem::exists(socket()); }));
  }

  [[nodiscard]] std::string socket() const { return path("socket"); }

 private:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  const TempDir folder_;
  std::optional<Child> daemon_;
};

}  // namespace ddprun::test
