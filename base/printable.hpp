// Text of users in lines of ours. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// The text with what would control a terminal or begin another line written as in C: `\n`, `\x1b`.
/// The control characters of either set are (U+0001 to U+001F, U+007F to U+009F); other bytes stay.
/// `kept`: control characters that stay as they are.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace ddprun
