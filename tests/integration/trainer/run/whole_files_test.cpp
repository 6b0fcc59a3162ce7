// metrics.jsonl and event files after kills and on a full disk: whole, and with the lines of a run
// that nothing happened to.
#include <algorithm>
#include <boost/crc.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

/// The bytes of all event files of a run, one behind the other.
std::string event_bytes(const fs::path& out) {
  std::string bytes;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(out, missing))
    if (entry.path().filename().string().starts_with("events.")) bytes += text_of(entry.path());
  return bytes;
}

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// As TFRecords have it.
std::uint32_t checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
}

/// Checks that records follow each other to the last byte: length (8), its sum (4), message, its
/// sum (4). Gives their number.
std::size_t check_records(const std::string& bytes) {
  std::size_t records = 0;
  for (std::size_t at = 0; at < bytes.size(); ++records) {
    INFO("record " << records << " at byte " << at << " of " << bytes.size());
    REQUIRE(at + 12 <= bytes.size());
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    const std::string_view all(bytes);
    REQUIRE(checksum(all.substr(at, 8)) == number_at(bytes, at + 8));
    REQUIRE(at + 16 + length <= bytes.size());
    REQUIRE(checksum(all.substr(at + 12, length)) == number_at(bytes, at + 12 + length));
    at += 16 + length;
  }
  return records;
}

/// Checks that a text is of whole lines of JSON. Gives those of this type.
std::vector<nlohmann::json> check_lines(const std::string& text, const std::string& type) {
  CHECK(text.ends_with('\n'));
  std::vector<nlohmann::json> found;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    INFO(line);
    REQUIRE(nlohmann::json::accept(line));
    auto json = nlohmann::json::parse(line);
    if (json["type"] == type) found.push_back(std::move(json));
  }
  return found;
}

/// The intervals of a run, by their last step, without what is measured or of the workers. A step
/// that was done again counts as it was done last.
std::map<int, nlohmann::json> intervals_of(const fs::path& out) {
  std::map<int, nlohmann::json> intervals;
  for (nlohmann::json& line : check_lines(text_of(out / "metrics.jsonl"), "interval")) {
    for (const char* other : {"world_size", "round", "samples_per_second", "exposed_share"})
      line.erase(other);
    const int step = line["step"];
    intervals[step] = std::move(line);
  }
  return intervals;
}

}  // namespace

TEST_CASE("a kill at any moment leaves metrics.jsonl and the event file whole") {
  const SmallData data;
  std::mt19937 random(1);
  for (int kill = 0; kill < 6; ++kill) {
    const TempDir directory;
    const auto out = directory.path() / "out";
    WorkerGroup group({.arguments = {"--data", data.path(), "--batch=8", "--epochs=100000",
                                     "--log-every=1", "--tensorboard", "--out", out},
                       .json = false});
    const auto bytes = std::uniform_int_distribution<std::size_t>(1, 20'000)(random);
    INFO("a kill after " << bytes << " bytes");
    REQUIRE(eventually([&] { return event_bytes(out).size() > bytes; }, std::chrono::minutes(1)));
    group.rank(0).signal(SIGKILL);
    CHECK(group.wait()[0].status == 128 + SIGKILL);
    const std::string metrics = text_of(out / "metrics.jsonl");
    const std::size_t lines =
        check_lines(metrics, "interval").size() + check_lines(metrics, "epoch").size();
    // A line is written before its record; the file begins with two others.
    const std::size_t records = check_records(event_bytes(out));
    CHECK((records == 1 + lines || records == 2 + lines));
  }
}

TEST_CASE(
    "intervals are those of a run that nothing happened to, for any world size after a kill") {
  const SmallData data;
  const TempDir directory;
  const auto arguments = [&](const fs::path& out) {
    return three_epochs(data,
                        {"--log-every=3", "--checkpoint-every=1", "--keep=all", "--out", out});
  };
  const auto whole = directory.path() / "whole";
  train({.arguments = arguments(whole)});
  auto wanted = intervals_of(whole);
  REQUIRE(wanted.size() == 8);
  wanted.erase(3);
  // As kills would have it that came after step 4 or 5 and before the next checkpoint.
  for (const int killed_after : {4, 5}) {
    for (const int world_size : {1, 2, 4}) {
      INFO("after step " << killed_after << ", then " << world_size << " workers");
      const auto out = directory.path() / "killed";
      fs::create_directory(out);
      for (int step = 1; step <= killed_after; ++step) {
        const std::string name = "step-0000000" + std::to_string(step);
        fs::copy(whole / name, out / name, fs::copy_options::recursive);
      }
      train({.world_size = world_size, .arguments = arguments(out)});
      CHECK(intervals_of(out) == wanted);
      fs::remove_all(out);
    }
  }
}

TEST_CASE("a disk that is full is warned of once for each file, and training goes on") {
  const SmallData data;
  const TempDir directory;
  const auto out = directory.path() / "out";
  // Standard output is a pipe: a limit of file sizes is not for it.
  WorkerGroup group({.arguments = three_epochs(data, {"--log-every=1", "--checkpoint-every=off",
                                                      "--tensorboard", "--json", "--out", out}),
                     .prefix = {"sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"},
                     .json = false});
  const ChildResult result = group.wait()[0];
  INFO(result.err);
  CHECK(result.status == 0);
  for (const std::string file : {"/metrics.jsonl", "/events.out.tfevents."})
    CHECK_THAT(result.err, Catch::Matchers::Contains("train: warning: " + out.string() + file));
  CHECK(result.err.ends_with(": File too large; going on without it\n"));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 2);
  CHECK(check_lines(result.out, "interval").size() == 24);
  const std::size_t points = check_records(event_bytes(out)) - 2;
  CHECK(points > 0);
  CHECK(points < 24);
}
