// A run may change its device at a checkpoint.
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/integration/trainer/run/gpu_runs.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Contains;

/// Steps 1 to `last` of a run with moments, with a checkpoint at the end.
Arguments up_to(const SmallData& data, const std::string& out, const std::string& last) {
  return short_run(data, {"--optimizer=adamw", "--lr=0.002", "--out", out, "--max-steps", last});
}

std::string on_cpu(Arguments arguments) {
  arguments.emplace_back("--device=cpu");
  return train({.arguments = std::move(arguments)});
}

}  // namespace

TEST_CASE("weights that a GPU has written are read by a CPU bit for bit, and the other way round") {
  const SmallData data;
  const TempDir directory;
  const std::string out = (directory / "out").string();
  const std::string gpu = train(on_gpus(up_to(data, out, "2")));
  const std::string read_by_cpu = on_cpu(up_to(data, out, "2"));
  REQUIRE(field(gpu, "weights").size() == 16);
  CHECK(field(read_by_cpu, "weights") == field(gpu, "weights"));
  const std::string cpu = on_cpu(up_to(data, out, "4"));
  CHECK(field(cpu, "weights") != field(gpu, "weights"));
  const std::string read_by_gpus = train(on_gpus(up_to(data, out, "4"), 2));
  CHECK(field(read_by_gpus, "weights") == field(cpu, "weights"));
  CHECK(field(read_by_gpus, "steps") == "4");
}

TEST_CASE("a run that goes from GPUs to a CPU and back learns as one that stays on the CPU") {
  const SmallData data;
  const TempDir directory;
  const std::string stays = (directory / "stays").string();
  const std::string moves = (directory / "moves").string();
  const std::string whole = on_cpu(up_to(data, stays, "6"));
  train(on_gpus(up_to(data, moves, "2"), 2));
  on_cpu(up_to(data, moves, "4"));
  WorkerGroup last(on_gpus(up_to(data, moves, "6")));
  const ChildResult result = last.wait().front();
  INFO(result.err);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.err, Contains("was computed with oneDNN") && Contains("emulated GPU") &&
                             Contains("the last bits may differ"));
  const std::string moved = last_line(result.out);
  const auto number = [](const std::string& line, const char* name) {
    return std::stod(field(line, name));
  };
  CHECK(field(moved, "steps") == "6");
  for (const char* name : {"train_loss", "test_loss"})
    CHECK(number(moved, name) == Approx(number(whole, name)).epsilon(1e-4));
}

TEST_CASE(
    "a run that goes on with another number of GPUs is warned of other bits, unless it is exact") {
  const SmallData data;
  for (const bool exact : {false, true}) {
    const TempDir directory;
    const std::string out = (directory / "out").string();
    const auto with = [&](const std::string& last, int workers) {
      Arguments arguments = up_to(data, out, last);
      if (exact) arguments.emplace_back("--exact");
      return WorkerGroup(on_gpus(arguments, workers)).wait().front();
    };
    REQUIRE(with("2", 1).status == 0);
    const ChildResult result = with("4", 2);
    INFO(result.err);
    REQUIRE(result.status == 0);
    CHECK((result.err.find("the last bits may differ") == std::string::npos) == exact);
  }
}

TEST_CASE("a run on GPUs that SIGTERM ends after a step goes on with the same bits") {
  const SmallData data;
  const TempDir directory;
  const Arguments arguments = short_run(data, {"--exact", "--log-every=1"});
  const auto with_out = [&](const std::string& name) {
    Arguments all = arguments;
    all.insert(all.end(), {"--out", directory / name, "--checkpoint-every=1000"});
    return all;
  };
  const std::string whole = train(on_gpus(with_out("whole"), 2));
  {
    WorkerGroup stopped(on_gpus(with_out("stopped"), 2));
    REQUIRE(eventually([&] { return !text_of(directory / "stopped" / "metrics.jsonl").empty(); },
                       std::chrono::minutes(2)));
    stopped.rank(1).signal(SIGTERM);
    const std::vector<ChildResult> results = stopped.wait();
    for (const ChildResult& result : results) {
      INFO(result.out << result.err);
      CHECK(result.status == 128 + SIGTERM);
    }
    CHECK_THAT(results[0].err,
               Contains("warning: rank 0: rank 1 got SIGTERM: all end after step "));
    CHECK(results[1].err.empty());
  }
  const int step = latest_step(directory / "stopped");
  CHECK(step >= 1);
  CHECK_THAT(text_of(directory / "stopped" / "metrics.jsonl"),
             Contains("\"type\":\"stopped\"") && Contains("\"step\":" + std::to_string(step)));
  const std::string end = train(on_gpus(with_out("stopped"), 2));
  REQUIRE(field(end, "weights").size() == 16);
  CHECK(field(end, "weights") == field(whole, "weights"));
}
