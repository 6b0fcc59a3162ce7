#include "tests/both/stopped_runs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

namespace ddprun::test {

StoppableRun::StoppableRun(const SmallData& data, std::vector<std::string> launcher)
    : data_(data.path()), launcher_(std::move(launcher)) {}

std::vector<std::string> StoppableRun::command(int epochs,
                                               const std::string& checkpoint_every) const {
  std::vector<std::string> words = launcher_;
  words.push_back(program("train"));
  words.insert(words.end(), {"--data", data_, "--out", out().string(), "--batch=8", "--shards=4",
                             "--epochs=" + std::to_string(epochs),
                             "--checkpoint-every=" + checkpoint_every, "--log-every=1"});
  return words;
}

ChildOptions StoppableRun::settings() const {
  ChildOptions settings;
  settings.leave_stdin = true;
  settings.environment = {{"TEST_MARK", mark_}};
  settings.limit = std::chrono::minutes(2);
  return settings;
}

void StoppableRun::wait_for_steps(Child& child, std::size_t steps) const {
  INFO(child.out() << child.err());
  REQUIRE(eventually([&] { return lines("interval").size() >= steps; }, std::chrono::minutes(1)));
}

pid_t StoppableRun::worker(int local_rank) const {
  const auto ours = processes_with("TEST_MARK=" + mark_);
  const auto of_rank = processes_with("LOCAL_RANK=" + std::to_string(local_rank));
  const auto found = std::find_first_of(ours.begin(), ours.end(), of_rank.begin(), of_rank.end());
  return found == ours.end() ? -1 : *found;
}

bool StoppableRun::stop_after(std::size_t steps, std::chrono::milliseconds delay) {
  INFO("SIGTERM after " << delay.count() << " ms");
  const std::size_t steps_before = lines("interval").size();
  Child child(command(), settings());
  if (steps > 0) wait_for_steps(child, steps_before + steps);
  std::this_thread::sleep_for(delay);
  child.signal(SIGTERM);
  const ChildResult result = child.wait();
  INFO(result.out << result.err);
  REQUIRE_FALSE(result.timed_out);
  // ddprun was asked to end, whether or not its workers had trained all.
  const bool is_over = result.status == 0 || !lines("final").empty();
  if (result.status != 0) REQUIRE(result.status == 128 + SIGTERM);
  CHECK(processes_with("TEST_MARK=" + mark_).empty());
  // A rank that trains may lose one that does not yet, and so ends at once.
  if (lines("interval").size() > steps_before) CHECK(result.err.find("error") == std::string::npos);
  check_no_step_is_lost();
  return !is_over;
}

std::string StoppableRun::finish() {
  const ChildResult result = run(command(), settings());
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  check_no_step_is_lost();
  const auto last = lines("final");
  REQUIRE_FALSE(last.empty());
  return field(last.back(), "weights");
}

std::vector<std::string> StoppableRun::lines(const std::string& type) const {
  std::vector<std::string> found;
  std::istringstream text(text_of(out() / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);)
    if (field(line, "type") == type) found.push_back(line);
  return found;
}

void StoppableRun::check_no_step_is_lost() const {
  const std::string text = text_of(out() / "metrics.jsonl");
  CHECK((text.empty() || text.ends_with('\n')));
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    INFO(line);
    CHECK(nlohmann::json::accept(line));
  }
  std::vector<std::string> steps;
  for (const std::string& line : lines("interval")) steps.push_back(field(line, "step"));
  std::vector<std::string> wanted;
  for (std::size_t i = 1; i <= steps.size(); ++i) wanted.push_back(std::to_string(i));
  CHECK(steps == wanted);
  CHECK(latest_step(out()) == (steps.empty() ? -1 : static_cast<int>(steps.size())));
}

std::size_t stop_at_random(const SmallData& data, const std::string& base,
                           const std::vector<std::string>& launcher, unsigned seed) {
  INFO("seed " << seed);
  constexpr int kStopsMost = 4;
  constexpr std::size_t kSteps = 24;
  std::mt19937 random(seed);
  const auto number = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random);
  };
  StoppableRun run(data, launcher);
  for (int stops = 0; stops < kStopsMost; ++stops) {
    const std::size_t steps_left = kSteps - run.lines("interval").size();
    if (steps_left == 0) break;
    // One at least is in training, however fast that is.
    const bool is_first = stops == 0;
    const bool is_in_training = is_first || number(0, 3) > 0;
    const std::size_t steps = is_in_training ? number(1, std::min<std::size_t>(6, steps_left)) : 0;
    const std::size_t delay = is_in_training ? number(0, is_first ? 0 : 20) : number(20, 400);
    if (!run.stop_after(steps, std::chrono::milliseconds(delay))) break;
  }
  CHECK(run.finish() == base);
  return run.lines("stopped").size();
}

std::vector<std::string> two_workers(const std::vector<std::string>& more) {
  std::vector<std::string> words{program("ddprun"), "--nproc-per-node=2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace ddprun::test
