#include "base/latest_link.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("latest leads to the newest folder, and a name that is no link is left alone") {
  const test::TempDir dir;
  lead_latest_to(dir.path(), dir / "a");
  CHECK(fs::read_symlink(dir / "latest") == "a");
  lead_latest_to(dir.path(), dir / "b");
  CHECK(fs::read_symlink(dir / "latest") == "b");
  fs::remove(dir / "latest");
  fs::create_directory(dir / "latest");
  lead_latest_to(dir.path(), dir / "c");
  CHECK(fs::is_directory(fs::symlink_status(dir / "latest")));
  CHECK_FALSE(fs::exists(dir / "latest.txt"));
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("where no link can be made, latest.txt holds the newest folder's name") {
  const test::TempDir dir;
  // A file of the link's first name is in its way, as EPERM of a file system would be.
  const fs::path fresh = dir / (".latest_" + std::to_string(::getpid()));
  for (const std::string name : {"a", "b"}) {
    std::ofstream(fresh) << "";
    lead_latest_to(dir.path(), dir / name);
    CHECK(text_of(dir / "latest.txt") == name + "\n");
    CHECK_FALSE(fs::exists(fs::symlink_status(dir / "latest")));
    CHECK_FALSE(fs::exists(fresh));
  }
  // A link of this name is not followed.
  fs::remove(dir / "latest.txt");
  fs::create_symlink("victim", dir / "latest.txt");
  std::ofstream(fresh) << "";
  lead_latest_to(dir.path(), dir / "c");
  CHECK_FALSE(fs::exists(dir / "victim"));
}
