// The last round that claimed a directory publishes there, and no older one.
#include "trainer/checkpoint/directory_claim.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/checkpoint/fixture.hpp"
#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/checkpoint/checkpoint_writer.hpp"
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

using Catch::Matchers::Contains;

constexpr std::chrono::seconds kWritten{20};

CheckpointWriter::Settings settings(const std::filesystem::path& directory, DirectoryClaim claim,
                                    std::string& failure) {
  return {.directory = directory,
          .keep = 2,
          .layout = test::small_layout(),
          .claim = std::move(claim),
          .on_failure = [&failure](const std::string& why) { failure = why; }};
}

void write_one(CheckpointWriter& writer, std::int64_t step) {
  writer.snapshot() = test::small_snapshot(test::small_layout(), step);
  writer.submit();
  REQUIRE(writer.wait_idle(std::chrono::steady_clock::now() + kWritten));
}

TEST_CASE("a round publishes until a later one has claimed the directory") {
  const test::TempDir folder;
  const auto directory = folder / "made by the claim";
  std::string failure_of_old;
  std::string failure_of_new;
  CheckpointWriter old_round(settings(directory, {directory, {"job", 1, 3}}, failure_of_old));
  write_one(old_round, 10);
  CHECK(old_round.totals().written == 1);

  CheckpointWriter new_round(settings(directory, {directory, {"job", 1, 4}}, failure_of_new));
  write_one(old_round, 20);
  write_one(new_round, 11);
  CHECK(old_round.totals().written == 1);
  CHECK_THAT(failure_of_old,
             Contains(directory.string() +
                      " belongs to round 4 of this job; this is round 3, which is over"));
  CHECK(new_round.totals().written == 1);
  CHECK(failure_of_new.empty());
  CHECK(std::filesystem::exists(directory / "step-00000010"));
  CHECK(std::filesystem::exists(directory / "step-00000011"));
  CHECK_FALSE(std::filesystem::exists(directory / "step-00000020"));
}

TEST_CASE("a round that comes to claim after a later one is refused while that one is alive") {
  const test::TempDir directory;
  const DirectoryClaim first(directory.path(), {"job", 1, 2});
  {
    const DirectoryClaim newest(directory.path(), {"job", 1, 4});
    for (int attempt = 0; attempt < 2; ++attempt) {
      CHECK_THROWS_WITH(DirectoryClaim(directory.path(), {"job", 1, 3}),
                        Contains("belongs to round 4 of this job, which still runs; this is "
                                 "round 3, which is over"));
    }
    CHECK(newest.hold());
  }
}

TEST_CASE("the same run id is claimed again by a job that counts from the beginning") {
  const test::TempDir directory;
  { const DirectoryClaim yesterday(directory.path(), {"job", 1, 7}); }
  const DirectoryClaim today(directory.path(), {"job", 1, 0});
  CHECK(today.hold());
}

TEST_CASE("a new epoch claims what rounds of an older one still hold") {
  const test::TempDir directory;
  const DirectoryClaim old_epoch(directory.path(), {"job", 1, 7});
  const DirectoryClaim new_epoch(directory.path(), {"job", 2, 0});
  CHECK(new_epoch.hold());
  CHECK_THROWS_WITH(old_epoch.hold(), Contains("belongs to round 0 of epoch 2 of this job; this is "
                                               "round 7 of epoch 1, which is over"));
}

TEST_CASE(
    "an older epoch that comes to claim after a newer one is refused while that one is alive") {
  const test::TempDir directory;
  const DirectoryClaim newer(directory.path(), {"job", 2, 1});
  CHECK_THROWS_WITH(DirectoryClaim(directory.path(), {"job", 1, 5}),
                    Contains("belongs to round 1 of epoch 2 of this job, which still runs; this is "
                             "round 5 of epoch 1, which is over"));
  CHECK(newer.hold());
}

TEST_CASE("runs of different ids may share a directory") {
  const test::TempDir directory;
  const DirectoryClaim one(directory.path(), {"one", 1, 0});
  const DirectoryClaim other(directory.path(), {"other", 1, 0});
  CHECK(one.hold());
  CHECK(other.hold());
}

TEST_CASE("a claim that is damaged belongs to another round, one that was deleted to none") {
  const test::TempDir directory;
  const DirectoryClaim claim(directory.path(), {"job", 1, 0});
  test::write_text(directory / ".claim", "{\"run\": \"job\", \"ep");
  CHECK_THROWS_WITH(claim.hold(), Contains("belongs to a later round"));
  test::write_text(directory / ".claim", "[]");
  CHECK_THROWS_AS(claim.hold(), DataError);
  test::write_text(directory / ".claim", "");
  CHECK_THROWS_AS(claim.hold(), DataError);
  std::filesystem::remove(directory / ".claim");
  CHECK_NOTHROW(claim.hold());
}

TEST_CASE("no round claims a directory while a checkpoint is being published there") {
  const test::TempDir directory;
  const DirectoryClaim claim(directory.path(), {"job", 1, 0});
  const UniqueFd held = claim.hold();
  REQUIRE(held);
  const UniqueFd other(::open((directory / ".claim").c_str(), O_RDWR | O_CLOEXEC));
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) != 0);
}

TEST_CASE("a directory is not claimed through a link or a pipe in the place of its files") {
  const test::TempDir directory;
  const test::TempDir elsewhere;
  const std::string name = GENERATE(".claim", ".claim_alive");
  SECTION("a link") {
    test::write_text(elsewhere / "victim", "precious");
    std::filesystem::create_symlink(elsewhere / "victim", directory / name);
    CHECK_THROWS_WITH(DirectoryClaim(directory.path(), {"job", 1, 0}),
                      Contains(name + ": a symbolic link, which is not followed"));
    CHECK(std::filesystem::file_size(elsewhere / "victim") == 8);
  }
  SECTION("a pipe") {
    REQUIRE(::mkfifo((directory / name).c_str(), 0600) == 0);
    CHECK_THROWS_WITH(DirectoryClaim(directory.path(), {"job", 1, 0}),
                      Contains(name + ": not a regular file"));
  }
}

}  // namespace

}  // namespace ddprun::trainer
