// One of several rdzvd that share a journal in etcd, in the simulation: the real leadership,
// journal and service; what rendezvous/shared/shared_service.hpp does with them is played.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/etcd/journal_etcd.hpp"
#include "tests/sim/sim_leadership.hpp"
#include "tests/sim/sim_process.hpp"
#include "tests/sim/sim_told.hpp"

namespace ddprun::sim {

class SimRdzvd : public SimProcess {
 public:
  /// What all rdzvd have together.
  struct Shared {
    SimEtcd etcd;
    SimTold told;
    SimRdzvd* leader = nullptr;  ///< that has read the jobs last; null: it is killed, or has lost
    std::vector<rdzv::JobRecord> records;  ///< of what was told, or found by a new leader
    std::function<void()> after;           ///< when events were taken
    std::string broken;
    int leaders = 0;  ///< so far
    int untold = 0;   ///< writes of a leader that ended before it could tell of them
  };

  SimRdzvd(World& world, ServicePlan plan, int number, std::int64_t clock_ppm_most, Shared& shared);

  [[nodiscard]] bool is_up() const override { return leadership_ != nullptr; }
  [[nodiscard]] bool leads() const { return shared_.leader == this; }
  [[nodiscard]] const rdzv::Job* job() const { return job_of_core(); }

  /// SIGKILL; it is started again after that time, or more if a call of it must return first.
  void kill(Duration away);
  /// SIGSTOP.
  void freeze(Duration lasts);
  /// No call of it reaches etcd for a time, or no answer reaches it.
  void cut_from_etcd(Duration lasts);
  enum class Fault { kill, freeze };
  /// The fault comes while it writes next.
  void harm_next_write(Fault fault, Duration lasts) { on_write_ = {fault, lasts}; }
  /// It is back at once, and nothing goes wrong with it.
  void heal();

 private:
  void on(const rdzv::ServiceEvent& event) override;
  std::optional<Duration> busy_for() override;
  [[nodiscard]] Clock::time_point in_world(Clock::time_point at) const override {
    return clock_->in_world(at - clock_shift_);
  }
  [[nodiscard]] Clock::time_point now() const { return clock_->now() + clock_shift_; }
  [[nodiscard]] bool is_stopped() const { return is_up() && leadership_->is_frozen(); }

  void start();
  void come_back();
  void thaw();
  void follow();
  void follow_later();
  void become_leader();
  void serve(rdzv::EtcdJournal& journal);
  void become_standby();
  void send_elsewhere(rdzv::ConnectionId id);
  void commit(const rdzv::ServiceActions& actions);
  bool obey(rdzv::ServiceActions& actions);
  void end_all();
  void take_waiting();
  [[nodiscard]] rdzv::ServiceCore replayed(const rdzv::JournalPast& past) const;
  void replay_durable(const rdzv::ServiceActions& actions);

  const std::int64_t clock_ppm_most_;
  Shared& shared_;
  std::optional<HostClock> clock_;
  std::shared_ptr<SimLeadership> leadership_;  // of this life; null: it is killed
  std::shared_ptr<rdzv::EtcdJournal> journal_;
  Duration clock_shift_{0};
  bool is_in_call_ = false;    // of the thread that changes roles, or of the service's
  bool serves_ = false;        // the service's thread runs, with the jobs
  bool is_over_ = false;       // it must not answer any more
  bool is_forgotten_ = false;  // the job, by the journal
  bool is_cut_ = false;
  bool is_following_ = false;  // soon
  std::deque<rdzv::ServiceEvent> waiting_;
  std::optional<std::pair<Fault, Duration>> on_write_;
};

}  // namespace ddprun::sim
