// When a file was written, where its file system has another clock than this machine.
#include "agent/evidence/file_clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/unique_handle.hpp"
#include "tests/support/temp_dir.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;

namespace {

const WallTime kReadAt{1'800'000'000s};

}  // namespace

TEST_CASE("the age of a file counts by the clock of its file system") {
  for (const WallTime::duration ahead : {WallTime::duration(-1h), WallTime::duration(1h),
                                         WallTime::duration(-21ms), WallTime::duration(21ms)})
    CHECK(by_wall_clock(kReadAt + ahead - 3s, kReadAt + ahead, kReadAt, kReadAt) == kReadAt - 3s);
}

TEST_CASE("a file system that stamps files a tick late has no clock of its own") {
  CHECK(by_wall_clock(kReadAt - 3s, kReadAt - 4ms, kReadAt, kReadAt) == kReadAt - 3s);
  CHECK(by_wall_clock(kReadAt - 3s, kReadAt - 20ms, kReadAt, kReadAt) == kReadAt - 3s);
}

TEST_CASE("a file system that answers late has no clock of its own") {
  for (const auto after : {0s, 1s, 2s})
    CHECK(by_wall_clock(kReadAt - 3s, kReadAt + after, kReadAt, kReadAt + 2s) == kReadAt - 3s);
  CHECK(by_wall_clock(kReadAt + 1h, kReadAt + 1h + 5s, kReadAt, kReadAt + 2s) == kReadAt - 3s);
}

TEST_CASE("to ask when a file was written does not change that time") {
  const test::TempDir folder;
  const UniqueFd writer(open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const timespec times[] = {{1'700'000'000, 0}, {1'700'000'001, 5000}};
  REQUIRE(futimens(writer.get(), times) == 0);
  const UniqueFd reader(open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  REQUIRE(fstat(reader.get(), &status) == 0);
  CHECK(last_written(reader.get(), status) == WallTime(1'700'000'001s + 5us));
  REQUIRE(fstat(reader.get(), &status) == 0);
  CHECK(status.st_mtim.tv_sec == 1'700'000'001);
  CHECK(status.st_atim.tv_sec > 1'700'000'000);
}
