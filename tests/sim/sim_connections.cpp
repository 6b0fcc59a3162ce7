// The connections of agents to the service: what is on its way, what arrives, and what is lost.
#include <utility>

#include "proto/session_messages.hpp"
#include "tests/sim/sim_channel.hpp"
#include "tests/sim/sim_process.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;
using rdzv::ConnectionId;

// ---- their beginning ----

ConnectionId SimProcess::connect(SimLink& link) {
  const ConnectionId id = ++connections_;
  world_.after(link.draw_delay(), [this, id, &link] { try_to_connect(id, link, 0); });
  return id;
}

void SimProcess::try_to_connect(ConnectionId id, SimLink& link, int attempt) {
  if (link.connection() != id) return;
  if (link.is_cut(true) || link.is_cut(false)) {
    // The kernel sends again; otherwise the attempt runs into its time-out.
    if (attempt == 2) return;
    world_.after(attempt == 0 ? 1s : 2s,
                 [this, id, &link, attempt] { try_to_connect(id, link, attempt + 1); });
    return;
  }
  if (link.way() == Way::rejected) return link.connection_failed(id, false);
  if (!is_up() || link.way() == Way::refused) return link.connection_failed(id, true);
  Wire& wire = wires_[id];
  wire.link = &link;
  wire.channel.emplace(channel_of(world_, proto::Side::service, plan_.secret));
  greet(id);
  link.connected(id);
}

/// The kernel has taken the connection; the process says its hello once it looks for it.
void SimProcess::greet(ConnectionId id) {
  Wire& wire = wires_.at(id);
  if (!wire.channel) return;
  if (const auto busy = busy_for()) return world_.after(*busy, [this, id] { greet(id); });
  send_output(id, wire);
}

// ---- their end ----

void SimProcess::send(ConnectionId id, std::string bytes) { push(id, true, {std::move(bytes)}); }

void SimProcess::end(ConnectionId id, bool cleanly) { push(id, true, {"", true, cleanly}); }

void SimProcess::close(ConnectionId id, Wire& wire) {
  wire.channel.reset();
  push(id, false, {"", true, false});
}

void SimProcess::lose_connection(ConnectionId id, bool cleanly) {
  Wire& wire = wires_.at(id);
  if (!wire.channel) return;
  wire.channel.reset();
  if (wire.told) on(rdzv::ConnectionEnded{id, cleanly});
}

void SimProcess::reset(ConnectionId id) {
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  for (Pipe* pipe : {&found->second.up, &found->second.down}) {
    if (pipe->items.empty()) continue;
    pipe->items.resize(1 + world_.below(pipe->items.size()));
    std::string& last = pipe->items.back().bytes;
    last.resize(world_.below(last.size() + 1));
    pipe->bytes = 0;
    for (const Item& item : pipe->items) pipe->bytes += item.bytes.size();
  }
  push(id, true, {"", true, false});
  push(id, false, {"", true, false});
}

void SimProcess::sever(ConnectionId id, bool answers) {
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  found->second.middle = answers ? Middle::answers : Middle::silent;
}

void SimProcess::end_forwarded(ConnectionId id) {
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  push(id, true, {"", true, true});
  push(id, false, {"", true, false});
}

// ---- what is on its way ----

void SimProcess::send_output(ConnectionId id, Wire& wire) {
  if (wire.channel->output_bytes() > 0) push(id, false, {wire.channel->take_output()});
}

void SimProcess::push(ConnectionId id, bool up, Item item) {
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  Wire& wire = found->second;
  Pipe& pipe = up ? wire.up : wire.down;
  pipe.bytes += item.bytes.size();
  pipe.items.push_back(std::move(item));
  if (!up && pipe.bytes > plan_.unread_max && wire.channel) {
    // In the next turn: the core may be in the middle of an event.
    ++ended_for_unread_;
    world_.after(0ns, [this, id] {
      if (!wires_.at(id).channel) return;
      lose_connection(id, false);
      push(id, false, {"", true, false});
    });
  }
  if (std::exchange(pipe.moves, true)) return;
  world_.after(wire.link->draw_delay(), [this, id, up] { move(id, up); });
}

void SimProcess::move(ConnectionId id, bool up) {
  Wire& wire = wires_.at(id);
  Pipe& pipe = up ? wire.up : wire.down;
  if (wire.link->is_cut(up)) {
    world_.after(kHealingNoticed, [this, id, up] { move(id, up); });
    return;
  }
  if (const auto busy = up ? busy_for() : std::nullopt) {
    world_.after(*busy, [this, id, up] { move(id, up); });
    return;
  }
  if (!up && !wire.link->reads()) {
    world_.after(world_.up_to(kHealingNoticed), [this, id, up] { move(id, up); });
    return;
  }
  Item item = std::move(pipe.items.front());
  pipe.items.pop_front();
  constexpr std::size_t kLeast = 2;
  if (item.bytes.size() >= kLeast && world_.one_in(16)) {
    const std::size_t part = 1 + world_.below(item.bytes.size() - 1);
    pipe.items.push_front({item.bytes.substr(part)});
    item.bytes.resize(part);
  }
  pipe.bytes -= item.bytes.size();
  if (wire.middle != Middle::passes) {
    if (wire.middle == Middle::answers && up) wire.link->connection_failed(id, false);
    if (wire.middle == Middle::answers && !up) lose_connection(id, false);
  } else if (up) {
    arrived_up(id, wire, item);
  } else if (item.ends) {
    wire.link->connection_failed(id, false);
  } else {
    wire.link->arrived(id, item.bytes);
  }
  pipe.moves = !pipe.items.empty();
  if (!pipe.moves) return;
  const Duration pause = up ? Duration(0) : wire.link->reading_pause();
  world_.after(pause + world_.up_to(wire.link->plan().delay_most),
               [this, id, up] { move(id, up); });
}

void SimProcess::arrived_up(ConnectionId id, Wire& wire, const Item& item) {
  if (!wire.channel) return;
  if (item.ends) return lose_connection(id, item.cleanly);
  wire.channel->append(item.bytes);
  while (wire.channel) {
    const bool was_open = wire.channel->is_open();
    const auto body = wire.channel->next();
    if (!body && !was_open) return refuse_proof(id, wire);
    if (!body) {
      push(id, false, {"", true, false});
      return lose_connection(id, false);
    }
    std::optional<proto::ClientMessage> message;
    if (*body) {
      if (auto decoded = proto::decode_client_message(**body)) message = std::move(*decoded);
    }
    if (wire.channel->is_open() && !std::exchange(wire.told, true)) {
      send_output(id, wire);
      on(rdzv::ConnectionOpened{id, wire.channel->peer()->run_id, wire.link->plan().addr,
                                std::to_string(id)});
    }
    if (message) {
      if (const auto* resume = std::get_if<proto::Resume>(&*message)) wire.session = resume->agent;
      on(rdzv::ClientSaid{id, std::move(*message)});
    } else if (!*body) {
      return;
    }
  }
}

/// It has another secret than the service, or none.
void SimProcess::refuse_proof(ConnectionId id, Wire& wire) {
  static_cast<void>(wire.channel->send(proto::encode(proto::ServiceMessage(
      proto::Refused{proto::Refused::Why::wrong_secret, "it has another secret"}))));
  send_output(id, wire);
  const std::string run_id = wire.channel->peer() ? wire.channel->peer()->run_id : std::string();
  close(id, wire);
  on(rdzv::ConnectionRefused{run_id, wire.link->plan().addr, rdzv::Lack::proof});
}

}  // namespace ddprun::sim
