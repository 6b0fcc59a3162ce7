#include "bench/store/storm_scripts.hpp"

#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/support/c10d_requests.hpp"

namespace ddprun::bench {
namespace {

using test::TorchRequestWriter;

constexpr std::uint64_t kNonceBytes = 4;
constexpr std::uint64_t kNumberBytes = 8;
constexpr std::uint64_t kWaitBytes = 1;
constexpr std::size_t kAddressBytes = 200;  // of gloo's address of one rank, roughly
constexpr std::size_t kUniqueIdBytes = 128;

void hello(std::uint32_t client, Message& message) {
  TorchRequestWriter writer(message.bytes);
  writer.validate();
  writer.ping(client);
  message.reply_bytes = kNonceBytes;
}

void set(const std::string& key, const std::string& value, Message& message) {
  TorchRequestWriter(message.bytes).set(key, value);
}

void wait(const std::string& key, Message& message) {
  TorchRequestWriter(message.bytes).wait(std::span(&key, 1));
  message.reply_bytes = kWaitBytes;
}

void get(const std::string& key, std::size_t value_bytes, Message& message) {
  TorchRequestWriter(message.bytes).get(key);
  message.reply_bytes = 8 + value_bytes;
}

/// What every rank does first: steps 0 and 1.
void join(std::uint32_t client, std::uint64_t step, Message& message) {
  if (step == 0) return hello(client, message);
  TorchRequestWriter(message.bytes).add("init/", 1);
  message.reply_bytes = kNumberBytes;
}
constexpr std::uint64_t kJoinSteps = 2;

/// Rank r sets its address; every rank then does WAIT, WAIT, GET for each rank's.
class GlooScript : public Script {
 public:
  GlooScript(std::uint32_t ranks, bool reads_own)
      : reads_own_(reads_own), value_(kAddressBytes, 'a') {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      keys_.push_back(fmt::format("/default_pg/0//cpu//0/{}", rank));
  }
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override {
    if (step < kJoinSteps) {
      join(client, step, message);
      return true;
    }
    if (step == kJoinSteps) {
      set(keys_[client], value_, message);
      return true;
    }
    const std::uint64_t turn = step - kJoinSteps - 1;
    std::uint64_t peer = turn / 3;
    if (!reads_own_ && peer >= client) ++peer;
    if (peer >= keys_.size()) return false;
    if (turn % 3 == 2) {
      get(keys_[peer], kAddressBytes, message);
    } else {
      wait(keys_[peer], message);
    }
    return true;
  }

 private:
  bool reads_own_;
  std::string value_;
  std::vector<std::string> keys_;
};

/// gloo with GLOO_ENABLE_STORE_V2_API=1: all keys in one WAIT and one MULTI_GET.
class GlooV2Script : public Script {
 public:
  explicit GlooV2Script(std::uint32_t ranks) : value_(kAddressBytes, 'a') {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      keys_.push_back(fmt::format("/default_pg/0//cpu//0/{}", rank));
  }
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override {
    switch (step) {
      case 0:
      case 1:
        join(client, step, message);
        return true;
      case 2:
        set(keys_[client], value_, message);
        return true;
      case 3:
        TorchRequestWriter(message.bytes).wait(keys_);
        message.reply_bytes = kWaitBytes;
        return true;
      case 4:
        TorchRequestWriter(message.bytes).multi_get(keys_);
        message.reply_bytes = keys_.size() * (8 + kAddressBytes);
        return true;
      default:
        return false;
    }
  }

 private:
  std::string value_;
  std::vector<std::string> keys_;
};

class NcclScript : public Script {
 public:
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override {
    if (step < kJoinSteps) {
      join(client, step, message);
      return true;
    }
    if (client == 0) {
      if (step > kJoinSteps) return false;
      set(key_, value_, message);
      message.kind = Message::Kind::releasing;
      return true;
    }
    if (step > kJoinSteps + 1) return false;
    if (step == kJoinSteps) {
      wait(key_, message);
      message.kind = Message::Kind::held;
    } else {
      get(key_, kUniqueIdBytes, message);
    }
    return true;
  }

 private:
  std::string key_ = "/default_pg/0//cuda//0";
  std::string value_ = std::string(kUniqueIdBytes, 'n');
};

constexpr std::size_t kCrowdValueBytes = 16;
const std::string kCrowdValue(kCrowdValueBytes, 'c');

}  // namespace

std::unique_ptr<Script> make_storm(std::string_view pattern, std::uint32_t ranks) {
  if (pattern == "gloo-2.6") return std::make_unique<GlooScript>(ranks, false);
  if (pattern == "gloo-2.15") return std::make_unique<GlooScript>(ranks, true);
  if (pattern == "gloo-v2") return std::make_unique<GlooV2Script>(ranks);
  if (pattern == "nccl") return std::make_unique<NcclScript>();
  throw std::runtime_error(fmt::format("no start-up pattern is called {}", pattern));
}

CrowdScript::CrowdScript(std::uint32_t clients, std::uint32_t round)
    : clients_(clients),
      prefix_(fmt::format("/crowd/{}/", round)),
      awaited_{fmt::format("{}last", prefix_)} {}

bool CrowdScript::next(std::uint32_t client, std::uint64_t step, Message& message) const {
  const bool last = client + 1 == clients_;
  switch (step) {
    case 0:
      hello(client, message);
      return true;
    case 1:
      set(fmt::format("{}{}", prefix_, client), kCrowdValue, message);
      return true;
    case 2:
      if (last) {
        set(awaited_[0], kCrowdValue, message);
        message.kind = Message::Kind::releasing;
      } else {
        wait(awaited_[0], message);
        message.kind = Message::Kind::held;
      }
      return true;
    case 3:
      get(awaited_[0], kCrowdValueBytes, message);
      return true;
    default:
      return false;
  }
}

AwaitScript::AwaitScript(std::uint32_t round) : awaited_{fmt::format("/awaited/{}", round)} {}

bool AwaitScript::next(std::uint32_t client, std::uint64_t step, Message& message) const {
  if (step == 0) {
    hello(client, message);
    return true;
  }
  if (step > 1 || client == 0) return false;
  TorchRequestWriter(message.bytes).wait(awaited_);
  message.kind = Message::Kind::held;
  return true;
}

WakeScript::WakeScript(std::uint32_t round) : awaited_(fmt::format("/awaited/{}", round)) {}

bool WakeScript::next(std::uint32_t client, std::uint64_t step, Message& message) const {
  if (step > 0) return false;
  if (client == 0) {
    set(awaited_, kCrowdValue, message);
    message.kind = Message::Kind::releasing;
  } else {
    message.reply_bytes = kWaitBytes;
  }
  return true;
}

}  // namespace ddprun::bench
