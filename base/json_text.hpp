// JSON as text, whatever bytes its strings have. The library is the caller's: this header needs
// none.
#pragma once

#include <string>

namespace ddprun {

/// Names and paths of users have any bytes, JSON has UTF-8: bytes that are not UTF-8 become U+FFFD,
/// where `json.dump()` throws. `indent`: -1 for one line. `ascii`: other characters are escaped.
template <class Json>
std::string json_text(const Json& json, int indent = -1, bool ascii = false) {
  return json.dump(indent, ' ', ascii, Json::error_handler_t::replace);
}

}  // namespace ddprun
