// Snapshots: a job that goes on from one does what it would have done, and its journal stays short.
#include <algorithm>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "proto/session_messages.hpp"
#include "rendezvous/service/journal_format.hpp"
#include "tests/unit/rendezvous/service/service_script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using rdzv::Job;
using rdzv::JobEvent;
using test::nodes;
using test::ServiceScript;

namespace {

// ---- what a job does, as text ----

std::string text_of(const proto::MembershipMessage& message) {
  return proto::encode(proto::ServiceMessage(message));
}

std::string text_of(const rdzv::MembershipActions& actions) {
  std::string text = actions.log + "\n";
  for (const auto& send : actions.sends) text += send.to + " " + text_of(send.message) + "\n";
  for (const std::string& warning : actions.warnings) text += warning + "\n";
  return text;
}

std::string text_of(const std::vector<JobEvent>& snapshot) {
  rdzv::JobSnapshot all{"job", {}};
  for (const JobEvent& event : snapshot) all.records.push_back({"job", {}, event});
  return rdzv::journal_of(all);
}

std::string state_of(const Job& job) {
  std::string text =
      fmt::format("{} {} {} {}\n", job.epoch(), job.began_at().time_since_epoch().count(),
                  job.is_over(), job.all_know());
  if (job.deadline()) text += fmt::format("{}\n", job.deadline()->time_since_epoch().count());
  for (const auto& [agent, session] : job.sessions()) {
    const auto current = job.current(agent);
    text += fmt::format("{} {} {} {} {} {} {}\n", agent, session.acknowledged, session.addr,
                        session.lease.count(), session.node_name, session.boot_id,
                        current ? text_of(*current) : "");
  }
  if (job.is_at_rest()) text += text_of(job.snapshot());
  return text;
}

/// What another process makes of it.
Job restored(const std::vector<JobEvent>& snapshot) {
  const rdzv::JournalContent content = rdzv::read_journal(text_of(snapshot));
  REQUIRE(content.fault.empty());
  Job job(rdzv::Clock::time_point{});
  for (const rdzv::JobRecord& record : content.records) {
    const auto actions = job.apply(record.event, record.at);
    CHECK(actions.sends.empty());
  }
  return job;
}

// ---- any history ----

/// Events of up to six agents, most of them such as could come.
class AnyEvents {
 public:
  explicit AnyEvents(unsigned seed) : random_(seed) {
    settings_ = nodes(1 + static_cast<int>(below(3)), 3, static_cast<int>(below(200)));
    settings_.grow_delay.reset();
    settings_.failing_nodes_step_back = true;
    if (below(2) == 0) settings_.restart.window = 1h;
    if (below(2) == 0) settings_.restart.back_off = 1s;
    if (below(3) == 0) settings_.restart.minimum_uptime = 10s;
    if (below(3) == 0) settings_.max_node_changes = static_cast<int>(below(10));
    settings_.restart.crash_loop_rounds = 3 + static_cast<int>(below(20));
    insists_ = below(2) == 0;
    checks_ = below(4) == 0;
  }
  std::size_t below(std::size_t limit) { return random_() % limit; }

  JobEvent next(const Job& job) {
    const std::string agent(1, static_cast<char>('a' + below(6)));
    if (job.session(agent) == nullptr)
      return rdzv::SessionBegan{agent, "10.0.0." + agent, 15s, seconds(below(100))};
    if (below(30) == 0) return rdzv::SessionLost{agent, loss_sign(), seconds(below(30))};
    if (below(60) == 0 || job.session(agent)->outcome) return rdzv::SessionOver{agent};
    if (below(100) == 0) return rdzv::PastHeard{now + seconds(below(10))};
    if (job.deadline() && below(4) == 0) {
      now = std::max(now, *job.deadline());
      return rdzv::DeadlinePassed{};
    }
    return rdzv::Said{agent, message(agent, job)};
  }

