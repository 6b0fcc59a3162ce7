#include "base/file_lock.hpp"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "tests/support/temp_dir.hpp"

namespace {

using ddprun::LockKind;
using ddprun::LockOutcome;
using ddprun::try_lock;
using ddprun::UniqueFd;

UniqueFd opened(const std::filesystem::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY));
}

TEST_CASE("one open file at a time has an exclusive lock, until it is closed") {
  const ddprun::test::TempDir directory;
  UniqueFd first = opened(directory.path());
  const UniqueFd second = opened(directory.path());
  CHECK(try_lock(first) == LockOutcome::locked);
  CHECK(try_lock(first) == LockOutcome::locked);
  CHECK(try_lock(second) == LockOutcome::busy);
  CHECK(try_lock(second, LockKind::shared) == LockOutcome::busy);
  first.reset();
  CHECK(try_lock(second) == LockOutcome::locked);
}

TEST_CASE("several open files share a lock, and none of them makes it its own") {
  const ddprun::test::TempDir directory;
  const UniqueFd first = opened(directory.path());
  const UniqueFd second = opened(directory.path());
  CHECK(try_lock(first) == LockOutcome::locked);
  CHECK(try_lock(first, LockKind::shared) == LockOutcome::locked);
  CHECK(try_lock(second, LockKind::shared) == LockOutcome::locked);
  CHECK(try_lock(second) == LockOutcome::busy);
}

TEST_CASE("what cannot be locked is told apart from what is locked") {
  CHECK(try_lock(UniqueFd()) == LockOutcome::failed);
  CHECK(errno == EBADF);
}

}  // namespace
