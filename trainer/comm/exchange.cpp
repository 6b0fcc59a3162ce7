#include "trainer/comm/exchange.hpp"

#include "rendezvous/client/store_client.hpp"

namespace ddprun::trainer {

Result<void> StoreExchange::set(const std::string& key, const std::string& value,
                                Clock::time_point deadline) {
  return client_.set(key, value, deadline);
}

Result<std::string> StoreExchange::get(const std::string& key, Clock::time_point deadline) {
  return client_.get(key, deadline);
}

}  // namespace ddprun::trainer