  rdzv::Clock::time_point now{1h};

 private:
  static std::chrono::nanoseconds seconds(std::size_t count) { return count * 1s; }
  proto::LossSign loss_sign() { return static_cast<proto::LossSign>(below(5)); }

  proto::AgentMessage message(const std::string& agent, const Job& job) {
    const auto current = job.current(agent);
    const auto* stop = current ? std::get_if<proto::Stop>(&*current) : nullptr;
    if (stop != nullptr) return stopped(stop->round);
    const auto* check = current ? std::get_if<proto::Check>(&*current) : nullptr;
    if (check != nullptr && below(8) > 0)
      return proto::Checked{check->number, below(3) > 0, "code 1", below(20) == 0};
    const auto* round = current ? std::get_if<proto::Round>(&*current) : nullptr;
    if (round == nullptr) return below(30) == 0 ? proto::AgentMessage(leave()) : join(agent);
    switch (below(12)) {
      case 0:
        return proto::Started{round->number};
      case 1:
        return proto::WorkersDone{round->number, losses()};
      case 2:
        return below(4) == 0 ? proto::AgentMessage(leave()) : join(agent);
      case 3:
        return proto::Stopped{round->number, {}};
      default:
        break;
    }
    proto::WorkerFailed failed = test::failed_in(round->number);
    failed.exit = {false, 1, false};
    failed.ran_for = seconds(below(60));
    return failed;
  }
  proto::Join join(const std::string& agent) {
    proto::Join join = ServiceScript::join_of("node " + agent, settings_);
    if (below(20) == 0) join.settings.max_nodes = 7;  // it is refused
    if (below(3) == 0) join.role = "other";
    join.local_world_size = 1 + static_cast<int>(below(3));
    join.wants_report = below(4) == 0;
    join.checks_first = checks_ && below(8) > 0;
    join.store_clients_max = static_cast<int>(below(3));
    if (insists_) join.requested_group_rank = agent[0] - 'a';
    join.insists_on_rank = insists_ && below(4) > 0;
    if (below(20) == 0) join.was_in = proto::PastRound{below(4), below(200), 2};
    join.age = seconds(below(200));
    return join;
  }
  proto::Stopped stopped(proto::RoundNumber round) {
    proto::Stopped stopped{round, {}};
    if (below(2) == 0) stopped.failures.push_back(test::victim(0));
    if (below(2) == 0) stopped.furthest_step = below(1000);
    stopped.losses = losses();
    return stopped;
  }
  proto::Losses losses() {
    proto::Losses losses;
    if (below(3) == 0) losses.dropped_bytes = below(1000);
    if (below(9) == 0) losses.leftovers = {"pid 7"};
    return losses;
  }
  proto::Leave leave() {
    return below(2) == 0 ? proto::Leave{15, "", below(9) == 0} : proto::Leave{0, "no room", false};
  }

  std::mt19937 random_;
  proto::JobSettings settings_;
  bool insists_ = false;
  bool checks_ = false;
};

}  // namespace

TEST_CASE("a job that goes on from a snapshot does what it would have done, in any history") {
  int snapshots = 0;
  int rounds = 0;
  int lives = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    AnyEvents events(seed);
    Job job(events.now);
    std::optional<Job> other(std::in_place, events.now);
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      events.now += 10ms * events.below(100);
      const JobEvent event = events.next(job);
      REQUIRE(text_of(job.apply(event, events.now)) == text_of(other->apply(event, events.now)));
      if (job.is_at_rest() && events.below(3) == 0) {
        other.emplace(restored(job.snapshot()));
        ++snapshots;
        REQUIRE(state_of(job) == state_of(*other));
      }
    }
    REQUIRE(state_of(job) == state_of(*other));
    rounds += job.membership() ? static_cast<int>(job.membership()->next_round()) : 0;
    lives += static_cast<int>(job.epoch());
  }
  // Histories in which nothing happens would show nothing.
  CHECK(snapshots > 500);
  CHECK(rounds > 500);
  CHECK(lives > 200);
}

