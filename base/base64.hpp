// Base64 (RFC 4648, section 4): bytes as text, with padding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Appends `bytes` as base64.
void append_base64(std::string& out, std::string_view bytes);

/// None: it is no base64, or its padding is missing or not zero.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace ddprun
