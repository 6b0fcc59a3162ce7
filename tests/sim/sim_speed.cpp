// How long the real decisions take for a job of thousands of agents: each one's session and node,
// the service and its journal, with all bytes between them; time, network, disk and workers are
// played. Prints the CPU time of its one thread, which is the wall time where nothing else runs.
// Nothing is asserted but that the job goes as it must.
//
//   sim_speed [AGENTS...]        1,000 and 10,000 where none are given
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/sim_link.hpp"
#include "tests/sim/sim_node.hpp"
#include "tests/sim/sim_service.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr sim::Duration kMuchTooLate = 1h;
constexpr sim::Duration kStartsWithin = 3s;
constexpr sim::Duration kFailsAfter = 10s;
constexpr sim::Duration kSucceedsAfter = 1s;

/// One job, in which a worker fails in the first round and all succeed in the second.
class Crowd {
 public:
  explicit Crowd(int agents)
      : world_(1), service_(world_, {}, [this] { messages_ += service_.take_records().size(); }) {
    settings_.min_nodes = settings_.max_nodes = agents;
    settings_.restart.max_restarts = 1;
    for (int i = 0; i < agents; ++i) {
      Agent& agent = *agents_.emplace_back(std::make_unique<Agent>());
      world_.after(world_.up_to(kStartsWithin), [this, &agent, i] { start(agent, i); });
    }
  }

  /// Until all have workers in the round of this number.
  void form(proto::RoundNumber number) {
    const std::size_t expected = agents_.size() * (number + 1);
    while (started_ < expected) step();
  }
  /// Agents only say that they live, until a worker fails.
  void idle() {
    while (!failed_) step();
  }
  void end() {
    while (over_ < agents_.size()) step();
    if (succeeded_ < over_) throw std::runtime_error("the job failed");
  }
  /// That the service took so far.
  [[nodiscard]] std::size_t messages() const { return messages_; }

 private:
  struct Agent {
    std::unique_ptr<sim::SimNode> node;
    std::unique_ptr<sim::SimLink> link;
  };

  void step() {
    if (!world_.step(much_too_late_)) throw std::runtime_error("the job does not go on");
  }
  void start(Agent& agent, int index);
  [[nodiscard]] sim::Fate draw_fate(int index) const;

  sim::World world_;
  const sim::Clock::time_point much_too_late_ = world_.now() + kMuchTooLate;
  proto::JobSettings settings_;
  std::size_t messages_ = 0;
  sim::SimService service_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::size_t started_ = 0;
  std::size_t over_ = 0;
  std::size_t succeeded_ = 0;
  bool failed_ = false;
};

sim::Fate Crowd::draw_fate(int index) const {
  if (started_ >= agents_.size()) return {sim::Fate::Kind::succeeds, kSucceedsAfter};
  if (index == 0) return {sim::Fate::Kind::fails, kFailsAfter};
  return {sim::Fate::Kind::succeeds, kMuchTooLate};
}

void Crowd::start(Agent& agent, int index) {
  const std::string name = fmt::format("node{}", index);
  const sim::HostClock clock(world_, world_.up_to(1h), 0);
  agent::AgentConfig config;
  config.node.name = name;
  config.job = settings_;
  config.stop.grace_period = config.stop.kill_timeout = 5s;
  config.workers.resize(1);
  agent.node = std::make_unique<sim::SimNode>(
      world_, std::move(config), static_cast<std::uint16_t>(1 + index), false,
      sim::SimNode::Surroundings{
          [&agent](proto::AgentMessage message) { agent.link->submit(std::move(message)); },
          [&agent](proto::AgentMessage message, sim::Clock::time_point round_began) {
            agent.link->submit(std::move(message), round_began);
          },
          [clock] { return clock.now(); },
          [clock](sim::Clock::time_point local) { return clock.in_world(local); },
          [this, index] { return draw_fate(index); }, [] { return sim::CheckFate{}; }, [](bool) {},
          [this] { ++started_; }, [this](int, bool) { failed_ = true; },
          [this, &agent](const proto::Finished& finished) {
            ++over_;
            if (finished.outcome == proto::Finished::Outcome::succeeded) ++succeeded_;
            agent.link->end(false);
          }});
  rdzv::SessionSettings session;
  session.agent = name + ".1";
  session.service = "service:29400";
  session.seed = static_cast<std::uint32_t>(index);
  agent.link = std::make_unique<sim::SimLink>(
      world_, clock, service_.places(), sim::LinkPlan{}, session,
      [&agent](proto::MembershipMessage message) { agent.node->take(std::move(message)); },
      [] { throw std::runtime_error("a lease is over"); });
  agent.node->begin();
}

void play(int agents) {
  const auto cpu_now = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double began = cpu_now();
  double last = began;
  std::size_t messages = 0;
  Crowd crowd(agents);
  const auto tell = [&](const char* part) {
    const double now = cpu_now();
    const double seconds = now - last;
    std::printf("%7d agents  %-8s %8.3f s  %6.1f us each  %5.2f records each\n", agents, part,
                seconds, seconds / agents * 1e6,
                static_cast<double>(crowd.messages() - messages) / agents);
    messages = crowd.messages();
    last = now;
  };
  crowd.form(0);
  tell("form");
  crowd.idle();
  tell("idle");
  crowd.form(1);
  tell("re-form");
  crowd.end();
  tell("end");
  std::printf("%7d agents  all      %8.3f s\n", agents, last - began);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
  if (counts.empty()) counts = {1'000, 10'000};
  try {
    for (const int count : counts) play(count);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sim_speed: %s\n", error.what());
    return 1;
  }
}
