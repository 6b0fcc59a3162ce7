// What train reports of its progress is what the agent reads.
#include <catch2/catch.hpp>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>

#include "agent/progress/progress_page.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/bound_socket.hpp"
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
  CHECK_FALSE(last->saved.has_value());
}

namespace {

/// By which ddpctl finds the parts of a job on this machine, of one node each.
std::vector<std::string> parts_of(const std::string& id) {
  std::vector<std::string> parts;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const auto at = line.find("/" + id);
    if (line.find(" 00010000 ") != std::string::npos && at != std::string::npos)
      parts.push_back(line.substr(at + 1));
  }
  return parts;
}

}  // namespace

TEST_CASE("a run writes a checkpoint when one of its nodes is asked for it, and goes on") {
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
  const std::string port = std::to_string(bound_socket().port);
  std::deque<Child> nodes;
  // The epoch does not end meanwhile: only what is asked for is saved.
  for (const char* const rank : {"0", "1"})
    nodes.emplace_back(
        std::vector<std::string>{
            program("ddprun"), "--rdzv-id=" + id, "--nnodes=2", "--nproc-per-node=1",
            "--node-rank=" + std::string(rank), "--master-addr=127.0.0.1", "--master-port=" + port,
            program("train"), "--out=" + (directory / "out").string(), "--model=lenet", "--batch=1",
            "--shards=2", "--epochs=1", "--checkpoint-every=100000000", "--keep=all"},
        surroundings.settings());
  REQUIRE(eventually([&id] { return parts_of(id).size() == 2; }));
  const auto saves = [](const std::string& part) {
    const ChildResult saved = run({program("ddpctl"), "save", part});
    return saved.status == 0 && saved.out.starts_with("1 worker has saved, by step ");
  };
  for (const std::string& part : parts_of(id)) REQUIRE(eventually([&] { return saves(part); }));
  for (const std::string& part : parts_of(id)) {
    const int before = checkpoints();
    CHECK(saves(part));
    CHECK(checkpoints() == before + 1);
  }
  CHECK(run({program("ddpctl"), "stop", id}).status == 0);
  for (Child& node : nodes) {
    const ChildResult ended = node.wait();
    INFO(ended.out + ended.err);
    CHECK(ended.status == 128 + SIGTERM);
    CHECK_THAT(ended.err, !Contains("restart"));
  }
}
