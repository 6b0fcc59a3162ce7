// The leadership of one rdzvd of the simulation: the real decisions, as the thread of
// rendezvous/etcd/etcd_leader.hpp has them. The thread waits for each answer, and the world goes on
// meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rendezvous/etcd/journal_etcd.hpp"
#include "rendezvous/etcd/leadership.hpp"
#include "tests/sim/sim_etcd.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

/// What one life of the process has of the leadership.
class SimLeadership : public rdzv::EtcdTenure, public std::enable_shared_from_this<SimLeadership> {
 public:
  /// `changed`: the role may be another one.
  SimLeadership(World& world, SimEtcd& etcd, HostClock clock, const std::string& place,
                std::function<bool()> is_cut, std::function<void()> changed);

  /// What is due. To be called once after it was made.
  void go_on();
  /// The process is stopped (SIGSTOP), and goes on.
  void freeze() { is_frozen_ = true; }
  void thaw();
  /// It is killed: nothing more follows from it, though what it has asked for may still happen.
  void kill() { is_dead_ = true; }

  void lead(Duration clock_shift, rdzv::EtcdRevision clock_revision);
  void stand_again();
  void lose(const std::string& reason) override;
  [[nodiscard]] bool may_answer() const override;
  [[nodiscard]] bool is_over() const override;

  [[nodiscard]] bool is_dead() const { return is_dead_; }
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }
  [[nodiscard]] rdzv::Leadership::Role role() const { return leadership_.role(); }
  [[nodiscard]] rdzv::EtcdRevision revision() const { return leadership_.revision(); }
  [[nodiscard]] const std::string& leader() const { return leadership_.leader(); }
  [[nodiscard]] Clock::time_point now() const { return clock_.now(); }

  /// For the process's other threads: a client of which the calls return when they are answered,
  /// while the world goes on.
  [[nodiscard]] std::unique_ptr<rdzv::Etcd> make_client();
  /// Lets the world go on until then, and until the process is not stopped; or it is killed.
  void wait_until(const std::function<bool()>& holds);
  void sleep(Duration time);

 private:
  class Client;
  using Take = std::function<void(rdzv::Leadership&, Clock::time_point now)>;

  void ask(const rdzv::LeaderRequest& request);
  template <class Answer>
  void ask(std::function<rdzv::EtcdResult<Answer>(test::ModelEtcd&)> what,
           std::function<void(rdzv::Leadership&, const Answer&, Clock::time_point now)> take);
  void answered(Take take);

  World& world_;
  SimEtcd& etcd_;
  const HostClock clock_;
  const rdzv::LeadershipSettings settings_;
  const std::function<bool()> is_cut_;
  const std::function<void()> changed_;
  rdzv::Leadership leadership_;
  bool is_asking_ = false;
  Take untaken_;  // an answer that came while it was stopped
  bool is_frozen_ = false;
  bool is_dead_ = false;
  std::uint64_t steps_ = 0;
};

}  // namespace ddprun::sim
