// The rendezvous service of one of several processes (rdzvd, or agents of one run) that share a
// journal in etcd: a leader with the jobs, or a standby that names the leader. It changes from one
// to the other on the thread that follows it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/unique_handle.hpp"
#include "rendezvous/etcd/etcd_access.hpp"
#include "rendezvous/etcd/etcd_leader.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::rdzv {

class SharedService {
 public:
  struct Settings {
    EtcdPlace etcd;
    EtcdAccess access;
    Endpoint bound;                 ///< where it listens, numeric
    std::string place;              ///< HOST:PORT where agents reach it
    UniqueFd listener;              ///< at `bound`. None: all connections are adopted
    ServiceServerSettings service;  ///< without a journal
    /// The prefix is that of one run, which ends: a leader that ends when no agent is left removes
    /// all of its keys. Asked on the following thread where etcd has nothing of the run: whether
    /// this one may begin it. No: the run is over, and there is nothing to lead. Empty: the prefix
    /// has any number of jobs.
    std::function<bool()> may_begin_run;
    std::function<void(const std::string&)> on_warning;  ///< from any thread
    std::function<void(const std::string&)> on_info;     ///< from any thread
  };

  /// As a standby. Errors: the system's, where there is no descriptor or no thread left.
  static Result<std::unique_ptr<SharedService>> start(Settings settings);
  /// Resets all connections; a leader gives its place up. On the following thread.
  ~SharedService();
  SharedService(const SharedService&) = delete;
  SharedService& operator=(const SharedService&) = delete;

  /// From any thread: as ServiceServer's.
  void adopt(UniqueFd connection);
  [[nodiscard]] std::size_t agents() const;
  /// As ServiceServer's, of a leader; a standby has no jobs.
  [[nodiscard]] bool is_ending() const;
  /// From any thread: `follow` waits for nothing any more. Before the end.
  void begin_end() { leader_->begin_end(); }
  /// Becomes readable when `follow` has something to do. For poll.
  [[nodiscard]] int descriptor() const { return changed_.get(); }
  /// Becomes what it is to be. Reading the jobs takes as long as etcd needs for that.
  void follow();

 private:
  explicit SharedService(Settings settings) : settings_(std::move(settings)) {}

  ErrorCode begin();
  [[nodiscard]] std::unique_ptr<Etcd> make_client(std::function<bool()> is_cancelled) const;
  Result<ServiceServer> start_server(ServiceServerSettings service) const;
  Result<ServiceServer> start_standby();
  void become_leader(EtcdRevision revision);
  void become_standby(const std::string& reason);
  void retire();
  void swap(ServiceServer server);
  [[nodiscard]] proto::Refused answer_of_standby() const;

  const Settings settings_;
  UniqueFd changed_;
  std::shared_ptr<EtcdLeader> leader_;
  bool leads_ = false;
  bool is_retired_ = false;   // it stands no more
  mutable std::mutex mutex_;  // of the pointer
  std::shared_ptr<ServiceServer> server_;
};

/// Where agents reach an rdzvd that listens there: the host as the user gave it, but for one that
/// stands for all addresses this machine's name.
std::string place_of_listener(const Endpoint& listen, std::uint16_t bound_port);

}  // namespace ddprun::rdzv
