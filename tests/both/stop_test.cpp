// SIGTERM and SIGINT end a run after a step, with a checkpoint.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>
#include <thread>

#include "tests/both/stopped_runs.hpp"

using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

/// Where a shell has started the tests in the background, it ignores SIGINT, and all programs below
/// inherit that.
void take_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_DFL);
}

std::string word_behind(const std::string& name, const std::string& text) {
  std::istringstream words(text.substr(std::min(text.find(name), text.size())));
  std::string word;
  words >> word >> word;
  return word;
}

/// Whether no signal waits for the process, and its thread that takes them sleeps again.
bool has_taken_signals(pid_t pid) {
  const std::filesystem::path process = "/proc/" + std::to_string(pid);
  if (word_behind("ShdPnd:", text_of(process / "status")) != "0000000000000000") return false;
  for (const auto& thread : std::filesystem::directory_iterator(process / "task")) {
    const std::string status = text_of(thread.path() / "status");
    if (word_behind("Name:", status) == "signals") return word_behind("State:", status) == "S";
  }
  return false;
}

/// A run of two ranks, with a checkpoint after each step.
GroupOptions long_run(const SmallData& data, const TempDir& directory) {
  return {.world_size = 2,
          .arguments = {"--data", data.path(), "--out", directory / "out", "--batch=8",
                        "--shards=4", "--epochs=1000", "--checkpoint-every=1"}};
}

}  // namespace

TEST_CASE("a run that SIGTERM ends at a random moment goes on with the same bits") {
  const SmallData data;
  const std::string base = undisturbed(data);
  SECTION("alone") {
    for (const unsigned seed : {1, 2}) CHECK(stop_at_random(data, base, {}, seed) > 0);
  }
  SECTION("two workers of ddprun") {
    for (const unsigned seed : {3, 4}) CHECK(stop_at_random(data, base, two_workers(), seed) > 0);
  }
}

TEST_CASE("a run that a signal ends says after which step, and where it goes on") {
  take_signals();
  const SmallData data;
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  const std::string name = signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGHUP";
  const bool has_launcher = GENERATE(false, true);
  StoppableRun run(data, has_launcher ? two_workers() : std::vector<std::string>{});
  Child child(run.command(1000), run.settings());
  run.wait_for_steps(child, 2);
  child.signal(signal);
  const ChildResult result = child.wait();
  INFO(result.out << result.err);
  CHECK(result.status == 128 + signal);
  run.check_no_step_is_lost();
  const std::string step = std::to_string(latest_step(run.out()));
  CHECK_THAT(result.out, Contains("stopped by " + name + " after step " + step + "; checkpoint " +
                                  run.out().string() + "/step-"));
  CHECK_THAT(result.out, Contains("; the same command goes on there"));
  CHECK(field(run.lines("stopped").at(0), "step") == step);
  if (has_launcher)
    CHECK_THAT(result.err, Contains("ddprun: stopped by " + name +
                                    "; workers that exited by themselves: 2 of 2"));
}

TEST_CASE("a signal before training ends a run at once and leaves no file") {
  take_signals();
  const TempDir directory;
  ChildOptions settings;
  settings.leave_stdin = true;
  // The second worker never comes.
  settings.environment = {{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"LOCAL_RANK", "0"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "0"}};
  const SmallData data;
  auto store = ddprun::rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(store.has_value());
  auto server = ddprun::rdzv::StoreServer::start(std::move(*store)).value();
  settings.environment.back().second = std::to_string(server.port());
  settings.environment.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "True");
  Child child({program("train"), "--data", data.path(), "--out", directory / "out"}, settings);
  REQUIRE(eventually([&] { return std::filesystem::exists(directory / "out"); }));
  child.signal(SIGTERM);
  CHECK(child.wait().status == 128 + SIGTERM);
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("with --checkpoint-every=off a run that a signal ends writes nothing") {
  const SmallData data;
  StoppableRun run(data, {});
  Child child(run.command(1000, "off"), run.settings());
  run.wait_for_steps(child, 2);
  child.signal(SIGTERM);
  const ChildResult result = child.wait();
  CHECK(result.status == 128 + SIGTERM);
  CHECK_THAT(result.out, Contains("; no checkpoint, as --checkpoint-every is off"));
  CHECK(latest_step(run.out()) == -1);
}

