// How the ranks of a run end together when one of them, or all, cannot go on.
#include "trainer/run/loop/train_loop.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/captured_stderr.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/comm/rank_groups.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/model/model.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/plan/start.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

constexpr ImageShape kShape{8, 8, 1};

struct Ended {
  std::vector<int> codes;  ///< by rank
  std::string output;      ///< what they wrote to stderr
};

/// Two ranks, one step, one epoch. The momentum of the ranks in `broken` begins with a nan in the
/// place of the second parameter, so that the update makes a weight of it; all losses of the
/// training set are numbers.
Ended run_two_ranks(const std::vector<int>& broken) {
  Options options;
  options.batches.batch = 8;
  options.batches.epochs = 1;
  options.comm.timeout = std::chrono::seconds(5);
  options.checkpoints.every.kind = CheckpointEvery::Kind::off;
  TrainAndTest sets;
  for (auto* set : {&sets.train, &sets.test})
    *set = std::make_unique<ByteImageSet>("shapes", make_shapes(1, 0, 16, kShape),
                                          shapes_normalization(1));
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = kShape, .classes = 10});
  const Preparation preparation({}, *sets.train);
  const ddprun::test::TempDir directory;
  Ended ended{.codes = std::vector<int>(2), .output = {}};
  const auto one_rank = [&](Communicator& communicator) {
    WorkerEnvironment environment;
    environment.rank = communicator.rank();
    environment.world_size = 2;
    const TrainPlan plan =
        make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
    Learner learner(graph, test::host(), {.optimizer = optimizer_config(options), .shards = 2});
    std::vector<float> arena(graph.arena_size());
    initialize_weights(options, graph, arena);
    learner.copy_in(0, arena);
    arena.assign(arena.size(), 0);
    if (std::find(broken.begin(), broken.end(), communicator.rank()) != broken.end())
      arena[graph.parameters()[1].offset] = std::numeric_limits<float>::quiet_NaN();
    learner.copy_in(1, arena);
    Lanes lanes(1);
    Report report(
        {.rank = environment.rank, .quiet = true, .place = {.world_size = 2}, .metrics = {}});
    std::unique_ptr<CheckpointKeeper> keeper;
    if (environment.rank == 0)
      keeper = std::make_unique<CheckpointKeeper>(
          CheckpointKeeper::Settings{
              .every = options.checkpoints.every,
              .path_on_disk = {},
              .writer = {.directory = directory.path(), .layout = {}, .on_failure = {}},
              .warn = [](const std::string&) {},
              .fail = [](const std::string&) {}},
          Clock::now());
    TrainingState state = fresh_state(plan);
    TrainLoop loop({.options = options,
                    .environment = environment,
                    .plan = plan,
                    .sets = sets,
                    .preparation = preparation,
                    .graph = graph,
                    .device = test::host(),
                    .lanes = lanes,
                    .communicator = communicator,
                    .report = report,
                    .keeper = keeper.get(),
                    .state = state,
                    .learner = learner});
    int& code = ended.codes[static_cast<std::size_t>(environment.rank)];
    try {
      code = loop.run().value_or(-1);
    } catch (const std::exception& error) {
      report.error(error.what());
      code = kExitFailure;
    }
    // As the end of its process does.
    if (code == kExitFailure) communicator.abort("it failed");
  };
  ended.output = ddprun::test::captured_stderr([&] {
    static_cast<void>(test::run_group({.kind = test::GroupKind::shared_memory,
                                       .world_size = 2,
                                       .shards = 2,
                                       .arena_floats = graph.arena_size()},
                                      one_rank));
  });
  return ended;
}

TEST_CASE("weights that are no numbers on one rank alone end the run, and that rank is named") {
  const int broken = GENERATE(0, 1);
  const Ended ended = run_two_ranks({broken});
  INFO(ended.output);
  const auto index = static_cast<std::size_t>(broken);
  CHECK(ended.codes[index] == kExitFailure);
  CHECK(ended.codes[1 - index] == kExitPeerLost);
  CHECK_THAT(ended.output, Contains("train: error: rank " + std::to_string(broken) +
                                    ": fc3.bias is not finite after step 1 on rank " +
                                    std::to_string(broken) + " alone: "));
}

TEST_CASE("of weights that are no numbers on any rank, rank 0 reports") {
  const Ended ended = run_two_ranks({0, 1});
  INFO(ended.output);
  CHECK(ended.codes == std::vector<int>{kExitFailure, kExitPeerLost});
  CHECK_THAT(ended.output, Contains("train: error: rank 0: fc3.bias is not finite after step 1: "));
}

TEST_CASE("two ranks with sound weights come to the end") {
  const Ended ended = run_two_ranks({});
  INFO(ended.output);
  CHECK(ended.codes == std::vector<int>{0, 0});
}

}  // namespace
}  // namespace ddprun::trainer
