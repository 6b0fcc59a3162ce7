// An exchange between threads of one process.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "proto/error.hpp"
#include "trainer/comm/exchange.hpp"

namespace ddprun::trainer::test {

class MemoryExchange : public Exchange {
 public:
  Result<void> set(const std::string& key, const std::string& value,
                   Clock::time_point /*deadline*/) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    stored_.notify_all();
    return {};
  }

  Result<std::string> get(const std::string& key, Clock::time_point deadline) override {
    std::unique_lock lock(mutex_);
    if (!stored_.wait_until(lock, deadline, [&] { return values_.contains(key); }))
      return proto::Errc::timed_out;
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable stored_;
  std::map<std::string, std::string> values_;
};

}  // namespace ddprun::trainer::test
