// From which checkpoint a run goes on, with each --resume.
#include "trainer/run/plan/start.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/captured_stderr.hpp"
#include "tests/support/temp_dir.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

const DataFacts kStartData{.name = "shapes",
                           .content = "0123456789abcdef",
                           .test_content = "fedcba9876543210",
                           .samples = 1000,
                           .shape = {.height = 28, .width = 28, .channels = 1},
                           .classes = 10};

CheckpointLayout one_parameter() {
  CheckpointLayout layout;
  layout.parameters = {{.name = "a",
                        .shape = {4},
                        .layout = ParameterLayout::as_pytorch,
                        .offset = 0,
                        .count = 4,
                        .decay = true}};
  layout.arena_size = 16;
  return layout;
}

struct StartFixture {
  ddprun::test::TempDir directory;
  CheckpointLayout layout = one_parameter();
  Options options;
  WorkerEnvironment environment;
  Report report{{.rank = 0, .json = false, .quiet = true, .place = {}, .metrics = ""}};

  /// A checkpoint as a run with `made_by` in `environment` writes it.
  fs::path put(std::int64_t step, std::uint64_t sequence, const Options& made_by) {
    Snapshot snapshot(layout);
    const TrainPlan plan = make_plan(made_by, environment, kStartData, std::nullopt);
    snapshot.state = fresh_state(plan);
    snapshot.state.step = step;
    snapshot.state.sequence = sequence;
    snapshot.state.config = plan.config;
    snapshot.state.origin.compute = "a CPU";
    PendingCheckpoint pending(directory.path());
    write_checkpoint(pending.path(), layout, snapshot);
    return pending.publish(step, false).path;
  }
  std::vector<TrainPlan> announced;  // before a checkpoint is read
  StartingPoint find() {
    return find_start(
        options, environment, kStartData, directory.path(), layout, "a CPU",
        [this](const TrainPlan& plan) { announced.push_back(plan); }, report);
  }
};

TEST_CASE("an empty directory is a fresh start, also with strict") {
  StartFixture fixture;
  CHECK_FALSE(fixture.find().snapshot);
  fixture.options.checkpoints.resume = Resume::strict;
  CHECK_FALSE(fixture.find().snapshot);
}

TEST_CASE("the newest checkpoint of this run is gone on from") {
  StartFixture fixture;
  fixture.put(10, 0, {});
  fixture.put(20, 1, {});
  const StartingPoint start = fixture.find();
  REQUIRE(start.snapshot);
  CHECK(start.snapshot->state.step == 20);
  CHECK(start.sequence_next == 2);
  CHECK_THAT(start.path, Contains("step-00000020"));
}

TEST_CASE("the plan is announced before a checkpoint is read, and of no other run's") {
  StartFixture fixture;
  Options four;
  four.batches.shards = 4;
  fixture.put(10, 0, four);
  Options other;
  other.seed = 7;
  fixture.put(20, 1, other);
  CHECK(fixture.find().snapshot);
  REQUIRE(fixture.announced.size() == 1);
  CHECK(fixture.announced[0].shards == 4);
  fixture.options.checkpoints.resume = Resume::never;
  fixture.find();
  CHECK(fixture.announced.size() == 1);
}

TEST_CASE("never starts afresh, above the existing sequence numbers") {
  StartFixture fixture;
  fixture.put(10, 4, {});
  fixture.options.checkpoints.resume = Resume::never;
  CHECK_FALSE(fixture.find().snapshot);
  CHECK(fixture.find().sequence_next == 5);
}

TEST_CASE(
    "checkpoints of another batch, V, seed or number of threads are skipped, or refused by "
    "strict") {
  const auto other = GENERATE(0, 1, 2, 3);
  StartFixture fixture;
  fixture.put(10, 0, {});
  Options changed;
  if (other == 0) changed.batches.batch = 32;
  if (other == 1) changed.batches.shards = 7;
  if (other == 2) changed.seed = 9;
  if (other == 3) changed.device.threads_per_shard = 2;
  fixture.put(20, 1, changed);
  fixture.options.batches.shards = 1;
  REQUIRE(fixture.find().snapshot);
  CHECK(fixture.find().snapshot->state.step == 10);
  fixture.options.checkpoints.resume = Resume::strict;
  CHECK_THROWS_WITH(fixture.find(), Contains("--resume=strict") && Contains("step-00000020") &&
                                        Contains("another run") && Contains("step-00000010"));
}

