// What this build is: for --version and for hellos.
#pragma once

#include <string>

namespace ddprun {

/// Version of our own control protocol (job socket, rendezvous). The c10d dialect has none.
inline constexpr int kProtocolVersionMin = 1;
inline constexpr int kProtocolVersionMax = 1;

/// "0.1.0".
const char* version() noexcept;

/// Several lines: version and git state, compiler, libraries, protocols.
std::string version_text(const char* program);

}  // namespace ddprun
