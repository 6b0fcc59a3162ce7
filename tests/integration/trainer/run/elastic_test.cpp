// Workers that are kept when another one dies: the run goes on with their memory, and ends with the
// same bits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>

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

const Arguments kNothingWritten{"--checkpoint-every=off", "--json"};

/// What rank 0 ends with. Other workers may have been rank 0 before, and end after it.
std::string final_line(const std::string& out) {
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);)
    if (field(line, "type") == "final") return line;
  return "";
}

/// A job of four workers that has begun to train.
struct Job {
  explicit Job(FakeAgent::Settings settings) : agent(std::move(settings)) {
    REQUIRE(agent.run_until([&] { return agent.all_joined(); }));
  }
  /// Until some worker has come to `step`, and a moment more.
  void run_to(std::int64_t step) {
    REQUIRE(agent.run_until([&] { return agent.step() >= step; }));
    agent.run_for(std::chrono::microseconds(random() % 4000));
  }
  void run_to_round(int round) {
    REQUIRE(agent.run_until([&] { return agent.round() == round; }));
  }
  /// Some worker came to it with a state: without one all begin anew, and end with the same bits.
  void go_on_to_round(int round) {
    run_to_round(round);
    CHECK(agent.source_rank().has_value());
    CHECK(agent.source_step() > 0);
  }
  void run_to_phase(int rank, const std::string& phase) {
    REQUIRE(agent.run_until([&] { return agent.phase(rank) == phase; }));
  }
  /// It ends with the figures of `base`.
  void check_end(const std::string& base) {
    agent.finish();
    INFO(agent.events() << agent.err());
    check_same_result(base, final_line(agent.out()), "test_accuracy");
  }

  /// From 0 to below `limit`.
  int below(int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }

  std::mt19937 random{Catch::rngSeed()};
  FakeAgent agent;
};

/// Lines of the metrics file with figures of so many steps each, without their times.
std::vector<std::string> interval_lines(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::istringstream text(text_of(file));
  for (std::string line; std::getline(text, line);)
    if (field(line, "type") == "interval")
      lines.push_back(field(line, "step") + " " + field(line, "steps") + " " + field(line, "loss") +
                      " " + field(line, "accuracy"));
  return lines;
}

/// A run whose rate follows its training loss, and what it reports where nothing happens to it.
struct RunWithFigures {
  [[nodiscard]] Arguments into(const std::filesystem::path& out) const {
    return with(arguments, {"--json", "--checkpoint-every=epoch", "--out", out});
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    return interval_lines(undisturbed / "out" / "metrics.jsonl");
  }

  const SmallData data;
  const Arguments arguments =
      small_run(data, {"--log-every=5", "--schedule=plateau", "--plateau-on=train",
                       "--plateau-patience=0", "--lr=0.0000001"});
  const TempDir undisturbed;
  const std::string base = train(
      {.world_size = 1,
       .arguments = with(arguments, {"--checkpoint-every=epoch", "--out", undisturbed / "out"})});
};

/// Writes `value` over the first floats of a parameter wherever process `pid` has them. Gives how
/// often.
int overwrite(pid_t pid, const std::string& bytes, float value) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::istringstream maps(text_of(folder + "/maps"));
  std::fstream memory(folder + "/mem", std::ios::in | std::ios::out | std::ios::binary);
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    std::size_t begin = 0;
    std::size_t end = 0;
    char rights[8] = {};
    if (std::sscanf(line.c_str(), "%zx-%zx %7s", &begin, &end, rights) != 3) continue;
    // Larger ones are reserved by sanitizers.
    if (std::string_view(rights).substr(0, 2) != "rw" || end - begin > 1U << 30) continue;
    std::string content(end - begin, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(begin));
    memory.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (!memory) continue;
    for (std::size_t at = content.find(bytes); at != std::string::npos;
         at = content.find(bytes, at + 1)) {
      memory.seekp(static_cast<std::streamoff>(begin + at));
      memory.write(reinterpret_cast<const char*>(&value), sizeof value);
      ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a run goes on with the memory of the survivors after a kill") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  for (int turn = 0; turn < 20; ++turn) {
    INFO("turn " << turn);
    Job job({.arguments = with(arguments, kNothingWritten), .turns_ranks = turn % 5 == 4});
    const auto step = std::int64_t{1} + job.below(40);
    job.run_to(step);
    job.agent.signal(turn % 4, SIGKILL);
    job.run_to_round(1);
    CHECK(job.agent.source_step() >= step);
    job.check_end(base);
    CHECK(field(final_line(job.agent.out()), "restarts") == "1");
  }
}

