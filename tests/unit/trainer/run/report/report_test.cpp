// What is reported when: the times are given, none is waited for.
#include "trainer/run/report/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/captured_stderr.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

Interval after(std::int64_t step) {
  Interval interval;
  interval.step = step;
  return interval;
}

TEST_CASE("a long evaluation is in the metrics about once a second, a short one is not") {
  const ddprun::test::TempDir directory;
  const auto file = directory / "metrics.jsonl";
  const auto begin = std::chrono::steady_clock::now() + 1h;  // long after any line before
  {
    Report report({.rank = 0, .json = false, .quiet = true, .place = {}, .metrics = file});
    for (int tenth = 0; tenth <= 9; ++tenth)
      report.evaluation({.step = 94, .share = 0.05 * tenth}, begin, begin + tenth * 100ms);
    CHECK_FALSE(std::filesystem::exists(file));
    for (int tenth = 10; tenth <= 25; ++tenth)
      report.evaluation({.step = 94, .share = 0.01 * tenth}, begin, begin + tenth * 100ms);
  }
  std::ifstream lines(file);
  std::vector<double> shares;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json["type"] == "evaluation");
    CHECK(json["step"] == 94);
    shares.push_back(json["share"]);
  }
  REQUIRE(shares.size() == 2);
  CHECK(shares[0] == Approx(0.1));
  CHECK(shares[1] == Approx(0.2));
}

TEST_CASE("intervals are in the metrics about once a second, or after so many steps") {
  const ddprun::test::TempDir directory;
  const auto file = directory / "metrics.jsonl";
  const auto begin = std::chrono::steady_clock::now() + 1h;
  const auto steps_of = [&](std::int64_t log_every) {
    {
      Report report({.rank = 0,
                     .json = false,
                     .quiet = true,
                     .place = {},
                     .metrics = file,
                     .log_every = log_every});
      for (int step = 1; step <= 12; ++step) {
        const auto now = begin + step * 300ms;
        const bool due = report.interval_due(step, now);
        CHECK(report.interval(after(step), now) == (due || log_every == 0));
      }
    }
    std::vector<int> steps;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);)
      steps.push_back(nlohmann::json::parse(line)["step"]);
    std::filesystem::remove(file);
    return steps;
  };
  CHECK(steps_of(0) == std::vector<int>{1, 5, 9});
  CHECK(steps_of(5) == std::vector<int>{5, 10});
  CHECK(steps_of(1).size() == 12);
}

TEST_CASE(
    "a disk that is full leaves whole lines in the metrics, to which the next start appends") {
  const ddprun::test::TempDir directory;
  const auto file = directory / "metrics.jsonl";
  const auto start = [&](int steps) {
    Report report({.quiet = true, .place = {}, .metrics = file, .log_every = 1});
    for (int step = 1; step <= steps; ++step)
      report.interval(after(step), std::chrono::steady_clock::now());
  };
  const std::string warnings = ddprun::test::captured_stderr([&] {
    const ddprun::test::FullDisk full(500);
    start(4);
  });
  CHECK(warnings == "train: warning: " + file.string() + ": File too large; going on without it\n");
  const auto lines_before = std::filesystem::file_size(file);
  CHECK(lines_before < 500);
  start(1);
  CHECK(std::filesystem::file_size(file) > lines_before);
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(nlohmann::json::accept(line));
    CHECK_FALSE(lines.eof());  // so it ends with a line's end
  }
}

TEST_CASE("a line that a crash of the machine cut off costs no line of the next start") {
  const ddprun::test::TempDir directory;
  const auto file = directory / "metrics.jsonl";
  const std::string cut = R"({"type":"interval","st)";
  std::ofstream(file) << "{}\n" << cut;
  for (std::int64_t step = 1; step <= 2; ++step) {  // a start for each
    Report report({.quiet = true, .place = {}, .metrics = file, .log_every = 1});
    report.interval(after(step), std::chrono::steady_clock::now());
  }
  std::ifstream text(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 4);
  CHECK(lines[1] == cut);
  CHECK(nlohmann::json::parse(lines[2])["step"] == 1);
  CHECK(nlohmann::json::parse(lines[3])["step"] == 2);
}

TEST_CASE("a folder that cannot be made is told with the reason, and not as missing") {
  // Nobody makes folders there.
  const std::string file = "/sys/ddprun-test/metrics.jsonl";
  const std::string told = ddprun::test::captured_stderr([&] {
    Report report({.place = {}, .metrics = file, .log_every = 1});
    report.interval(after(1), std::chrono::steady_clock::now());
  });
  CHECK_THAT(told, Catch::Matchers::StartsWith("train: warning: " + file + ": "));
  CHECK(told.find("No such file") == std::string::npos);
}

TEST_CASE("output that cannot be written is warned of once, and a reader that has gone is not") {
  const auto told_with_stdout = [](int fd) {
    std::fflush(stdout);
    const int before = ::dup(STDOUT_FILENO);
    ::dup2(fd, STDOUT_FILENO);
    ::close(fd);
    std::string told = ddprun::test::captured_stderr([&] {
      Report report({.place = {}, .metrics = {}});
      report.note("one");
      report.note("two");
    });
    ::dup2(before, STDOUT_FILENO);
    ::close(before);
    return told;
  };
  CHECK(told_with_stdout(::open("/dev/full", O_WRONLY | O_CLOEXEC)) ==
        "train: warning: cannot write to stdout: No space left on device; training goes on\n");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  CHECK(told_with_stdout(ends[1]).empty());
  std::signal(SIGPIPE, before);
}

TEST_CASE(
    "an error names the rank also where there is one worker, as the launcher's report wants") {
  const std::string told = ddprun::test::captured_stderr([] {
    Report report({.place = {}, .metrics = {}});
    report.warning("a disk is full");
    report.error("a disk is full");
  });
  CHECK(told == "train: warning: a disk is full\ntrain: error: rank 0: a disk is full\n");
}

TEST_CASE("names in what is reported cannot control a terminal or begin another line") {
  const ddprun::test::TempDir directory;
  const std::string name = "a\n\x1b[31m.jpg";
  const std::string told = ddprun::test::captured_stderr([&] {
    Report report({.rank = 1, .place = {.world_size = 2}, .metrics = {}});
    report.warning(name + ": cut short");
    report.error(name + ": changed");
    Report first({.place = {}, .metrics = directory / name / "no\nfolder", .log_every = 1});
    std::ofstream(directory.path() / name) << "no folder";
    first.interval(after(1), std::chrono::steady_clock::now());
  });
  CHECK(told ==
        "train: warning: rank 1: a\\n\\x1b[31m.jpg: cut short\n"
        "train: error: rank 1: a\\n\\x1b[31m.jpg: changed\n"
        "train: warning: " +
            (directory / "a\\n\\x1b[31m.jpg/no\\nfolder").string() +
            ": Not a directory; going on without it\n");
}

}  // namespace
}  // namespace ddprun::trainer
