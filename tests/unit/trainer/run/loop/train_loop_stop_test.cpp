// How the ranks of a run end together when one of them is asked to.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/support/captured_stderr.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/comm/rank_groups.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/model/model.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/loop/train_loop.hpp"
#include "trainer/run/plan/start.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

constexpr ImageShape kPicture{8, 8, 1};
constexpr int kAsked = kExitSignalBase + SIGTERM;

/// Pictures; reading one of them asks a run to end.
class AskingSet final : public ImageSet {
 public:
  /// `slowly`: each read takes so long once it was asked.
  AskingSet(std::size_t count, std::atomic<int>* asked, std::size_t at,
            std::chrono::milliseconds slowly)
      : ImageSet({.name = "shapes", .classes = kShapeKinds, .size = count},
                 {.shape = kPicture, .normalization = shapes_normalization(1)}),
        pictures_("shapes", make_shapes(1, 0, count, kPicture), shapes_normalization(1)),
        asked_(asked),
        at_(at),
        slowly_(slowly) {}
  [[nodiscard]] std::int32_t label(std::size_t index) const override {
    return pictures_.label(index);
  }
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override {
    if (index == at_) {
      asked_->store(SIGTERM);
    } else if (*asked_ != 0) {
      std::this_thread::sleep_for(slowly_);
    }
    pictures_.read_image(index, pixels, mask);
  }

 private:
  ByteImageSet pictures_;
  std::atomic<int>* asked_;
  std::size_t at_;
  std::chrono::milliseconds slowly_;
};

/// Two ranks, two epochs of four steps: 64 pictures, 8 for each rank and step. The state of both is
/// kept, so that a run can go on.
struct TwoRanks {
  TwoRanks() {
    options.batches.batch = 8;
    options.batches.epochs = 2;
    options.comm.timeout = std::chrono::seconds(20);
    options.checkpoints.every.kind = CheckpointEvery::Kind::off;
    options.checkpoints.out = "out";
    ask_in_training(1000);
  }
  /// Rank 1 is asked when it reads this picture of the training set.
  void ask_in_training(std::size_t index) { make_sets(index, 1000); }
  /// Rank 1 is asked when it reads this picture of the held-out set.
  void ask_in_evaluation(std::size_t index) { make_sets(1000, index); }
  void make_sets(std::size_t in_training, std::size_t in_evaluation) {
    sets.train =
        std::make_unique<AskingSet>(64, &asked[1], in_training, std::chrono::milliseconds(0));
    sets.test = std::make_unique<AskingSet>(64, &asked[1], in_evaluation, slow_evaluation);
  }

  /// The exit codes. `loses_rank_1`: it is gone when rank 0 has begun its first step.
  std::vector<int> run(bool loses_rank_1 = false) {
    std::vector<int> codes(2);
    output = ddprun::test::captured_stderr([&] {
      static_cast<void>(test::run_group({.kind = test::GroupKind::shared_memory,
                                         .world_size = 2,
                                         .shards = 2,
                                         .arena_floats = graph.arena_size()},
                                        [&](Communicator& communicator) {
                                          const auto rank =
                                              static_cast<std::size_t>(communicator.rank());
                                          if (rank == 1 && loses_rank_1)
                                            return communicator.abort("it is gone");
                                          codes[rank] = run_rank(communicator);
                                        }));
    });
    return codes;
  }

