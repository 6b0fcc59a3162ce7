// Which ends of an attempt to reach the rendezvous service are refusals.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "proto/credentials.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::rdzv {

/// How the channel of an attempt ended before it was open.
struct AttemptEnd {
  ErrorCode error;
  std::string why;             ///< the channel's words for it
  bool by_credential = false;  ///< the secret would be that of the service's credential
  /// Why this could not be read; without a reason: it was, or it was not shown.
  proto::CredentialFailure credential_problem;
};

/// What another attempt cannot mend: in words, as if the service had said it. None: it may.
std::optional<proto::Refused> refusal_for(const AttemptEnd& end);

/// Whether another attempt may mend it, though it is a refusal: MUNGE's daemon is being started.
bool may_pass(const AttemptEnd& end);

/// Whether a service may refuse so because it is another job's.
bool is_of_another_job(const proto::Refused& refused);

}  // namespace ddprun::rdzv
