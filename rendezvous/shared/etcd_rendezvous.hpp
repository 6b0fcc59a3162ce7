// An agent's part in a rendezvous over etcd, where no rdzvd runs: it looks up which agent of its
// run leads, and hosts a candidate itself if it is one of the first
// (rendezvous/shared/candidacy.hpp). On a thread of its own, because each question to etcd waits
// for the answer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>

#include "base/unique_handle.hpp"
#include "rendezvous/client/service_finder.hpp"
#include "rendezvous/etcd/etcd_client.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "rendezvous/shared/candidacy.hpp"
#include "rendezvous/shared/shared_service.hpp"

namespace ddprun::rdzv {

struct EtcdRendezvousSettings {
  EtcdPlace etcd;  ///< of the run
  EtcdAccess access;
  std::string local_addr;  ///< by which others reach this machine; empty: by which it reaches etcd
  /// A name of this machine that its certificate may have, and by which others reach it. Empty:
  /// they use the address.
  std::string local_name;
  bool may_host = true;          ///< a candidate
  std::uint16_t port_first = 0;  ///< where a candidate listens; 0: any free port
  std::uint16_t port_last = 0;
  std::chrono::milliseconds first_look{0};        ///< from the start until it looks for a free slot
  std::chrono::milliseconds slots_every{10'000};  ///< as CandidacySettings::look_every
  std::chrono::milliseconds ask_pause{100};       ///< between two questions which agent leads
  std::function<void(const std::string&)> on_warning;  ///< a line for people; from any thread
  std::function<void(const std::string&)> on_info;     ///< on jobs and agents; from any thread
  /// Whatever can connect there is served from then on: clients prove nothing. From the thread.
  std::function<void(const Endpoint&)> on_open;
};

class EtcdRendezvous final : public ServiceFinder {
 public:
  /// `context`: of the agent, where answers come from.
  EtcdRendezvous(boost::asio::io_context& context, EtcdRendezvousSettings settings);
  /// As end().
  ~EtcdRendezvous() override;

  /// `service`: of a candidate. Once. Errors: the system's.
  ErrorCode start(ServiceServerSettings service);
  void find(Done done) override;
  /// A service has welcomed this agent: so the run has begun, and is over where etcd has nothing of
  /// it.
  void note_welcome() { was_welcomed_ = true; }
  /// Whether it is a candidate: its service may be the one that leads.
  [[nodiscard]] bool is_candidate() const;
  /// Whether the run is over, its service is here, and not all agents know it.
  [[nodiscard]] bool is_ending() const;
  /// Gives up what this agent has in etcd: the slot, the leadership, and where the run is over all
  /// of its keys. Takes as long as etcd needs, up to three seconds.
  void end();

 private:
  void run();
  void answer_question();
  FoundService look_for_leader();
  void stand();
  void ask(const SlotRequest& request);
  template <class Answer, class Take>
  void take(const EtcdResult<Answer>& answer, Take take);
  void claim(const ClaimSlot& request);
  [[nodiscard]] std::string listen();
  void host();
  void fail(const EtcdFault& fault);
  void wait();
  void give_up_hosting(const std::string& reason);
  void give_up_slot();

  boost::asio::io_context& context_;
  const EtcdRendezvousSettings settings_;
  std::atomic<bool> is_ended_{false};
  std::atomic<bool> was_welcomed_{false};
  UniqueFd woken_;
  mutable std::mutex mutex_;  // of what follows
  Done question_;             // empty: none waits
  std::shared_ptr<SharedService> shared_;
  // Used by the thread alone.
  std::unique_ptr<EtcdClient> etcd_;
  ServiceServerSettings service_;
  Candidacy candidacy_;
  StoreListener listener_;
  std::string place_;    // of the listener, for others
  std::string trouble_;  // why this agent is no candidate
  Clock::time_point ask_at_{};
  std::thread thread_;
};

}  // namespace ddprun::rdzv
