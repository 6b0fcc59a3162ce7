// Rank 0's side of checkpoints: what is on disk at the end, and what is said when it is not.
#include "trainer/checkpoint/checkpoint_keeper.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <thread>

#include "tests/support/temp_dir.hpp"
#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/host/host_device.hpp"
#include "trainer/model/graph_builder.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

/// Two weights and a bias of two outputs: 32 floats.
Graph one_layer() {
  GraphBuilder graph({1, 1, 1});
  graph.softmax_cross_entropy(graph.linear("a", 0, 2));
  return graph.finish();
}

struct Keeping {
  ddprun::test::TempDir directory;
  Graph graph = one_layer();
  std::unique_ptr<Device> device = make_host_device();
  Learner learner{graph, *device, {}};
  TrainingState state;
  std::vector<std::string> warnings;
  std::atomic<int> warned = 0;
  std::vector<std::string> failures;

  CheckpointLayout layout() const {
    CheckpointLayout result;
    result.parameters = graph.parameters();
    result.arena_size = graph.arena_size();
    result.moments = {"momentum_buffer"};
    return result;
  }
  CheckpointKeeper keeper(const CheckpointEvery& every, std::int64_t step_on_disk = -1,
                          std::int64_t block_on_disk = 0) {
    return CheckpointKeeper({.every = every,
                             .sequence_next = 1,
                             .step_on_disk = step_on_disk,
                             .block_on_disk = block_on_disk,
                             .path_on_disk = step_on_disk < 0 ? "" : "resumed",
                             .writer = {.directory = directory / "out",
                                        .keep = 2,
                                        .layout = layout(),
                                        .on_failure = {}},
                             .warn =
                                 [this](const std::string& text) {
                                   warnings.push_back(text);
                                   ++warned;
                                 },
                             .fail = [this](const std::string& text) { failures.push_back(text); }},
                            std::chrono::steady_clock::now());
  }
  void offer(CheckpointKeeper& keeper, std::int64_t step, bool best = false) {
    state.step = step;
    std::vector<float> arena(graph.arena_size());
    arena[0] = static_cast<float>(step);
    learner.copy_in(0, arena);
    arena = std::vector<float>(graph.arena_size());
    arena[1] = static_cast<float>(-step);
    learner.copy_in(1, arena);
    keeper.offer(state, learner, best, std::chrono::steady_clock::now());
  }
  FoundCheckpoint find() const {
    return find_newest(directory / "out", layout(),
                       [](const TrainingState&) { return std::string(); });
  }
};

const CheckpointEvery kEveryTwo{.kind = CheckpointEvery::Kind::steps, .steps = 2};
const CheckpointEvery kOff{.kind = CheckpointEvery::Kind::off};

TEST_CASE("with every epoch a state is due between two epochs, and only there") {
  Keeping fixture;
  auto keeper = fixture.keeper({.kind = CheckpointEvery::Kind::epoch});
  fixture.state.block = 3;
  fixture.offer(keeper, 3);
  CHECK(keeper.newest().empty());
  fixture.state.block = 0;
  fixture.offer(keeper, 4);
  CHECK(keeper.finish(fixture.state, fixture.learner));
  CHECK_THAT(keeper.newest(), Catch::Matchers::EndsWith("step-00000004"));
}

TEST_CASE("the end writes an epoch's last step again once the epoch is evaluated") {
  Keeping fixture;
  SECTION("of this run") {
    auto keeper = fixture.keeper(kEveryTwo);
    fixture.state.block = 3;
    fixture.offer(keeper, 4);
    fixture.state.block = 0;
    CHECK(keeper.finish(fixture.state, fixture.learner));
    CHECK_THAT(keeper.newest(), Catch::Matchers::EndsWith("step-00000004.2"));
  }
  SECTION("of the run before") {
    auto keeper = fixture.keeper(kEveryTwo, 4, 3);
    fixture.state.step = 4;
    CHECK(keeper.finish(fixture.state, fixture.learner));
    CHECK_THAT(keeper.newest(), Catch::Matchers::EndsWith("step-00000004"));
  }
}

