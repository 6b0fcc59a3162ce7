// The state of a rendezvous for people. Pure.
#pragma once

#include <string>

#include "proto/session_messages.hpp"

namespace ddprun::rdzv {

/// Lines, the last one with its end. `place`: where the rendezvous is.
std::string status_text(const proto::Status& status, const std::string& place);

}  // namespace ddprun::rdzv