TEST_CASE("the journal of a job is bounded by its size, however often it restarts") {
  rdzv::ServiceSettings settings = ServiceScript::with_secret();
  settings.snapshots.emplace();
  ServiceScript service(settings);
  proto::JobSettings job = nodes(3, 3, 2'000);
  job.restart.window = 1h;
  std::vector<rdzv::ConnectionId> agents;
  for (const char* name : {"a", "b", "c"}) agents.push_back(service.join(name, job));
  std::size_t most = 0;
  std::vector<std::uint64_t> said(agents.size(), 1);
  for (proto::RoundNumber round = 0; round < 1'000; ++round) {
    const auto say = [&](std::size_t i, const proto::AgentMessage& message) {
      service.say(agents[i], ++said[i], message);
    };
    REQUIRE(service.last<proto::Round>(agents[2])->number == round);
    service.now += 1min;
    for (std::size_t i = 0; i < agents.size(); ++i) say(i, proto::Started{round});
    say(0, test::failed_in(round));
    for (std::size_t i = 0; i < agents.size(); ++i) {
      say(i, proto::Stopped{round, {}});
      say(i, ServiceScript::join_of(std::string(1, static_cast<char>('a' + i)), job));
    }
    most = std::max(most, service.journal.size());
  }
  CHECK(service.snapshots > 5);
  // The records that a snapshot waits for, those of a round, and the snapshot.
  CHECK(most < 1'000 + 8 * 3 + 10 + 4);
  const auto restart_count = service.core.job("job")->membership()->restart_count();
  service.restart();
  REQUIRE(service.core.job("job") != nullptr);
  CHECK(service.core.job("job")->membership()->restart_count() == restart_count);
  CHECK(service.core.job("job")->membership()->next_round() == 1'001);
  CHECK(service.core.job("job")->session("b")->acknowledged == said[1]);
}

TEST_CASE("a snapshot waits for a round that runs undisturbed") {
  rdzv::ServiceSettings settings = ServiceScript::with_secret();
  settings.snapshots = {0, 0};
  ServiceScript service(settings);
  const auto a = service.join("a", nodes(2, 2, 3));
  CHECK(service.snapshots == 0);  // a round forms
  const auto b = service.join("b", nodes(2, 2, 3));
  CHECK(service.snapshots == 1);
  service.say(a, 2, proto::Started{0});
  CHECK(service.snapshots == 2);
  service.say(a, 3, test::failed_in(0));
  service.say(a, 4, proto::Stopped{0, {}});
  CHECK(service.snapshots == 2);  // it stops
  service.say(a, 5, ServiceScript::join_of("a", nodes(2, 2, 3)));
  service.say(b, 2, proto::Stopped{0, {}});
  service.say(b, 3, ServiceScript::join_of("b", nodes(2, 2, 3)));
  CHECK(service.snapshots == 3);
  service.say(a, 6, proto::WorkersDone{1});
  CHECK(service.snapshots == 3);  // one node is done
  ServiceScript without;
  static_cast<void>(without.join("a", nodes(1, 1, 3)));
  CHECK(without.snapshots == 0);  // its records are not kept
}

TEST_CASE("how a job with very many failed workers ended can be read from its journal") {
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.verdict.emplace();
  for (int rank = 0; rank < 40'000; ++rank) {
    proto::FailedWorker worker;
    worker.rank = rank;
    worker.failure.last_lines = {std::string(300, 'x')};
    finished.verdict->victims.push_back(std::move(worker));
  }
  Job job(rdzv::Clock::time_point{});
  static_cast<void>(job.apply(rdzv::JobOver{2, finished, {}, {}}, {}));
  const std::string bytes = text_of({job.summary()});
  CHECK(rdzv::read_journal(bytes).fault.empty());
}
