// Workers that are kept when another one dies: the run goes on with their memory, and ends with the
// same bits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <random>

#include "tests/integration/trainer/run/fake_agent.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

using Arguments = std::vector<std::string>;

/// A run of some 60 steps of 4 shards, without checkpoints, so that nothing can be read from them.
Arguments small_run(const SmallData& data, const Arguments& more = {}) {
  Arguments arguments{"--data", data.path(), "--batch=8", "--shards=4", "--epochs=8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The figures of a run that nothing happens to.
std::string undisturbed_run(const Arguments& arguments) {
  return train({.world_size = 1, .arguments = with(arguments, {"--checkpoint-every=off"})});
}

}  // namespace

TEST_CASE("a run goes on with the memory of the survivors after a kill") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  std::mt19937 random(17);
  for (int turn = 0; turn < 20; ++turn) {
    INFO("turn " << turn);
    FakeAgent agent(
        {.workers = 4, .arguments = with(arguments, {"--checkpoint-every=off", "--json"})});
    REQUIRE(agent.run_until([&] { return agent.all_joined(); }));
    const auto step = static_cast<std::int64_t>(1 + random() % 40);
    REQUIRE(agent.run_until([&] { return agent.step() >= step; }));
    agent.run_for(std::chrono::microseconds(random() % 4000));
    agent.signal(turn % 4, SIGKILL);
    REQUIRE(agent.run_until([&] { return agent.round() == 1; }));
    CHECK(agent.source_step() >= step);
    agent.finish();
    check_same_result(base, last_line(agent.out()), "test_accuracy");
    INFO(agent.events() << agent.err());
    CHECK(field(last_line(agent.out()), "restarts") == "1");
  }
}