  int run_rank(Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    WorkerEnvironment environment;
    environment.rank = communicator.rank();
    environment.world_size = 2;
    const TrainPlan plan =
        make_plan(options, environment, facts_of(*sets.train, *sets.test), std::nullopt);
    Learner learner(graph, test::host(), {.optimizer = optimizer_config(options), .shards = 2});
    if (weights[rank].empty()) {
      states[rank] = fresh_state(plan);
      weights[rank].assign(2, std::vector<float>(graph.arena_size()));
      initialize_weights(options, graph, weights[rank][0]);
    }
    for (std::size_t i = 0; i < 2; ++i) learner.copy_in(i, weights[rank][i]);
    learner.set_step_state(states[rank].step_state);
    Lanes lanes(1);
    Report report(
        {.rank = environment.rank, .quiet = true, .place = {.world_size = 2}, .metrics = {}});
    std::unique_ptr<CheckpointKeeper> keeper;
    if (rank == 0)
      keeper = std::make_unique<CheckpointKeeper>(
          CheckpointKeeper::Settings{
              .every = options.checkpoints.every,
              .path_on_disk = {},
              .writer = {.directory = directory.path(), .layout = {}, .on_failure = {}},
              .warn = [](const std::string&) {},
              .fail = [](const std::string&) {}},
          Clock::now());
    const Preparation preparation({}, *sets.train);
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
                    .state = states[rank],
                    .learner = learner,
                    .asked = &asked[rank]});
    const int code = loop.run().value_or(-1);
    for (std::size_t i = 0; i < 2; ++i) learner.copy_out(i, weights[rank][i]);
    return code;
  }
  /// As the same command does later.
  void go_on() {
    for (auto& one : asked) one = 0;
    make_sets(1000, 1000);
    CHECK(run() == std::vector{0, 0});
  }

  Options options;
  std::chrono::milliseconds slow_evaluation{0};
  TrainAndTest sets;
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = kPicture, .classes = 10});
  const ddprun::test::TempDir directory;
  std::array<std::atomic<int>, 2> asked{};  // by rank
  std::array<TrainingState, 2> states;
  std::array<std::vector<std::vector<float>>, 2> weights;  // and moments
  std::string output;
};

bool same_epochs(const TrainingState& one, const TrainingState& other) {
  if (one.epochs.size() != other.epochs.size()) return false;
  for (std::size_t i = 0; i < one.epochs.size(); ++i) {
    const EpochSummary& a = one.epochs[i];
    const EpochSummary& b = other.epochs[i];
    if (a.train_loss != b.train_loss || a.test_loss != b.test_loss) return false;
  }
  return true;
}

TEST_CASE(
    "if one rank is asked to end, all end after the same step, and go on with the same bits") {
  TwoRanks undisturbed;
  REQUIRE(undisturbed.run() == std::vector{0, 0});

  TwoRanks stopped;
  SECTION("in training") {
    stopped.ask_in_training(GENERATE(3, 30, 60));
    CHECK(stopped.run() == std::vector{kAsked, kAsked});
    CHECK(stopped.states[0].step > 0);
    CHECK(stopped.states[0].step <= 8);
  }
  SECTION("in an evaluation, which is given up") {
    // The other rank goes on with its own part, for longer than one waits for a rank that is
    // silent.
    if (GENERATE(false, true)) {
      stopped.options.comm.timeout = std::chrono::seconds(3);
      stopped.slow_evaluation = std::chrono::milliseconds(250);
    }
    stopped.ask_in_evaluation(9);  // the second batch, which is rank 1's
    CHECK(stopped.run() == std::vector{kAsked, kAsked});
    CHECK(stopped.states[0].step == 4);
    CHECK(stopped.states[0].block == 4);
    CHECK(stopped.states[0].epochs.empty());
  }
  CHECK(stopped.states[1].step == stopped.states[0].step);
  CHECK(stopped.states[1].block == stopped.states[0].block);
  stopped.go_on();
  CHECK(stopped.states[0].step == 8);
  CHECK(stopped.weights[0] == undisturbed.weights[0]);
  CHECK(same_epochs(stopped.states[0], undisturbed.states[0]));
}

TEST_CASE("a rank that is asked to end and loses another one ends with the signal's code") {
  TwoRanks ranks;
  ranks.asked[0] = SIGINT;
  CHECK(ranks.run(true)[0] == kExitSignalBase + SIGINT);
  CHECK_THAT(ranks.output, Contains("; SIGINT had asked it to end; there is no checkpoint"));
}

TEST_CASE("a rank that was not asked ends with the signal of the one that was") {
  TwoRanks ranks;
  ranks.asked[0] = SIGINT;
  CHECK(ranks.run() == std::vector(2, kExitSignalBase + SIGINT));
  CHECK(ranks.states[0].step == 1);
  CHECK_THAT(ranks.output, Contains("warning: rank 1: rank 0 got SIGINT: all end after step 1\n") &&
                               !Contains("warning: rank 0: "));
}

}  // namespace
}  // namespace ddprun::trainer
