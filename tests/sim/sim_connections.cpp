// The connections of agents to the service: what is on its way, and what arrives.
#include <utility>

#include "proto/session_messages.hpp"
#include "tests/sim/sim_channel.hpp"
#include "tests/sim/sim_service.hpp"

namespace ddprun::sim {

using rdzv::ConnectionId;

ConnectionId SimService::connect(SimLink& link) {
  const ConnectionId id = ++connections_;
  world_.after(link.draw_delay(), [this, id, &link] {
    if (link.is_cut(true) || link.is_cut(false)) return;  // the attempt runs into its time-out
    if (!core_) {
      link.connection_failed(id, true);
      return;
    }
    Wire& wire = wires_[id];
    wire.link = &link;
    wire.channel.emplace(channel_of(world_, proto::Side::service));
    send_output(id, wire);
    link.connected(id);
  });
  return id;
}

void SimService::send(ConnectionId id, std::string bytes) { push(id, true, {std::move(bytes)}); }

void SimService::end(ConnectionId id, bool cleanly) { push(id, true, {"", true, cleanly}); }

void SimService::close(ConnectionId id, Wire& wire) {
  wire.channel.reset();
  push(id, false, {"", true, false});
}

void SimService::send_output(ConnectionId id, Wire& wire) {
  if (wire.channel->output_bytes() > 0) push(id, false, {wire.channel->take_output()});
}

void SimService::push(ConnectionId id, bool up, Item item) {
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  Pipe& pipe = up ? found->second.up : found->second.down;
  pipe.items.push_back(std::move(item));
  if (std::exchange(pipe.moves, true)) return;
  world_.after(found->second.link->draw_delay(), [this, id, up] { move(id, up); });
}

void SimService::move(ConnectionId id, bool up) {
  Wire& wire = wires_.at(id);
  Pipe& pipe = up ? wire.up : wire.down;
  if (wire.link->is_cut(up)) {
    world_.after(kHealingNoticed, [this, id, up] { move(id, up); });
    return;
  }
  const Item item = std::move(pipe.items.front());
  pipe.items.pop_front();
  if (up) {
    arrived_up(id, wire, item);
  } else if (item.ends) {
    wire.link->connection_failed(id, false);
  } else {
    wire.link->arrived(id, item.bytes);
  }
  pipe.moves = !pipe.items.empty();
  if (pipe.moves) world_.after(world_.up_to(kDelayMost), [this, id, up] { move(id, up); });
}

void SimService::arrived_up(ConnectionId id, Wire& wire, const Item& item) {
  if (!wire.channel) return;
  if (item.ends) {
    wire.channel.reset();
    if (wire.told) on(rdzv::ConnectionEnded{id, item.cleanly});
    return;
  }
  wire.channel->append(item.bytes);
  while (wire.channel) {
    const auto body = wire.channel->next();
    if (!body) {
      close(id, wire);
      return;
    }
    if (wire.channel->is_open() && !std::exchange(wire.told, true))
      on(rdzv::ConnectionOpened{id, wire.channel->peer()->run_id, "10.0.0.1", std::to_string(id)});
    if (!*body) break;
    auto message = proto::decode_client_message(**body);
    if (message) on(rdzv::ClientSaid{id, std::move(*message)});
  }
}

}  // namespace ddprun::sim
