#include "proto/membership_json.hpp"

#include "proto/membership_fields.hpp"

namespace ddprun::proto {
namespace {

template <class Message>
std::string encode_variant(const Message& message) {
  std::string out = "{";
  std::visit([&](const auto& one) { write_message(out, one); }, message);
  out += '}';
  return out;
}

template <class Message>
Result<Message> decode_membership(std::string_view body) {
  const auto envelope = open_envelope(body);
  if (!envelope) return envelope.error();
  Message message;
  if (const ErrorCode ec = read_message(*envelope, message)) return ec;
  return message;
}

}  // namespace

std::string encode(const AgentMessage& message) { return encode_variant(message); }
std::string encode(const MembershipMessage& message) { return encode_variant(message); }

Result<AgentMessage> decode_agent_message(std::string_view body) {
  return decode_membership<AgentMessage>(body);
}
Result<MembershipMessage> decode_membership_message(std::string_view body) {
  return decode_membership<MembershipMessage>(body);
}

}  // namespace ddprun::proto
