// The membership messages as JSON, one object each: {"join": {...}}, {"round": {...}}. The fields
// and their limits are in proto/membership_fields.hpp; docs/protocol.md has an example of each.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::proto {

std::string encode(const AgentMessage& message);
std::string encode(const MembershipMessage& message);

/// Errors: malformed; unknown_kind.
Result<AgentMessage> decode_agent_message(std::string_view body);
Result<MembershipMessage> decode_membership_message(std::string_view body);

}  // namespace ddprun::proto
