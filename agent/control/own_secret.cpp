#include "agent/control/own_secret.hpp"

#include <utility>

#include <spdlog/spdlog.h>

namespace ddprun::agent {

boost::system::result<OwnSecret, std::string> own_secret(const RendezvousSettings& settings) {
  if (!settings.makes_secret) return OwnSecret{settings.secret, ""};
  OwnSecret made{proto::new_secret(), ""};
  auto credential = settings.credentials->encode(proto::credential_payload(made.secret));
  if (credential) {
    made.credential = std::move(*credential);
    return made;
  }
  if (settings.needs_proof)
    return {boost::system::in_place_error, "--rdzv-auth=munge: " + credential.error()};
  spdlog::info("nodes do not prove their user to the rendezvous: {}", credential.error());
  return OwnSecret{};
}

}  // namespace ddprun::agent