TEST_CASE("links that cannot be made are told of once, with what works without them") {
  Keeping fixture;
  const std::string out = fixture.directory / "out";
  std::filesystem::create_directories(out + "/latest/folder");  // no link can take this name
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  for (const std::int64_t step : {2, 4}) fixture.offer(keeper, step);
  CHECK(keeper.finish(fixture.state, fixture.learner));
  REQUIRE(fixture.warnings.size() == 1);
  CHECK_THAT(fixture.warnings[0],
             Contains(out + ": no links to the newest and the best checkpoint: ") &&
                 Contains("train --eval --resume-from=" + out + " finds the best one"));
}

TEST_CASE("each step that is due is on disk, with parameters and moments") {
  Keeping fixture;
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  for (const std::int64_t step : {1, 2, 3, 4}) fixture.offer(keeper, step);
  CHECK(keeper.finish(fixture.state, fixture.learner));
  const FoundCheckpoint found = fixture.find();
  REQUIRE(found.snapshot);
  CHECK(found.snapshot->state.step == 4);
  CHECK(found.snapshot->state.sequence == 2);
  CHECK(found.snapshot->parameters.span()[0] == 4);
  CHECK(found.snapshot->moments[0].span()[1] == -4);
  CHECK_THAT(keeper.newest(), Contains("step-00000004"));
}

TEST_CASE("a state that is wanted on disk is written, and tried again a second after a failure") {
  Keeping fixture;
  const auto now = std::chrono::steady_clock::now();
  const auto step_on_disk = [](CheckpointKeeper& keeper) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (keeper.step_on_disk() < 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return keeper.step_on_disk();
  };
  const auto offer = [&](CheckpointKeeper& keeper, std::int64_t step, std::int64_t wanted,
                         std::chrono::milliseconds after) {
    fixture.state.step = step;
    keeper.offer(fixture.state, fixture.learner, false, now + after, wanted);
  };
  const CheckpointEvery seldom{.kind = CheckpointEvery::Kind::steps, .steps = 1000};
  SECTION("and no other one while it, or a later one, is there") {
    CheckpointKeeper keeper = fixture.keeper(seldom);
    offer(keeper, 3, -1, {});
    CHECK(keeper.step_on_disk() == -1);
    offer(keeper, 4, 3, {});
    CHECK(step_on_disk(keeper) == 4);
    offer(keeper, 5, 4, std::chrono::seconds(5));
    CHECK(keeper.finish(fixture.state, fixture.learner));
    CHECK_FALSE(std::filesystem::exists(fixture.directory / "out" / "step-00000003"));
    CHECK(std::filesystem::exists(fixture.directory / "out" / "step-00000004"));
  }
  SECTION("where the disk refuses it at first") {
    std::ofstream(fixture.directory / "out") << "a file where the folder should be";
    CheckpointKeeper keeper = fixture.keeper(seldom);
    offer(keeper, 3, 3, {});
    while (fixture.warned == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::filesystem::remove(fixture.directory / "out");
    offer(keeper, 4, 3, std::chrono::milliseconds(900));
    while (keeper.step_on_disk() < 0) offer(keeper, 5, 3, std::chrono::milliseconds(1100));
    CHECK(keeper.step_on_disk() == 5);
    CHECK(keeper.finish(fixture.state, fixture.learner));
  }
}

TEST_CASE("the end of a run is on disk, whatever the cadence") {
  Keeping fixture;
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  fixture.offer(keeper, 2);
  fixture.state.step = 3;
  CHECK(keeper.finish(fixture.state, fixture.learner));
  CHECK(fixture.find().snapshot->state.step == 3);
}

TEST_CASE("the best state is kept even when no checkpoint is due") {
  Keeping fixture;
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  fixture.offer(keeper, 1, true);
  for (const std::int64_t step : {2, 4, 6, 8}) fixture.offer(keeper, step);
  CHECK(keeper.finish(fixture.state, fixture.learner));
  CHECK(std::filesystem::exists(fixture.directory / "out" / "step-00000001"));
  CHECK_FALSE(std::filesystem::exists(fixture.directory / "out" / "step-00000004"));
}

TEST_CASE("what holds an inf or nan is never written, and its name is told") {
  Keeping fixture;
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  fixture.offer(keeper, 2);
  const auto offered = [&](std::size_t arena) {
    std::vector<float> values(fixture.graph.arena_size());
    values[fixture.graph.parameters()[1].offset] = std::numeric_limits<float>::infinity();
    fixture.learner.copy_in(arena, values);
    fixture.state.step = 4;
    const std::string bad =
        keeper.offer(fixture.state, fixture.learner, true, std::chrono::steady_clock::now());
    CHECK_FALSE(keeper.finish(fixture.state, fixture.learner));
    std::fill(values.begin(), values.end(), 0.0F);
    fixture.learner.copy_in(arena, values);
    return bad;
  };
  CHECK(offered(0) == "a.bias");
  CHECK(offered(1) == "momentum_buffer of a.bias");
  CHECK_THAT(fixture.failures.back(), Contains("step-00000002"));
  CHECK(fixture.find().snapshot->state.step == 2);
}

TEST_CASE("off writes nothing and is a success") {
  Keeping fixture;
  CheckpointKeeper keeper = fixture.keeper(kOff);
  fixture.offer(keeper, 2, true);
  CHECK(keeper.finish(fixture.state, fixture.learner));
  CHECK_FALSE(std::filesystem::exists(fixture.directory / "out"));
}

TEST_CASE("a run that could never write a checkpoint does not end in success") {
  Keeping fixture;
  std::ofstream(fixture.directory / "out") << "in the way";
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  fixture.offer(keeper, 2);
  CHECK_FALSE(keeper.finish(fixture.state, fixture.learner));
  REQUIRE(fixture.failures.size() == 1);
  CHECK_THAT(fixture.failures[0], Contains("no checkpoint was ever written"));
}

TEST_CASE("the first failed checkpoint is a warning and the others are counted") {
  Keeping fixture;
  std::ofstream(fixture.directory / "out") << "in the way";
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo);
  for (const std::int64_t step : {2, 4, 6}) fixture.offer(keeper, step);
  CHECK_FALSE(keeper.finish(fixture.state, fixture.learner));
  REQUIRE(fixture.warnings.size() == 1);
  CHECK_THAT(fixture.warnings[0], Contains("cannot write a checkpoint: ") &&
                                      Contains("but there is no checkpoint yet") &&
                                      !Contains("earlier"));
  REQUIRE(fixture.failures.size() == 1);
  CHECK_THAT(fixture.failures[0], Contains("3 checkpoints could not be written since "));
}

