// The leadership of this process, kept up by a thread of its own: a slow service or a journal that
// waits does not let the lease end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.hpp"
#include "rendezvous/etcd/journal_etcd.hpp"
#include "rendezvous/etcd/leadership.hpp"

namespace ddprun::rdzv {

class EtcdLeader : public EtcdTenure {
 public:
  struct Events {
    /// The role is another one, or another one leads.
    std::function<void()> changed;
    /// A line for people: etcd does not answer, or answers again.
    std::function<void(const std::string&)> warn;
  };
  struct View {
    Leadership::Role role = Leadership::Role::standby;
    EtcdRevision revision = 0;  ///< as Leadership's
    std::string leader;         ///< the one that leads; empty: none does
    std::string reason;         ///< why it was lost
  };

  /// Events are called on the thread. Errors: the system's, where it cannot be started.
  /// `make_client`: for that thread. Its argument: whether its calls are to end.
  using MakeClient = std::function<std::unique_ptr<Etcd>(std::function<bool()>)>;
  static Result<std::shared_ptr<EtcdLeader>> start(const MakeClient& make_client,
                                                   LeadershipSettings settings, Events events);
  ~EtcdLeader() override;

  [[nodiscard]] View view() const;
  // As Leadership's; from any thread.
  void lead(Clock::duration clock_shift, EtcdRevision clock_revision);
  void stand_again();
  void lose(const std::string& reason) override;
  [[nodiscard]] bool may_answer() const override;
  [[nodiscard]] bool is_over() const override;

  /// Nothing that waits for this leadership waits on: is_over() is true from now on. The key is
  /// still kept.
  void begin_end() { is_ending_ = true; }
  /// The service is stopped: gives the key up, so that another may lead at once, and ends the
  /// thread. The first call counts.
  void end(Leadership::Legacy legacy = Leadership::Legacy::kept);

 private:
  EtcdLeader(const MakeClient& make_client, LeadershipSettings settings, Events events);

  void run();
  void ask(const LeaderRequest& request);
  template <class Answer, class Take>
  void take(const EtcdResult<Answer>& answer, Take take);
  void tell(const EtcdFault* fault, bool is_read);
  void tell_of_history(const EtcdFault& fault);
  void publish();

  const LeadershipSettings settings_;
  const Events events_;
  std::atomic<bool> is_ending_{false};
  std::atomic<bool> is_stopped_{false};
  std::atomic<Clock::rep> answers_until_{0};  // since the boot clock's zero; 0: it may not
  std::atomic<bool> has_key_{false};
  const std::unique_ptr<Etcd> etcd_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable woken_;
  Leadership leadership_;
  View told_;
  // Used by the thread alone.
  int faults_ = 0;        // in a row, of members that do not answer
  bool is_told_ = false;  // of a fault, of this kind
  EtcdFault::Kind told_kind_ = EtcdFault::Kind::unreachable;
  bool is_history_told_ = false;
  std::thread thread_;
};

}  // namespace ddprun::rdzv
