// How ranks tell each other where their shared memory is, before they have any: a few small keys in
// the round's store.
#pragma once

#include <string>

#include "base/result.hpp"
#include "trainer/comm/communicator.hpp"

namespace ddprun::rdzv {
class StoreClient;
}

namespace ddprun::trainer {

/// Keys and values shared by the ranks of one round. Every call ends by `deadline` with
/// proto::Errc::timed_out.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Result<void> set(const std::string& key, const std::string& value,
                           Clock::time_point deadline) = 0;
  /// Waits for the key to appear.
  virtual Result<std::string> get(const std::string& key, Clock::time_point deadline) = 0;
};

/// The exchange over a c10d store. Keeps a reference: `client` must outlive it.
class StoreExchange : public Exchange {
 public:
  explicit StoreExchange(rdzv::StoreClient& client) : client_(client) {}
  Result<void> set(const std::string& key, const std::string& value,
                   Clock::time_point deadline) override;
  Result<std::string> get(const std::string& key, Clock::time_point deadline) override;

 private:
  rdzv::StoreClient& client_;
};

/// `what`: what was asked of the exchange; `rank`: the rank that it is about.
CommResult exchange_failure(ErrorCode error, int rank, const std::string& what);

}  // namespace ddprun::trainer