TEST_CASE("several checkpoints with one reason are one line, and a last one tells of step 0") {
  StartFixture fixture;
  Options two;
  two.batches.shards = 2;
  for (const int step : {10, 20, 30}) fixture.put(step, static_cast<std::uint64_t>(step), two);
  fixture.options.device.parallel = Parallel::dp;
  fixture.options.device.replicas = 3;
  const std::string told =
      ddprun::test::captured_stderr([&] { CHECK_FALSE(fixture.find().snapshot); });
  CHECK(told == "train: warning: skipped 3 checkpoints: " +
                    (fixture.directory.path() / "step-00000030").string() +
                    " and older ones: --replicas is 3 here, but a step has 2 shards (V) there, "
                    "which 3 does not divide: give --replicas=2 to go on with it; starting from "
                    "step 0\n");
}

TEST_CASE("a damaged newest checkpoint is skipped, or refused by strict") {
  StartFixture fixture;
  fixture.put(10, 0, {});
  fs::resize_file(fixture.put(20, 1, {}) / kModelFile, 20);
  CHECK(fixture.find().snapshot->state.step == 10);
  fixture.options.checkpoints.resume = Resume::strict;
  CHECK_THROWS_WITH(fixture.find(), Contains("model.safetensors") && Contains("cut short"));
}

TEST_CASE("a directory with checkpoints of another version alone is refused, unless asked for") {
  StartFixture fixture;
  const auto age = [](const fs::path& checkpoint) {
    std::ofstream(checkpoint / kStateFile) << R"({"format": "ddprun-checkpoint-2"})";
  };
  age(fixture.put(10, 0, {}));
  age(fixture.put(20, 1, {}));
  CHECK_THROWS_WITH(
      fixture.find(),
      Contains("no checkpoint in " + fixture.directory.path().string() + " can be resumed: ") &&
          Contains("step-00000020/state.json: written by another version of train") &&
          Contains("; --resume=never begins a new run there"));
  fixture.options.checkpoints.resume = Resume::never;
  CHECK_FALSE(fixture.find().snapshot);
  fixture.options.checkpoints.resume = Resume::automatic;
  // One of this version is gone on from, though it counts as older.
  fixture.put(5, 2, {});
  CHECK(fixture.find().snapshot->state.step == 5);
}

TEST_CASE("V comes from the checkpoint, whatever the number of workers now") {
  StartFixture fixture;
  Options four;
  four.batches.shards = 4;
  fixture.put(10, 0, four);
  fixture.environment.world_size = 2;
  const StartingPoint start = fixture.find();
  REQUIRE(start.snapshot);
  CHECK(shards_of(start.snapshot->state.config) == 4);
  fixture.environment.world_size = 5;
  CHECK_FALSE(fixture.find().snapshot);
}

TEST_CASE("other settings that fix no bits so far do not stop a run from going on") {
  StartFixture fixture;
  fixture.put(10, 0, {});
  fixture.options.optimizer.learning_rate = 0.001;
  CHECK(fixture.find().snapshot);
}

TEST_CASE("unfinished checkpoints of dead writers are removed") {
  StartFixture fixture;
  fs::create_directory(fixture.directory / ".writing-abc");
  fixture.find();
  CHECK_FALSE(fs::exists(fixture.directory / ".writing-abc"));
}

TEST_CASE("a place that cannot be written to is refused at the start") {
  const ddprun::test::TempDir directory;
  std::ofstream(directory / "file") << "x";
  CHECK_THROWS_WITH(RunDirectory(directory / "file"),
                    Contains("--out") && Contains("Not a directory"));
  CHECK_THROWS_WITH(RunDirectory(directory / "file" / "below"), Contains("Not a directory"));
  CHECK_THROWS_AS(RunDirectory("/proc/nowhere"), DataError);
}

TEST_CASE("the directory of a run that does not start is removed, with its new parents") {
  const ddprun::test::TempDir directory;
  {
    const RunDirectory refused(directory / "a" / "b");
    CHECK(fs::is_directory(directory / "a" / "b"));
  }
  CHECK_FALSE(fs::exists(directory / "a"));
  {
    RunDirectory started(directory / "a" / "b");
    started.keep();
  }
  CHECK(fs::is_directory(directory / "a" / "b"));
  { const RunDirectory there(directory / "a" / "b"); }
  CHECK(fs::is_directory(directory / "a" / "b"));
}

TEST_CASE("of two runs that want the same new directory one is told that it is another's") {
  const ddprun::test::TempDir directory;
  const RunDirectory first(directory / "runs" / "run-0001");
  CHECK(first.is_new());
  {
    const RunDirectory second(directory / "runs" / "run-0001");
    CHECK_FALSE(second.is_new());
  }
  CHECK(fs::is_directory(directory / "runs" / "run-0001"));
}

TEST_CASE("a directory that is not empty stays") {
  const ddprun::test::TempDir directory;
  {
    const RunDirectory refused(directory / "a" / "b");
    std::ofstream(directory / "a" / "file") << "x";
  }
  CHECK_FALSE(fs::exists(directory / "a" / "b"));
  CHECK(fs::exists(directory / "a" / "file"));
}

}  // namespace
}  // namespace ddprun::trainer
