// What a killed service without a journal leaves to the next one at its port.
#include "rendezvous/service/running_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"

using ddprun::rdzv::Clock;
using ddprun::rdzv::RunningFile;
using namespace std::chrono_literals;

TEST_CASE("the file is there while workers may run") {
  const ddprun::test::TempDir folder;
  const Clock::time_point now{1h};
  RunningFile file("10.0.0.1", 29500, "job", folder.path());
  CHECK(file.past_lease(now) == std::nullopt);
  file.follow(std::nullopt, now);
  CHECK_FALSE(std::filesystem::exists(file.path()));
  file.follow(15s, now);
  SECTION("and tells the next service of their leases") {
    const RunningFile next("10.0.0.1", 29500, "job", folder.path());
    CHECK(next.past_lease(now + 5s) == 15s);
    file.follow(2s, now);
    CHECK(next.past_lease(now) == 2s);
  }
  SECTION("and is another one for another service") {
    CHECK(RunningFile("10.0.0.2", 29500, "job", folder.path()).past_lease(now) == std::nullopt);
    CHECK(RunningFile("10.0.0.1", 29501, "job", folder.path()).past_lease(now) == std::nullopt);
    CHECK(RunningFile("10.0.0.1", 29500, "", folder.path()).past_lease(now) == std::nullopt);
  }
  SECTION("and counts for an hour from when it was last written") {
    CHECK(file.past_lease(now + 1h) == 15s);
    CHECK(file.past_lease(now + 1h + 1s) == std::nullopt);
    file.follow(15s, now + 30min);
    CHECK(file.past_lease(now + 1h + 1s) == 15s);
  }
  SECTION("and is removed with the last of them") {
    file.follow(std::nullopt, now);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_CASE("files of services that were killed long ago are removed, and no others") {
  const ddprun::test::TempDir folder;
  const Clock::time_point now{3h};
  RunningFile old("10.0.0.1", 29500, "job", folder.path());
  old.follow(15s, now - 1h - 1s);
  RunningFile young("10.0.0.1", 29501, "job", folder.path());
  young.follow(15s, now - 59min);
  const RunningFile damaged("10.0.0.1", 29502, "job", folder.path());
  std::ofstream(damaged.path()) << "15";
  const std::string other = std::string(folder.path()) + "/another-program";
  std::ofstream(other) << "00000000000000000001 00000000000000000001\n";
  RunningFile::remove_old(folder.path(), now);
  CHECK_FALSE(std::filesystem::exists(old.path()));
  for (const std::string& path : {young.path(), damaged.path(), other})
    CHECK(std::filesystem::exists(path));
  RunningFile::remove_old(std::string(folder.path()) + "/none", now);
}

TEST_CASE("a file that is damaged, no file, or not ours tells nothing") {
  const ddprun::test::TempDir folder;
  const Clock::time_point now{1h};
  RunningFile file("10.0.0.1", 29500, "job", folder.path());
  SECTION("damaged") {
    for (const char* text : {"", "15", "15 x\n", "x 15\n", "15 15", "99999999999999999999 1\n"}) {
      std::ofstream(file.path()) << text;
      CHECK(file.past_lease(now) == std::nullopt);
    }
  }
  SECTION("a folder, which is left alone") {
    std::filesystem::create_directory(file.path());
    CHECK(file.past_lease(now) == std::nullopt);
    file.follow(15s, now);
    file.follow(std::nullopt, now);
    CHECK(std::filesystem::is_directory(file.path()));
  }
  SECTION("a link, which is not followed") {
    const std::string victim = std::string(folder.path()) + "/victim";
    std::ofstream(victim) << "precious";
    std::filesystem::create_symlink(victim, file.path());
    CHECK(file.past_lease(now) == std::nullopt);
    file.follow(15s, now);
    CHECK(std::filesystem::file_size(victim) == 8);
  }
  SECTION("a folder that is not there") {
    RunningFile nowhere("10.0.0.1", 29500, "job", std::string(folder.path()) + "/none");
    nowhere.follow(15s, now);
    CHECK(nowhere.past_lease(now) == std::nullopt);
  }
}
