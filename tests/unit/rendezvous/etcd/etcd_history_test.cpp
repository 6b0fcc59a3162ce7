// Histories of three rdzvd over one etcd in memory: requests and answers are lost or late,
// processes stop for any time, keys are deleted. A seed is a history. Whatever happens, at most one
// rdzvd answers, what was answered is known to every later leader, and the clock never goes back.
#include <algorithm>
#include <deque>
#include <optional>
#include <random>

#include "rendezvous/etcd/journal_etcd.hpp"
#include "tests/unit/rendezvous/etcd/candidate.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace ddprun::rdzv;
using Fate = ModelEtcd::Fate;
using Names = std::vector<std::string>;
using Role = Leadership::Role;

namespace {

struct Counts {
  int leaders = 0;
  int answers = 0;
  int unanswered = 0;  // commits of which the leadership ended
  int lost_answers = 0;
  int snapshots = 0;
};

class History {
 public:
  /// `lease_percent`: how long a lease of etcd lasts, of its nominal time.
  History(std::uint32_t seed, Counts& counts, int lease_percent = 100)
      : random_(seed), counts_(counts), lease_percent_(lease_percent) {
    etcd_ = std::make_shared<ModelEtcd>();
    for (int i = 0; i < 3; ++i) nodes_.emplace_back(*this, "n" + std::to_string(i) + ":1");
    loss_ = below(3) == 0 ? 0 : below(25);
    deletes_keys_ = below(3) == 0;
    etcd_->fate = [this] {
      pass(below(10) == 0 ? below(1500) : below(20));
      if (below(100) >= loss_) return Fate::answered;
      if (below(2) == 0) return Fate::lost;
      ++counts_.lost_answers;
      return Fate::answer_lost;
    };
    etcd_->lease_lasts = [lease_percent](std::chrono::seconds ttl) {
      return Clock::duration(ttl) / 100 * lease_percent;
    };
    etcd_->on_answer = [this] { pass(below(10) == 0 ? below(1500) : below(20)); };
  }

