// What metrics.jsonl says of a run.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

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

}  // namespace

TEST_CASE("a line after every N steps has their loss and the rate, the same for any world size") {
  const auto every = lines_of(1, "1");
  REQUIRE(every.size() == 16);
  const auto third = lines_of(1, "3");
  REQUIRE(third.size() == 5);
  for (std::size_t i = 0; i < third.size(); ++i) {
    CHECK(third[i]["step"] == 3 * (i + 1));
    CHECK(third[i]["steps"] == 3);
    CHECK(third[i]["learning_rate"] == every[3 * i + 2]["learning_rate"]);
  }
  // All shards of the first steps are full, so the mean over samples is that over steps.
  const auto loss = [&](std::size_t i) { return every[i]["loss"].get<double>(); };
  CHECK(third[0]["loss"].get<double>() == Approx((loss(0) + loss(1) + loss(2)) / 3));
  const auto two = lines_of(2, "3");
  REQUIRE(two.size() == 5);
  for (std::size_t i = 0; i < two.size(); ++i)
    for (const char* key : {"step", "loss", "accuracy", "learning_rate"})
      CHECK(two[i][key] == third[i][key]);
}
