#include "agent/control/own_secret.hpp"

#include <utility>

#include <spdlog/spdlog.h>

namespace ddprun::agent {

boost::system::result<OwnSecret, std::string> own_secret(const RendezvousSettings& settings) {
  if (!settings.makes_secret) return OwnSecret{settings.secret, ""};
  auto made = proto::new_shown_secret(*settings.credentials);
  if (made) return OwnSecret{std::move(made->secret), std::move(made->credential)};
  if (settings.needs_proof)
    return {boost::system::in_place_error, "--rdzv-auth=munge: " + made.error().reason};
  spdlog::info("nodes do not prove their user to the rendezvous: {}", made.error().reason);
  return OwnSecret{};
}

}  // namespace ddprun::agent
