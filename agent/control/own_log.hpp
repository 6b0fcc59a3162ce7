// ddprun's own log takes the way of the workers' lines, so that it never lands in the middle of one
// and never blocks.
#pragma once

#include <spdlog/common.h>

#include <functional>
#include <string>

namespace ddprun::agent {

/// Makes spdlog's default logger give each line (without a newline) to `say`, which any thread may
/// call.
void log_through(std::function<void(const std::string& line)> say, spdlog::level::level_enum level);

}  // namespace ddprun::agent