TEST_CASE(
    "a run goes on after two kills at once, a kill while it recovers, and one in evaluation") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  for (int turn = 0; turn < 12; ++turn) {
    INFO("turn " << turn);
    Job job({.arguments = with(arguments, kNothingWritten)});
    FakeAgent& agent = job.agent;
    if (turn % 3 == 2) {
      job.run_to(1 + job.below(40));
      job.run_to_phase(turn % 4, "evaluate");
    } else {
      job.run_to(1 + job.below(40));
    }
    const int first = turn % 4;
    agent.signal(first, SIGKILL);
    if (turn % 3 == 0) agent.signal((first + 1 + turn % 2) % 4, SIGKILL);
    job.go_on_to_round(1);
    if (turn % 3 == 1) {
      agent.run_for(std::chrono::microseconds(job.below(80000)));
      const int source = agent.source_rank().value_or(0);
      if (agent.round() == 1) agent.signal(turn % 2 == 0 ? source : first, SIGKILL);
    }
    job.check_end(base);
  }
}

TEST_CASE("a run goes on with fewer workers, and with more again") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  SECTION("after kills without replacement, down to one") {
    Job job({.arguments = with(arguments, kNothingWritten), .is_replacing = false});
    for (int left = 3; left >= 1; --left) {
      job.run_to(job.agent.step() + 4);
      job.agent.signal(job.below(left + 1), SIGKILL);
      job.go_on_to_round(4 - left);
      CHECK(job.agent.world_size() == left);
    }
    job.check_end(base);
  }
  SECTION("in order") {
    Job job({.arguments = with(arguments, kNothingWritten), .max_workers = 4});
    int round = 0;
    for (const int workers : {3, 4, 1, 2}) {
      job.run_to(job.agent.step() + 5);
      job.agent.change_world(workers);
      job.go_on_to_round(++round);
      REQUIRE(job.agent.run_until([&] { return job.agent.all_joined(); }));
    }
    job.check_end(base);
    CHECK(field(final_line(job.agent.out()), "restarts") == "0");
  }
}

TEST_CASE("a rank that is suspended costs no more than the restart of all") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  Job job({.arguments = with(arguments, with(kNothingWritten, {"--comm-timeout=1"}))});
  job.run_to(9);
  job.agent.signal(job.below(4), SIGSTOP);
  job.check_end(base);
}

TEST_CASE("the figures of each interval, and a rate that follows the training loss, are kept") {
  const RunWithFigures run;
  for (int turn = 0; turn < 4; ++turn) {
    const TempDir directory;
    const std::filesystem::path out = directory / "out";
    Job job({.arguments = run.into(out)});
    for (int kill = 1; kill <= 3; ++kill) {
      job.run_to(job.agent.step() + 1 + job.below(16));
      job.agent.signal((turn + kill) % 4, SIGKILL);
      job.go_on_to_round(kill);
      REQUIRE(job.agent.run_until([&] { return job.agent.all_joined(); }));
    }
    job.check_end(run.base);
    CHECK(interval_lines(out / "metrics.jsonl") == run.lines());
  }
}

TEST_CASE("the figures of an epoch are kept where the world changes while it is evaluated") {
  const RunWithFigures run;
  for (int turn = 0; turn < 6; ++turn) {
    const TempDir directory;
    const std::filesystem::path out = directory / "out";
    Job job({.arguments = run.into(out), .max_workers = 4});
    int round = 0;
    for (const int workers : {3, 4, 2}) {
      job.run_to_phase(turn % 2, "evaluate");
      job.agent.run_for(std::chrono::microseconds(job.below(2000)));
      job.agent.change_world(workers);
      job.go_on_to_round(++round);
      REQUIRE(job.agent.run_until([&] { return job.agent.all_joined(); }));
    }
    job.check_end(run.base);
    CHECK(interval_lines(out / "metrics.jsonl") == run.lines());
  }
}

