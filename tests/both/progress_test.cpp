// What train reports of its progress is what the agent reads.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "agent/progress/progress_page.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/job.hpp"

using namespace ddprun::test;
using Catch::Contains;

TEST_CASE("a run reports its step and phase and asks not to be watched after its end") {
  const SmallData data;
  const TempDir directory;
  const std::string page = directory / "page";
  train({.arguments = three_epochs(data, {"--out", directory / "out", "--max-steps", "5"}),
         .environment = {{"DDPRUN_PROGRESS_FILE", page}}});
  const auto last = ddprun::agent::read_progress_page(page).page;
  REQUIRE(last.has_value());
  CHECK(last->step == 5);
  CHECK(last->phase == "last checkpoint");
  CHECK_FALSE(last->watched);
  CHECK(last->saved == 0U);
}

TEST_CASE("a run writes a checkpoint when ddpctl asks for one, and goes on") {
  const SmallData data;
  const TempDir directory;
  const std::string id = "save-" + unique_mark();
  const auto checkpoints = [&directory] {
    int count = 0;
    if (!std::filesystem::exists(directory / "out")) return count;
    for (const auto& one : std::filesystem::directory_iterator(directory / "out"))
      if (one.path().filename().string().starts_with("step-")) ++count;
    return count;
  };
  Job surroundings;
  Child job({program("ddprun"), "--rdzv-id=" + id, "--nproc-per-node=2", program("train"),
             "--data=" + data.path(), "--out=" + (directory / "out").string(), "--batch=8",
             "--epochs=1000000", "--checkpoint-every=100000000", "--keep=all", "--log-every=10"},
            surroundings.settings());
  const auto save = [&id] { return run({program("ddpctl"), "save", id}); };
  ChildResult saved;
  REQUIRE(eventually([&] {  // it trains
    saved = save();
    return saved.out.starts_with("2 workers have saved, by step ");
  }));
  const int before = checkpoints();
  CHECK(before >= 1);
  saved = save();
  INFO(saved.out + saved.err);
  CHECK(saved.status == 0);
  CHECK_THAT(saved.out, Contains("2 workers have saved, by step "));
  CHECK(checkpoints() > before);
  CHECK(run({program("ddpctl"), "stop", id}).status == 0);
  const ChildResult ended = job.wait();
  INFO(ended.out + ended.err);
  CHECK(ended.status == 128 + SIGTERM);
  CHECK_THAT(ended.err, !Contains("restart"));
}
