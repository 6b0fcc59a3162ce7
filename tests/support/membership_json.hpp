// The membership messages alone as JSON: {"join": {...}}, {"round": {...}}. The session's messages
// carry them; docs/protocol.md has an example of each.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "proto/membership_fields.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::proto {

template <class Variant>
std::string encode_variant(const Variant& message) {
  std::string out = "{";
  std::visit([&](const auto& one) { write_message(out, one); }, message);
  out += '}';
  return out;
}
inline std::string encode(const AgentMessage& message) { return encode_variant(message); }
inline std::string encode(const MembershipMessage& message) { return encode_variant(message); }

/// Errors: malformed; unknown_kind.
template <class Variant>
Result<Variant> decode_variant(std::string_view body) {
  const auto envelope = open_envelope(body);
  if (!envelope) return envelope.error();
  Variant message;
  if (const ErrorCode ec = read_message(*envelope, message)) return ec;
  return message;
}
inline Result<AgentMessage> decode_agent_message(std::string_view body) {
  return decode_variant<AgentMessage>(body);
}
inline Result<MembershipMessage> decode_membership_message(std::string_view body) {
  return decode_variant<MembershipMessage>(body);
}

}  // namespace ddprun::proto
