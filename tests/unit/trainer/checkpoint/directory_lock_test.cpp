#include "trainer/checkpoint/directory_lock.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <optional>

#include "tests/support/temp_dir.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;

TEST_CASE("a directory has one lock at a time, and it ends with its holder") {
  const test::TempDir directory;
  std::optional<DirectoryLock> first(std::in_place, directory.path(), 0ms);
  CHECK_THROWS_WITH(DirectoryLock(directory.path(), 0ms),
                    Contains(directory.path().string()) && Contains("train") &&
                        Contains("writes there: wait until it has ended"));
  CHECK_THROWS_AS(DirectoryLock(directory.path(), 50ms), DataError);
  first.reset();
  CHECK_NOTHROW(DirectoryLock(directory.path(), 0ms));
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("where there is no directory nothing is locked") {
  const test::TempDir directory;
  CHECK_NOTHROW(DirectoryLock(directory / "absent", 0ms));
  CHECK_FALSE(std::filesystem::exists(directory / "absent"));
}

TEST_CASE("the holder is found among all locks of the machine") {
  const char* const locks =
      "1: POSIX  ADVISORY  WRITE 11 08:01:77 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 12 08:01:78 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 13 08:01:77 0 EOF\n"
      "broken\n"
      "3: FLOCK  ADVISORY  WRITE -1 08:01:77 0 EOF\n"
      "4: FLOCK  ADVISORY  WRITE 14 08:01:77 0 EOF\n";
  CHECK(holder_of_lock(locks, makedev(8, 1), 77) == 14);
  CHECK(holder_of_lock(locks, makedev(8, 1), 78) == 12);
  CHECK_FALSE(holder_of_lock(locks, makedev(8, 2), 77).has_value());
  CHECK_FALSE(holder_of_lock("", makedev(8, 1), 77).has_value());
}

}  // namespace
}  // namespace ddprun::trainer
