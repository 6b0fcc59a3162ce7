// Which nodes the job did without because they were not sound, and why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/membership_messages.hpp"

namespace ddprun::launcher {

/// `ddprun: node3 failed its check (--preflight): exited with code 1 (2 times)`, a line each but
/// for one that `next_line` repeats.
std::string unsound_text(const std::vector<proto::UnsoundNode>& unsound,
                         std::string_view next_line);

}  // namespace ddprun::launcher
