// etcd over HTTP/1.1: its JSON gateway. Several members are asked in turn, the one that answered
// last first; every call has a deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/endpoint.hpp"
#include "rendezvous/etcd/etcd.hpp"
#include "rendezvous/etcd/etcd_access.hpp"

namespace ddprun::rdzv {

class EtcdConnection;

class EtcdClient : public Etcd {
 public:
  /// A member that has not answered for so long is left for the next one, within a call's limit.
  static constexpr Limit kMemberLimit{1'000};

  /// `members`: each with its port; at least one. `is_cancelled`: asked now and then from within a
  /// call, which ends soon once it is true.
  EtcdClient(std::vector<Endpoint> members, std::function<bool()> is_cancelled,
             EtcdAccess access = {});
  ~EtcdClient() override;

  EtcdResult<EtcdPage> range(const EtcdQuery& query, Limit limit) override;
  EtcdResult<EtcdTxnAnswer> txn(const EtcdTxn& txn, Limit limit) override;
  EtcdResult<EtcdGrant> grant(std::chrono::seconds ttl, Limit limit) override;
  EtcdResult<std::chrono::seconds> keep_alive(EtcdLease lease, Limit limit) override;
  EtcdResult<std::monostate> revoke(EtcdLease lease, Limit limit) override;
  EtcdResult<std::monostate> compact(EtcdRevision revision, Limit limit) override;

  /// The member that answered last, and our end of the connection to it, numeric: by that address
  /// this machine is known there. Empty: none has answered.
  [[nodiscard]] const std::string& member_host() const { return member_host_; }
  [[nodiscard]] const std::string& local_addr() const { return local_addr_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  EtcdResult<std::string> post(const char* path, const std::string& body, Limit limit);
  EtcdResult<std::string> ask(const char* path, const std::string& body, SteadyTime end);
  EtcdResult<std::monostate> log_in(SteadyTime end);

  const std::vector<Endpoint> members_;
  const std::function<bool()> is_cancelled_;
  const EtcdAccess access_;
  std::string token_;  // of the user; empty: none yet
  std::string member_host_;
  std::string local_addr_;
  std::size_t member_ = 0;                      // that is asked first
  std::unique_ptr<EtcdConnection> connection_;  // to that one, kept open; null: there is none
};

}  // namespace ddprun::rdzv