  void run() {
    for (int i = 0; i < 400; ++i) {
      pass(below(200));
      Node& node = nodes_[static_cast<std::size_t>(below(3))];
      if (node.stopped_until > etcd_->now) continue;
      if (below(60) == 0)
        node.stopped_until = etcd_->now + std::chrono::milliseconds(below(15'000));
      if (deletes_keys_ && below(150) == 0) etcd_->remove("p/leader");
      node.candidate.ask_one();
      node.follow();
      if (node.journal && below(2) == 0) node.serve();
    }
  }

 private:
  struct Node;
  /// The leadership as a node's journal sees it.
  class Tenure : public EtcdTenure {
   public:
    Tenure(History& history, Candidate& candidate) : history_(history), candidate_(candidate) {}
    [[nodiscard]] bool may_answer() const override { return candidate_.may_answer(); }
    [[nodiscard]] bool is_over() const override {
      const Role role = candidate_->role();
      return role != Role::elected && role != Role::leading;
    }
    void lose(const std::string& reason) override { candidate_->lose(reason); }
    /// Meanwhile the thread that keeps the lease goes on.
    void pause() {
      history_.pass(100);
      candidate_.ask_one();
    }

   private:
    History& history_;
    Candidate& candidate_;
  };

  struct Node {
    Node(History& a_history, const std::string& place)
        : history(a_history), candidate(a_history.etcd_, place) {}

    void follow() {
      if (candidate->role() == Role::lost) {
        journal.reset();
        candidate->stand_again(history.etcd_->now);
      }
      if (candidate->role() != Role::elected) return;
      EtcdJournal::Settings settings;
      settings.prefix = "p";
      settings.leader_revision = candidate->revision();
      settings.boot_time = boot_time();
      const auto tenure = std::make_shared<Tenure>(history, candidate);
      settings.pause = [tenure] { tenure->pause(); };
      journal = EtcdJournal::open(std::make_unique<ModelClient>(history.etcd_), settings, tenure);
      if (!journal) return;
      const JournalPast past = journal->take_past();
      CHECK(past.warnings.empty());
      clock_shift = past.clock_shift;
      names.clear();
      for (const JobRecord& record : past.records) {
        if (const auto* began = std::get_if<SessionBegan>(&record.event))
          names.push_back(began->agent);
        if (const auto* restored = std::get_if<SessionRestored>(&record.event))
          names.push_back(restored->agent);
      }
      history.check_known(names);
      // The candidate counts by the model's clock, and the service by its machine's.
      candidate->lead(clock_shift + offset, journal->clock_revision());
      while (!candidate.may_answer() && candidate->role() == Role::leading) {
        history.pass(10);
        candidate.ask_one();
      }
      if (candidate.may_answer()) ++history.counts_.leaders;
    }

    void serve() {
      if (candidate->role() != Role::leading) return;
      const std::string name = std::to_string(history.next_++);
      const auto now = clock();
      names.push_back(name);
      journal->append({"job", now, SessionBegan{name, "10.0.0.1", 15s, 0s}});
      if (history.below(5) == 0) {
        ++history.counts_.snapshots;
        journal->replace(snapshot());
      }
      journal->commit();
      if (history.below(10) == 0) history.pass(history.below(8'000));  // stopped, with the answer
      if (!journal->may_answer()) {
        ++history.counts_.unanswered;
        return;
      }
      ++history.counts_.answers;
      history.told_.push_back(name);
      history.check_answer(*this);
    }

    [[nodiscard]] Clock::time_point boot_time() const { return history.etcd_->now + offset; }
    [[nodiscard]] Clock::time_point clock() const { return boot_time() + clock_shift; }
    [[nodiscard]] JobSnapshot snapshot() const {
      JobSnapshot all{"job", {{"job", clock(), JobRestored{}}}};
      for (const std::string& name : names) {
        SessionRestored session;
        session.agent = name;
        all.records.push_back({"job", clock(), session});
      }
      return all;
    }

    History& history;
    Candidate candidate;
    Clock::duration offset = std::chrono::hours(history.below(50));
    Clock::duration clock_shift{0};
    std::shared_ptr<EtcdJournal> journal;
    Names names;
    Clock::time_point stopped_until{};
  };

  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  void pass(int ms) { etcd_->now += std::chrono::milliseconds(ms); }

  /// In their order, each once.
  void check_known(const Names& names) {
    CHECK(std::includes(
        names.begin(), names.end(), told_.begin(), told_.end(),
        [](const std::string& a, const std::string& b) { return std::stoi(a) < std::stoi(b); }));
    CHECK(std::adjacent_find(names.begin(), names.end(), [](const auto& a, const auto& b) {
            return std::stoi(a) >= std::stoi(b);
          }) == names.end());
  }
  void check_answer(const Node& answering) {
    CHECK(answering.clock() >= clock_);
    clock_ = answering.clock();
    // One of which the key was deleted by hand learns that with its next renewal.
    if (deletes_keys_ || lease_percent_ < kLeasePercentLeast) return;
    for (const Node& other : nodes_) CHECK((&other == &answering || !other.candidate.may_answer()));
  }

  /// Below it another may lead before the old leader takes its own lease for over.
  static constexpr int kLeasePercentLeast = 90;

  std::mt19937 random_;
  Counts& counts_;
  const int lease_percent_;
  std::shared_ptr<ModelEtcd> etcd_;
  std::deque<Node> nodes_;
  Names told_;
  Clock::time_point clock_{};
  int loss_ = 0;  // per cent
  bool deletes_keys_ = false;
  int next_ = 0;
};

}  // namespace

TEST_CASE("every leader knows what any leader before it has answered") {
  Counts counts;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    History(seed, counts).run();
  }
  CHECK(counts.leaders > 60);
  CHECK(counts.answers > 600);
  CHECK(counts.unanswered > 6);
  CHECK(counts.lost_answers > 60);
  CHECK(counts.snapshots > 60);
}

TEST_CASE("a wrong clock of etcd loses nothing of what was answered, and no time goes back") {
  // With 90 and more, at most one answers, too.
  const int lease_percent = GENERATE(10, 40, 70, 90, 95, 130, 300);
  CAPTURE(lease_percent);
  Counts counts;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    History(seed, counts, lease_percent).run();
  }
  CHECK(counts.answers > 20);
}