TEST_CASE("when the disk takes checkpoints again the lost ones are counted") {
  Keeping fixture;
  std::ofstream(fixture.directory / "out") << "in the way";
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo, 1);
  fixture.offer(keeper, 2);
  fixture.offer(keeper, 4);  // waits for the one before it
  fixture.state.step = 4;
  CHECK_FALSE(keeper.finish(fixture.state, fixture.learner));
  REQUIRE(fixture.warnings.size() == 1);
  CHECK_THAT(fixture.warnings[0], Contains("and the newest checkpoint is resumed"));
  REQUIRE(fixture.failures.size() == 1);
  CHECK_THAT(fixture.failures[0], Contains("2 checkpoints could not be written since "));
  std::filesystem::remove(fixture.directory / "out");
  fixture.offer(keeper, 6);
  CHECK(keeper.finish(fixture.state, fixture.learner));
  REQUIRE(fixture.warnings.size() == 2);
  CHECK_THAT(fixture.warnings[1], Contains("checkpoints are written again; 2 checkpoints could"));
  CHECK(fixture.failures.size() == 1);
}

TEST_CASE("a run of which only an older state is on disk reports that and does not succeed") {
  Keeping fixture;
  std::ofstream(fixture.directory / "out") << "in the way";
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo, 1);
  fixture.offer(keeper, 2);
  fixture.state.step = 3;
  CHECK_FALSE(keeper.finish(fixture.state, fixture.learner));
  CHECK_THAT(fixture.failures.back(), Contains("the newest checkpoint is resumed"));
}

TEST_CASE("a state that is on disk already is not written again") {
  Keeping fixture;
  CheckpointKeeper keeper = fixture.keeper(kEveryTwo, 4);
  fixture.state.step = 4;
  CHECK(keeper.finish(fixture.state, fixture.learner));
  CHECK_FALSE(std::filesystem::exists(fixture.directory / "out"));
  CHECK(keeper.newest() == "resumed");
}

}  // namespace
}  // namespace ddprun::trainer
