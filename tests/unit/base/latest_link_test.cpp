#include "base/latest_link.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
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

/// Under which the link or the text is made.
fs::path fresh_name(const test::TempDir& dir) {
  return dir / (".latest_" + std::to_string(::getpid()));
}

template <int error>
int fails_with(const char* /*target*/, const char* /*link*/) {
  errno = error;
  return -1;
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

TEST_CASE("latest is never made a link to itself") {
  const test::TempDir dir;
  lead_latest_to(dir.path(), dir / "a");
  lead_latest_to(dir.path(), dir / "latest");
  CHECK(fs::read_symlink(dir / "latest") == "a");
}

TEST_CASE("where no link can be made, latest.txt holds the newest folder's name") {
  const test::TempDir dir;
  const fs::path fresh = fresh_name(dir);
  for (const std::string name : {"a", "b"}) {
    lead_latest_to(dir.path(), dir / name, fails_with<EPERM>);
    CHECK(text_of(dir / "latest.txt") == name + "\n");
    CHECK_FALSE(fs::exists(fs::symlink_status(dir / "latest")));
    CHECK_FALSE(fs::exists(fresh));
  }
  // A link of this name is not followed.
  fs::remove(dir / "latest.txt");
  fs::create_symlink("victim", dir / "latest.txt");
  lead_latest_to(dir.path(), dir / "c", fails_with<EPERM>);
  CHECK_FALSE(fs::exists(dir / "victim"));
}

TEST_CASE("a failure that has nothing to do with links makes no latest.txt") {
  const test::TempDir dir;
  lead_latest_to(dir.path(), dir / "a", fails_with<ENOSPC>);
  CHECK_FALSE(fs::exists(dir / "latest.txt"));
}

TEST_CASE("what a killed program left does not keep latest from the newest folder") {
  const test::TempDir dir;
  lead_latest_to(dir.path(), dir / "a");
  fs::create_symlink("a", fresh_name(dir));
  lead_latest_to(dir.path(), dir / "b");
  CHECK(fs::read_symlink(dir / "latest") == "b");
  CHECK_FALSE(fs::exists(dir / "latest.txt"));
  CHECK_FALSE(fs::exists(fs::symlink_status(fresh_name(dir))));
}

TEST_CASE("a link in the place of the new name does not lead the text to another file") {
  const test::TempDir dir;
  std::ofstream(dir / "victim") << "mine";
  fs::create_symlink("victim", fresh_name(dir));
  lead_latest_to(dir.path(), dir / "a", fails_with<EPERM>);
  CHECK(text_of(dir / "victim") == "mine");
}
