// Which ends of an attempt to reach the rendezvous service are refusals.
#pragma once

#include <optional>

#include "base/result.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::rdzv {

/// What another attempt cannot mend: in words, as if the service had said it. None: it may.
std::optional<proto::Refused> refusal_for(const ErrorCode& error);

/// Whether a service may refuse so because it is another job's.
bool is_of_another_job(const proto::Refused& refused);

}  // namespace ddprun::rdzv
