// What the service asks of etcd, version 3: keys, transactions and leases. The implementations: a
// client over HTTP (rendezvous/etcd/etcd_client.hpp), and models in memory in the tests.
//
// Every call may have had its effect although it failed: its answer may be lost. So what is asked
// must bear to be asked again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/system/result.hpp>

namespace ddprun::rdzv {

/// A revision of the whole store, which grows with each change of any key. No revision is 0.
using EtcdRevision = std::int64_t;
using EtcdLease = std::int64_t;

struct EtcdFault {
  enum class Kind {
    unreachable,  ///< no member answered in time, or none can reach the majority of them
    no_space,     ///< the alarm NOSPACE: only reading and deleting works
    not_trusted,  ///< TLS: we accept no member's certificate, or none accepts ours
    needs_user,   ///< it asks for a user, another password or token of it, or for TLS
    too_old,      ///< it has no gateway /v3
    too_large,    ///< the answer exceeds what is read at once
    compacted,    ///< that revision is gone
    refused,      ///< anything else
  } kind = Kind::unreachable;
  std::string reason;  ///< what failed, why, and what to do; the end of a line
};
template <class Answer>
using EtcdResult = boost::system::result<Answer, EtcdFault>;

struct EtcdKeyValue {
  std::string key;
  std::string value;
  EtcdRevision create_revision = 0;
  EtcdRevision mod_revision = 0;
  EtcdLease lease = 0;  ///< 0: none
};

/// That a key has this revision; 0: that it does not exist.
struct EtcdCompare {
  enum class What { create_revision, mod_revision } what = What::create_revision;
  std::string key;
  EtcdRevision revision = 0;
};
struct EtcdPut {
  std::string key;
  std::string value;
  EtcdLease lease = 0;  ///< with which it goes; 0: none
};
/// The keys from `key` on, below `end`. Empty end: the key alone.
struct EtcdDelete {
  std::string key;
  std::string end;
};
using EtcdChange = std::variant<EtcdPut, EtcdDelete>;

/// Where all comparisons hold, all changes happen, else none. No key may be changed twice.
struct EtcdTxn {
  std::vector<EtcdCompare> compares;
  std::vector<EtcdChange> changes;
  std::vector<std::string> read_otherwise;  ///< keys
};
struct EtcdTxnAnswer {
  EtcdRevision revision = 0;
  bool succeeded = false;
  std::vector<std::optional<EtcdKeyValue>> read;  ///< of read_otherwise, in its order
};

/// The first `limit` of the keys from `key` on, below `end`, in their order.
struct EtcdQuery {
  std::string key;
  std::string end;  ///< empty: the key alone
  std::int64_t limit = 1;
  EtcdRevision revision = 0;  ///< as of then; 0: as of now
};
struct EtcdPage {
  EtcdRevision revision = 0;  ///< of the store
  std::vector<EtcdKeyValue> keys;
  bool more = false;  ///< behind these
};

struct EtcdGrant {
  EtcdLease lease = 0;
  std::chrono::seconds ttl{0};
};

/// Used by one thread at a time. Each call ends within `limit`.
class Etcd {
 public:
  using Limit = std::chrono::milliseconds;
  Etcd() = default;
  Etcd(const Etcd&) = delete;
  Etcd& operator=(const Etcd&) = delete;
  virtual ~Etcd() = default;

  /// Never from a member's stale copy: the majority of the members confirms it.
  virtual EtcdResult<EtcdPage> range(const EtcdQuery& query, Limit limit) = 0;
  virtual EtcdResult<EtcdTxnAnswer> txn(const EtcdTxn& txn, Limit limit) = 0;
  virtual EtcdResult<EtcdGrant> grant(std::chrono::seconds ttl, Limit limit) = 0;
  /// The time to live that it has again; 0: the lease is over.
  virtual EtcdResult<std::chrono::seconds> keep_alive(EtcdLease lease, Limit limit) = 0;
  virtual EtcdResult<std::monostate> revoke(EtcdLease lease, Limit limit) = 0;
  /// Removes the history before that revision, of all keys of the store; no key's newest value.
  virtual EtcdResult<std::monostate> compact(EtcdRevision revision, Limit limit) = 0;
};

}  // namespace ddprun::rdzv
