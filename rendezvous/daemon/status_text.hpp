// The state of a rendezvous for people. Pure.
#pragma once

#include <string>

#include "proto/session_messages.hpp"

namespace ddprun::rdzv {

/// Adds the next page of a status. A job of which the last page had the first nodes gets the
/// others.
void append_page(proto::Status& status, proto::Status page);

/// Lines, the last one with its end. `place`: where the rendezvous is.
std::string status_text(const proto::Status& status, const std::string& place);

}  // namespace ddprun::rdzv
