#include "rendezvous/client/service_refusal.hpp"

#include <fmt/format.h>

#include "proto/error.hpp"

namespace ddprun::rdzv {

std::optional<proto::Refused> refusal_for(const AttemptEnd& end) {
  const auto& [error, why, by_credential, problem] = end;
  using Why = proto::Refused::Why;
  if (error == proto::Errc::secret_missing && !problem.reason.empty())
    return proto::Refused{
        Why::wrong_secret,
        fmt::format("it lets nodes of the same user join by MUNGE, but {}; or give all nodes a "
                    "secret (ddprun --make-secret)",
                    problem.reason)};
  if (error == proto::Errc::secret_missing)
    return proto::Refused{Why::wrong_secret,
                          "it asks for a secret, and there is none here; copy its secret file "
                          "(--rdzv-secret-file; ddprun --make-secret makes one)"};
  if (error == proto::Errc::proof_missing && by_credential)
    return proto::Refused{Why::wrong_secret,
                          "it proves nothing by MUNGE, and --rdzv-auth=munge asks for that; start "
                          "it with --rdzv-auth=munge, too"};
  if (error == proto::Errc::proof_missing)
    return proto::Refused{Why::wrong_secret,
                          "it has no secret, and this node joins only a rendezvous that has this "
                          "node's; give it this node's secret file"};
  if (error == proto::Errc::not_authentic)
    return proto::Refused{Why::wrong_secret,
                          "it has another secret than this node; all need the same file "
                          "(--rdzv-secret-file)"};
  if (error == proto::Errc::not_encrypted)
    return proto::Refused{Why::encryption,
                          "it does not encrypt its connections; start it with TLS, too "
                          "(--rdzv-tls; rdzvd: --tls), or leave out --rdzv-tls here"};
  if (error == proto::Errc::certificate_refused) return proto::Refused{Why::certificate, why};
  if (error == proto::Errc::version_mismatch)
    return proto::Refused{Why::broken,
                          "its ddprun has no protocol version in common with this one"};
  return std::nullopt;
}

bool may_pass(const AttemptEnd& end) {
  return end.error == proto::Errc::secret_missing && end.credential_problem.may_pass;
}

bool is_of_another_job(const proto::Refused& refused) {
  using Why = proto::Refused::Why;
  return refused.why == Why::other_job || refused.why == Why::wrong_secret ||
         refused.why == Why::encryption || refused.why == Why::certificate;
}

}  // namespace ddprun::rdzv
