// Messages that tell of many workers, cut down to what fits into one frame.
#pragma once

#include <string>

#include "proto/frame.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::proto {

/// Leaves room for a tag and for what is around a message.
inline constexpr std::size_t kMessageBytesMax = kFrameBytesMax - 4096;

/// The message as bytes, not more than kMessageBytesMax. Where it is larger, it loses first what
/// workers other than the culprit or the first have printed and their stacks, then those beyond the
/// first 64, then long texts, and at last the lines of the culprit or the first.
std::string encode_to_fit(ClientMessage message);
std::string encode_to_fit(ServiceMessage message);
/// An outcome cut down in the same way.
Finished fitted(Finished finished);

}  // namespace ddprun::proto
