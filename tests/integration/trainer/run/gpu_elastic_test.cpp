// Workers on emulated GPUs, with a fake NCCL, that are kept when another one dies.
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/integration/trainer/run/fake_agent.hpp"
#include "tests/integration/trainer/run/gpu_runs.hpp"

using namespace ddprun::test;

TEST_CASE("a run on GPUs goes on with the memory of the survivors after a kill") {
  const SmallData data;
  const int workers = GENERATE(2, 4);
  const std::vector<std::string> arguments{"--data",
                                           data.path(),
                                           "--batch=8",
                                           "--shards=4",
                                           "--epochs=2",
                                           "--exact",
                                           "--checkpoint-every=off"};
  const GroupOptions undisturbed = on_gpus(arguments, workers);
  const std::string base = train(undisturbed);
  std::vector<std::string> shown = undisturbed.arguments;
  shown.emplace_back("--json");
  for (int victim = 0; victim < 2; ++victim) {
    INFO(workers << " workers, rank " << victim << " is killed");
    FakeAgent agent({.workers = workers,
                     .arguments = shown,
                     .program = undisturbed.program,
                     .environment = undisturbed.environment});
    REQUIRE(agent.run_until([&] { return agent.all_joined() && agent.step() >= 5; }));
    agent.signal(victim, SIGKILL);
    REQUIRE(agent.run_until([&] { return agent.round() == 1; }));
    CHECK(agent.source_step() >= 1);  // the step after which the ranks last met
    agent.finish();
    INFO(agent.events() << agent.err());
    check_same_result(base, last_line(agent.out()), "test_accuracy");
    CHECK(agent.round() == 1);
  }
}
