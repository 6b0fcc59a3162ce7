// Where the system has no descriptor, or no memory for one.
#pragma once

#include <string>

#include "base/result.hpp"

namespace ddprun {

/// It concerns the process or the machine, not the one connection or file: a later attempt may
/// succeed.
bool no_descriptor(const ErrorCode& error);

/// The error, and what to do: for a line to the user.
std::string why_no_descriptor(const ErrorCode& error);

}  // namespace ddprun
