// etcd over HTTP/1.1: its JSON gateway, by Boost.Beast. Several members are asked in turn, the one
// that answered last first; every call has a deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/endpoint.hpp"
#include "rendezvous/etcd/etcd.hpp"

namespace ddprun::rdzv {

class EtcdClient : public Etcd {
 public:
  /// A member that has not answered for so long is left for the next one, within a call's limit.
  static constexpr Limit kMemberLimit{1'000};

  /// `members`: each with its port; at least one. `is_cancelled`: asked now and then from within a
  /// call, which ends soon once it is true.
  EtcdClient(std::vector<Endpoint> members, std::function<bool()> is_cancelled);
  ~EtcdClient() override;

  EtcdResult<EtcdPage> range(const EtcdQuery& query, Limit limit) override;
  EtcdResult<EtcdTxnAnswer> txn(const EtcdTxn& txn, Limit limit) override;
  EtcdResult<EtcdGrant> grant(std::chrono::seconds ttl, Limit limit) override;
  EtcdResult<std::chrono::seconds> keep_alive(EtcdLease lease, Limit limit) override;
  EtcdResult<std::monostate> revoke(EtcdLease lease, Limit limit) override;
  EtcdResult<std::monostate> compact(EtcdRevision revision, Limit limit) override;

 private:
  class Connection;

  EtcdResult<std::string> post(const char* path, const std::string& body, Limit limit);

  const std::vector<Endpoint> members_;
  const std::function<bool()> is_cancelled_;
  std::size_t member_ = 0;                  // that is asked first
  std::unique_ptr<Connection> connection_;  // to that one, kept open; null: there is none
};

}  // namespace ddprun::rdzv
