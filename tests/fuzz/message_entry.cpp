#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "proto/session_messages.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/support/membership_json.hpp"
#include "tests/support/random_message.hpp"

namespace ddprun::test {
namespace {

template <class Message>
void check(Result<Message> (*decode)(std::string_view), std::string_view bytes) {
  const auto message = decode(bytes);
  if (!message) return;
  const std::string text = proto::encode(*message);
  const auto again = decode(text);
  DDPRUN_ASSERT(again.has_value(), "what is written can be read");
  DDPRUN_ASSERT(is_same_message(*message, *again), "what is read again is the same");
  DDPRUN_ASSERT(proto::encode(*again) == text, "and is written as before");
}

}  // namespace

void fuzz_membership_json(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(proto::decode_client_message, bytes);
  check(proto::decode_service_message, bytes);
  check(proto::decode_agent_message, bytes);
  check(proto::decode_membership_message, bytes);
}

}  // namespace ddprun::test
