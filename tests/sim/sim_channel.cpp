#include "tests/sim/sim_channel.hpp"

#include <utility>

namespace ddprun::sim {

proto::ControlChannel channel_of(World& world, proto::Side side, const std::string& secret) {
  proto::ControlChannel::Settings settings;
  settings.side = side;
  settings.hello.kind = "rendezvous";
  settings.hello.version_min = settings.hello.version_max = 1;
  if (side == proto::Side::client) settings.hello.run_id = kRunId;
  settings.hello.nonce.emplace();
  for (std::uint8_t& byte : *settings.hello.nonce)
    byte = static_cast<std::uint8_t>(world.below(256));
  settings.secret = secret;
  return proto::ControlChannel(std::move(settings));
}

}  // namespace ddprun::sim
