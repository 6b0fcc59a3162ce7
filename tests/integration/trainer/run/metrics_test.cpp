// What metrics.jsonl says of a run.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

namespace {

/// The lines of a run with V=4 and b=8 over 250 samples: 8 steps in each of two epochs.
std::vector<nlohmann::json> lines_of(int world_size, const std::string& log_every) {
  const SmallData data;
  const TempDir directory;
  train({.world_size = world_size,
         .arguments = {"--data", data.path(), "--batch=8", "--shards=4", "--epochs=2",
                       "--log-every=" + log_every, "--out", directory / "out"}});
  std::vector<nlohmann::json> intervals;
  std::ifstream file(directory / "out/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    if (json["type"] == "interval") intervals.push_back(std::move(json));
  }
  return intervals;
}

/// The steps of the lines of a type in `out`/metrics.jsonl.
std::vector<int> steps_of(const std::filesystem::path& out, const std::string& type) {
  std::vector<int> steps;
  std::ifstream file(out / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] == type) steps.push_back(json["step"]);
  }
  return steps;
}

/// Event 2: step, 5: summary; of that 1: value, and of a value 1: tag.
bool has_tag(protozero::pbf_reader summary, const std::string& tag) {
  while (summary.next(1)) {
    protozero::pbf_reader value = summary.get_message();
    if (value.next(1) && value.get_string() == tag) return true;
  }
  return false;
}

/// The steps of a curve in the event files of `out`, all together and sorted.
std::vector<int> points_of(const std::filesystem::path& out, const std::string& tag) {
  constexpr std::size_t kHead = 12;  // length (8), sum (4)
  constexpr std::size_t kFoot = 4;
  std::vector<int> steps;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    if (!entry.path().filename().string().starts_with("events.")) continue;
    const std::string bytes = text_of(entry.path());
    for (std::size_t at = 0; at + kHead <= bytes.size();) {
      std::uint64_t length = 0;
      std::memcpy(&length, bytes.data() + at, sizeof length);
      protozero::pbf_reader event(bytes.data() + at + kHead, length);
      std::int64_t step = 0;
      while (event.next()) {
        if (event.tag() == 2) {
          step = event.get_int64();
        } else if (event.tag() == 5) {
          if (has_tag(event.get_message(), tag)) steps.push_back(static_cast<int>(step));
        } else {
          event.skip();
        }
      }
      at += kHead + length + kFoot;
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Those of `steps` that are among `wanted`: a step that ends a second of a slow run has a point,
/// too.
std::vector<int> among(const std::vector<int>& wanted, std::vector<int> steps) {
  std::erase_if(steps,
                [&](int step) { return std::count(wanted.begin(), wanted.end(), step) == 0; });
  return steps;
}

}  // namespace

TEST_CASE("curves end with the last step of each start, which is there once") {
  const SmallData data;
  const TempDir directory;
  const auto out = directory.path() / "out";
  // In the middle of an epoch, at the end of one, and where nothing is left to do.
  for (const std::string last : {"5", "8", "8", "11"})
    train({.arguments = {"--data", data.path(), "--batch=8", "--shards=4", "--epochs=2",
                         "--max-steps=" + last, "--tensorboard", "--out", out}});
  const std::vector<int> ends{5, 8, 11};
  CHECK(among(ends, points_of(out, "loss/train")) == ends);
  CHECK(among(ends, points_of(out, "learning_rate/train")) == ends);
  CHECK(points_of(out, "loss/held-out") == ends);
  CHECK(among(ends, steps_of(out, "interval")) == ends);
}

TEST_CASE("curves of a run that a signal ends have its last step, too") {
  const SmallData data;
  const TempDir directory;
  const auto out = directory.path() / "out";
  WorkerGroup group({.arguments = {"--data", data.path(), "--batch=8", "--epochs=100000",
                                   "--tensorboard", "--out", out},
                     .json = false});
  REQUIRE(eventually([&] { return latest_step(out) >= 1; }, std::chrono::minutes(1)));
  group.rank(0).signal(SIGTERM);
  CHECK(group.wait()[0].status == 128 + SIGTERM);
  const auto stopped = steps_of(out, "stopped");
  REQUIRE(stopped.size() == 1);
  CHECK(steps_of(out, "interval").back() == stopped[0]);
  CHECK(points_of(out, "loss/train").back() == stopped[0]);
}

TEST_CASE("a line after every N steps has their loss and the rate, the same for any world size") {
  const auto every = lines_of(1, "1");
  REQUIRE(every.size() == 16);
  const auto third = lines_of(1, "3");
  REQUIRE(third.size() == 6);
  // What is left at the end has a line, too.
  CHECK(third[5]["step"] == 16);
  CHECK(third[5]["steps"] == 1);
  CHECK(third[5]["loss"] == every[15]["loss"]);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(third[i]["step"] == 3 * (i + 1));
    CHECK(third[i]["steps"] == 3);
    CHECK(third[i]["learning_rate"] == every[3 * i + 2]["learning_rate"]);
  }
  // All shards of the first steps are full, so the mean over samples is that over steps.
  const auto loss = [&](std::size_t i) { return every[i]["loss"].get<double>(); };
  CHECK(third[0]["loss"].get<double>() == Approx((loss(0) + loss(1) + loss(2)) / 3));
  const auto two = lines_of(2, "3");
  REQUIRE(two.size() == third.size());
  for (std::size_t i = 0; i < two.size(); ++i)
    for (const char* key : {"step", "loss", "accuracy", "learning_rate"})
      CHECK(two[i][key] == third[i][key]);
}

TEST_CASE("the memory of all ranks is the same but for rank 0's copies for checkpoints") {
  const SmallData data;
  const TempDir directory;
  for (const int ranks : {1, 2, 4}) {
    const auto json = nlohmann::json::parse(
        train({.world_size = ranks,
               .arguments = {"--data", data.path(), "--batch=8", "--shards=4", "--epochs=2",
                             "--out", directory / ("out" + std::to_string(ranks))}}));
    INFO(json);
    const auto device = json["peak_device_bytes"].get<std::vector<double>>();
    REQUIRE(device.size() == static_cast<std::size_t>(ranks));
    CHECK(device[0] > 1e6);
    for (const double one : device) CHECK(one == Approx(device[0]).epsilon(0.01));
    const auto process = json["peak_process_bytes"].get<std::vector<double>>();
    REQUIRE(process.size() == device.size());
    for (const double one : process) CHECK(one > device[0]);
  }
}

TEST_CASE("a run that has nothing to do draws no points and tells of no memory") {
  const SmallData data;
  const TempDir directory;
  const auto out = directory.path() / "out";
  const GroupOptions options{.arguments = {"--data", data.path(), "--batch=8", "--max-steps=5",
                                           "--tensorboard", "--out", out}};
  const auto count = [&](const std::string& type) {
    std::ifstream file(out / "metrics.jsonl");
    int lines = 0;
    for (std::string line; std::getline(file, line);) lines += field(line, "type") == type;
    return lines;
  };
  const auto event_files = [&] {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(out))
      files += entry.path().filename().string().starts_with("events.");
    return files;
  };
  const std::string first = train(options);
  CHECK(nlohmann::json::parse(first).contains("peak_device_bytes"));
  CHECK(count("epoch") == 1);
  CHECK(event_files() == 1);
  const std::string again = train(options);
  CHECK(field(again, "weights") == field(first, "weights"));
  CHECK(field(again, "test_loss") == field(first, "test_loss"));
  CHECK_FALSE(nlohmann::json::parse(again).contains("peak_device_bytes"));
  CHECK(count("epoch") == 1);
  CHECK(event_files() == 1);
}