TEST_CASE("signals of one request count as one, a later one ends a run at once") {
  const SmallData data;
  const TempDir directory;
  WorkerGroup group(long_run(data, directory));
  REQUIRE(eventually([&] { return latest_step(directory / "out") >= 1; }, 1min));
  group.rank(1).signal(SIGSTOP);  // rank 0 waits for it
  for (int i = 0; i < 3; ++i) group.rank(0).signal(SIGTERM);
  SECTION("a later one") {
    std::this_thread::sleep_for(300ms);
    group.rank(0).signal(SIGTERM);
    const ChildResult result = group.rank(0).wait();
    CHECK(result.status == 128 + SIGTERM);
    CHECK(result.err.empty());
    group.rank(1).signal(SIGKILL);
  }
  SECTION("none") {
    group.rank(1).signal(SIGCONT);
    const std::vector<ChildResult> results = group.wait();
    for (const ChildResult& result : results) CHECK(result.status == 128 + SIGTERM);
    CHECK(results[0].err.empty());
    CHECK_THAT(results[1].err,
               Contains("warning: rank 1: rank 0 got SIGTERM: all end after step "));
  }
}

TEST_CASE("a worker that fails while a run is to end leaves the newest checkpoint") {
  const SmallData data;
  SECTION("alone with its peers") {
    const TempDir directory;
    WorkerGroup group(long_run(data, directory));
    REQUIRE(eventually([&] { return latest_step(directory / "out") >= 1; }, 1min));
    group.rank(1).signal(SIGSTOP);
    group.rank(0).signal(SIGTERM);
    REQUIRE(eventually([&] { return has_taken_signals(group.rank(0).pid()); }));
    group.rank(1).signal(SIGKILL);
    const ChildResult result = group.rank(0).wait();
    INFO(result.err);
    CHECK(result.status == 128 + SIGTERM);
    CHECK_THAT(result.err, Contains("; SIGTERM had asked it to end; the last checkpoint is " +
                                    (directory / "out").string() + "/step-"));
  }
  SECTION("under ddprun") {
    StoppableRun run(data, two_workers());
    Child child(run.command(1000, "1"), run.settings());
    // Not of a line of metrics: it comes before the checkpoint of its step.
    REQUIRE(eventually([&] { return latest_step(run.out()) >= 2; }, 1min));
    const int victim = run.worker(1);
    REQUIRE(victim > 0);
    const int newest = latest_step(run.out());
    ::kill(victim, SIGKILL);
    child.signal(SIGTERM);
    const ChildResult result = child.wait();
    INFO(result.out << result.err);
    CHECK_FALSE(result.timed_out);
    // Which of the two came first is a matter of chance.
    CHECK((result.status == 128 + SIGTERM || result.status == 128 + SIGKILL));
    CHECK(latest_step(run.out()) >= newest);
  }
}

TEST_CASE("workers that ddprun stops for a failure do not save their state first") {
  const SmallData data;
  const std::string base = undisturbed(data);
  StoppableRun run(data, two_workers({"--max-restarts=1"}));
  Child child(run.command(), run.settings());
  run.wait_for_steps(child, 2);
  const int victim = run.worker(1);
  REQUIRE(victim > 0);
  ::kill(victim, SIGKILL);
  const ChildResult result = child.wait();
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(run.lines("stopped").empty());
  REQUIRE(run.lines("final").size() == 1);
  CHECK(field(run.lines("final")[0], "weights") == base);
}
