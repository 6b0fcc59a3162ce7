// Two hundred failures that are drawn from seeds: kinds, ranks, times, on one node and on two whose
// clocks differ. The culprit is known, as the seed has made it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using test::Script;

namespace {

using Times = std::chrono::nanoseconds;
using proto::EvidenceKind;

enum class Kind { alone, alike, ended, crash, memory, waited };
constexpr int kKinds = 6;
constexpr std::size_t kTracebackLines = 4;

class DrawnFailure {
 public:
  explicit DrawnFailure(unsigned seed)
      : random_(seed),
        kind_(static_cast<Kind>(seed % kKinds)),
        nodes_(1 + below(2)),
        per_node_(nodes_ == 1 ? 2 + below(3) : 1 + below(3)),
        guilty_(below(world())),
        at_(1ms * (200 + below(5000))) {
    for (int i = 0; i < nodes_; ++i) began_.push_back(1s + 1ms * below(400));
  }

  void play_and_check() {
    proto::JobSettings settings;
    settings.min_nodes = settings.max_nodes = nodes_;
    Script job(settings);
    for (int i = 0; i < nodes_; ++i) job.join(agent(i), per_node_);
    std::vector<proto::Stopped> stopped(static_cast<std::size_t>(nodes_));
    for (int rank = 0; rank < world(); ++rank)
      add(rank, stopped[static_cast<std::size_t>(rank / per_node_)]);
    report_first(job, stopped);
    for (int i = 0; i < nodes_; ++i) {
      auto& one = stopped[static_cast<std::size_t>(i)];
      if (nodes_ > 1) one.round_began = proto::JobTime{began(i), 100us, 7};
      if (!one.failures.empty()) one.program = proto::ProgramFacts{.python = agent(i)};
      job.say(agent(i), one);
    }
    check(verdict_of(job));
  }

 private:
  [[nodiscard]] int world() const { return nodes_ * per_node_; }
  static std::string agent(int node) { return node == 0 ? "a" : "b"; }
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  [[nodiscard]] Times began(int node) const { return began_[static_cast<std::size_t>(node)]; }

  /// On the clock of a worker's node: `after` the guilty one's first sign.
  [[nodiscard]] Times since(int rank, Times after) const {
    return at_ + began(guilty_ / per_node_) - began(rank / per_node_) + after;
  }

  proto::WorkerFailure failure(int rank, EvidenceKind kind, Times at, ExitStatus exit) {
    proto::WorkerFailure failed;
    failed.local_rank = rank % per_node_;
    failed.pid = 100 + rank;
    failed.exit = exit;
    failed.evidence.kind = kind;
    failed.evidence.at = at;
    failed.ended_at = at + 1ms * below(300);  // tear-down
    return failed;
  }

  proto::WorkerFailure lost_peer(int rank, bool timed_out) {
    auto failed = failure(rank, EvidenceKind::exception_line,
                          since(rank, 1us * (1 + below(90'000))), {false, 1, false});
    failed.evidence.text = timed_out ? "RuntimeError: Timed out waiting 8000ms"
                                     : "RuntimeError: Connection reset by peer";
    failed.evidence.victim_phrase = timed_out ? "Timed out waiting" : "Connection reset by peer";
    failed.evidence.timed_out = timed_out;
    return failed;
  }

  /// One exception on all ranks; some are stopped while they write it.
  proto::WorkerFailure same_exception(int rank) {
    std::vector<std::string> lines = {
        "Traceback (most recent call last):", "  File \"train.py\", line 7, in <module>",
        "    raise ValueError(rank)", "ValueError: " + std::to_string(rank)};
    const Times after = rank == guilty_ ? Times(0) : Times(1ms * (1 + below(50)));
    auto failed =
        failure(rank, EvidenceKind::exception_line, since(rank, after), {false, 1, false});
    failed.stopped_by_us = rank != guilty_ && below(2) == 0;
    if (failed.stopped_by_us) failed.exit = {true, 15, false};
    if (failed.stopped_by_us && below(2) == 0)
      lines.resize(2 + static_cast<std::size_t>(below(kTracebackLines - 2)));
    if (lines.size() == kTracebackLines) failed.evidence.text = lines.back();
    failed.last_lines = lines;
    return failed;
  }

  void add(int rank, proto::Stopped& stopped) {
    const bool guilty = rank == guilty_;
    if (kind_ == Kind::alike) {
      stopped.failures.push_back(same_exception(rank));
    } else if (!guilty) {
      stopped.failures.push_back(lost_peer(rank, kind_ == Kind::waited));
    } else if (kind_ == Kind::ended) {
      stopped.ended.push_back({rank % per_node_, 100 + rank, since(rank, -1s)});
    } else if (kind_ == Kind::waited) {
      stopped.still_ran.push_back({rank % per_node_, 100 + rank, std::nullopt, {}, false});
    } else {
      stopped.failures.push_back(own_failure(rank));
    }
  }

  proto::WorkerFailure own_failure(int rank) {
    const Times at = since(rank, Times(0));
    if (kind_ == Kind::crash)
      return failure(rank, EvidenceKind::fatal_signal, at, {true, 11, false});
    if (kind_ == Kind::memory)
      return failure(rank, EvidenceKind::memory_kill, at, {true, 9, false});
    auto failed = failure(rank, EvidenceKind::exception_line, at, {false, 1, false});
    failed.evidence.text = "KeyError: 'lr'";
    return failed;
  }

  static void report_first(Script& job, const std::vector<proto::Stopped>& stopped) {
    for (std::size_t i = 0; i < stopped.size(); ++i) {
      if (stopped[i].failures.empty()) continue;
      job.fail(agent(static_cast<int>(i)), stopped[i].failures.front().local_rank,
               {false, 1, false});
      return;
    }
  }

  /// That of the node which reports it in full.
  proto::Verdict verdict_of(Script& job) const {
    for (int i = 0; i < nodes_; ++i) {
      const proto::Finished& finished = job.finished(agent(i));
      if (finished.report_at.empty()) return finished.verdict.value();
    }
    FAIL("no node reports the job");
    return {};
  }

  void check(const proto::Verdict& verdict) const {
    CAPTURE(static_cast<int>(kind_), nodes_, per_node_, guilty_);
    int named = verdict.culprit.rank;
    if (kind_ == Kind::ended) {
      REQUIRE(verdict.ended.size() == 1);
      named = verdict.ended.front().rank;
    } else if (kind_ == Kind::waited) {
      REQUIRE(verdict.suspects.size() == 1);
      named = verdict.suspects.front().rank;
    }
    CHECK(named == guilty_);
    REQUIRE(verdict.program);
    CHECK(verdict.program->python == agent(verdict.culprit.rank / per_node_));
    const int others = world() - 1;
    if (kind_ == Kind::alike) CHECK(static_cast<int>(verdict.alike.size()) == others);
    for (const proto::FailedWorker& victim : verdict.victims) {
      const proto::Evidence& first = verdict.culprit.failure.evidence;
      CHECK(victim.failure.evidence.at + victim.failure.evidence.uncertainty + first.uncertainty >=
            first.at);
    }
  }

  std::mt19937 random_;
  Kind kind_;
  int nodes_;
  int per_node_;
  int guilty_;
  Times at_;  // of its first sign, on its node
  std::vector<Times> began_;
};

}  // namespace

TEST_CASE("the culprit of drawn failures is the one that was made so, with its node's facts") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    DrawnFailure(seed).play_and_check();
  }
}