TEST_CASE("ranks that are asked to end leave alone where the others are to go on") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  for (int turn = 0; turn < 6; ++turn) {
    const TempDir directory;
    const Arguments writing{"--json", "--checkpoint-every=1000", "--keep=all", "--out",
                            directory / "out"};
    Job job({.arguments = with(arguments, writing), .max_workers = 4});
    job.run_to(1 + job.below(40));
    if (turn % 2 == 1) job.run_to_phase(3, "evaluate");
    job.agent.leave(1 + turn % 3);
    job.go_on_to_round(1);
    CHECK(latest_step(directory / "out") >= job.agent.source_step());
    CHECK(job.agent.world_size() == 3 - turn % 3);
    job.check_end(base);
    CHECK(field(final_line(job.agent.out()), "restarts") == "0");
    // By what comes first, its signal or the news of the others.
    CHECK_THAT(job.agent.err(), Contains("SIGTERM: this node leaves after step ") ||
                                    Contains("SIGTERM ends this worker, which waits for another"));
  }
}

TEST_CASE("only rank 0 of the newest round writes checkpoints, and the last one is whole") {
  const SmallData data;
  const Arguments arguments = small_run(data);
  const std::string base = undisturbed_run(arguments);
  for (int turn = 0; turn < 4; ++turn) {
    const TempDir directory;
    const std::filesystem::path out = directory / "out";
    const Arguments writing{"--json", "--checkpoint-every=1", "--keep=all", "--out", out};
    Job job({.arguments = with(arguments, writing), .turns_ranks = turn % 2 == 1});
    for (int kill = 1; kill <= 2; ++kill) {
      job.run_to(job.agent.step() + 3 + job.below(16));
      job.agent.signal(kill == 1 ? 0 : 1, SIGKILL);
      job.go_on_to_round(kill);
      REQUIRE(job.agent.run_until([&] { return job.agent.all_joined(); }));
    }
    job.check_end(base);
    CHECK(latest_step(out) == 64);
    // By their sequence, rounds never go back.
    std::vector<std::pair<int, int>> rounds;
    for (const auto& one : std::filesystem::directory_iterator(out)) {
      if (one.is_symlink() || !one.is_directory()) continue;
      CHECK(one.path().filename().string().starts_with("step-"));
      const std::string state = text_of(one.path() / "state.json");
      rounds.emplace_back(std::stoi(field(state, "sequence")), std::stoi(field(state, "round")));
    }
    std::sort(rounds.begin(), rounds.end());
    CHECK(std::is_sorted(rounds.begin(), rounds.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; }));
    CHECK(rounds.back().second == 2);
    CHECK(std::adjacent_find(rounds.begin(), rounds.end(), [](const auto& a, const auto& b) {
            return a.first == b.first;
          }) == rounds.end());
  }
}

TEST_CASE("survivors that hold different weights go back to the newest checkpoint") {
  const SmallData data;
  // At a rate of 0 the weights stay as they are, so that a test can find them.
  const Arguments arguments{"--data",     data.path(), "--batch=2",   "--shards=4",
                            "--epochs=1", "--lr=0",    "--momentum=0"};
  const TempDir directory;
  const std::filesystem::path out = directory / "out";
  Job job({.arguments = with(arguments, {"--json", "--checkpoint-every=1", "--out", out})});
  REQUIRE(job.agent.run_until([&] { return latest_step(out) >= 1; }));
  for (int rank = 0; rank < 4; ++rank) job.agent.signal(rank, SIGSTOP);
  const std::string bytes = text_of(out / "latest" / "model.safetensors");
  CHECK(overwrite(job.agent.pid(1), bytes.substr(bytes.size() - 40, 40), 7) >= 1);
  job.agent.signal(2, SIGKILL);
  for (int rank = 0; rank < 4; ++rank) job.agent.signal(rank, SIGCONT);
  job.run_to_round(1);
  job.agent.finish();
  INFO(job.agent.events() << job.agent.err());
  CHECK(job.agent.round() == 1);
  CHECK(field(final_line(job.agent.out()), "weights") ==
        field(undisturbed_run(arguments), "weights"));
  CHECK_THAT(job.agent.err(), Contains("the ranks hold different weights or moments (rank 0 ") &&
                                  Contains("all ranks go back to the newest checkpoint"));
}
