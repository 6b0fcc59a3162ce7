// Which ends of an attempt to reach the rendezvous service are refusals.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::rdzv {

/// What another attempt cannot mend: in words, as if the service had said it. None: it may.
/// `by_credential`: the secret would be that of the service's credential; `problem`: why this could
/// not be read, empty if it was not shown.
std::optional<proto::Refused> refusal_for(const ErrorCode& error, bool by_credential,
                                          const std::string& problem);

/// Whether a service may refuse so because it is another job's.
bool is_of_another_job(const proto::Refused& refused);

}  // namespace ddprun::rdzv
