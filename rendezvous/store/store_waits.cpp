// The waiting half of StoreCore: WAIT, BARRIER, CANCEL_WAIT, and which clients a request releases.
#include "rendezvous/store/store_core.hpp"

namespace ddprun::rdzv {

using proto::c10d::Refusal;

namespace {

constexpr std::uint64_t kWaitBytes = 128;      // of one wait, beside the keys
constexpr std::uint64_t kWaitedKeyBytes = 48;  // of each of its keys

std::uint64_t bytes_of_wait(std::size_t keys) { return kWaitBytes + keys * kWaitedKeyBytes; }

}  // namespace

StoreCore::Connection& StoreCore::state(ConnectionId connection) {
  if (connection >= connections_.size()) connections_.resize(connection + 1);
  return connections_[connection];
}

Refusal StoreCore::refuse_wait(ConnectionId connection, std::uint64_t keys) {
  const std::uint64_t waited_keys = state(connection).waited_keys + keys;
  if (waited_keys <= waited_keys_max_) return {};
  return {Refusal::Why::too_many_waits, waited_keys, waited_keys_max_};
}

Refusal StoreCore::wait(ConnectionId connection, const proto::c10d::List& keys,
                        ReplyBuffer& reply) {
  if (all_present(keys)) {
    reply.append_u8(proto::c10d::kStopWaiting);
    return {};
  }
  if (const Refusal refusal = refuse_wait(connection, keys.size())) return refusal;
  missing_.clear();
  for (const std::string_view key : keys) {
    Name& name = find_or_add(key);
    if (!name.present()) missing_.push_back(&name);
  }
  open_wait(connection, missing_);
  return {};
}

Refusal StoreCore::barrier(ConnectionId connection, const proto::c10d::Request& request,
                           ReplyBuffer& reply, std::vector<ConnectionId>& released) {
  if (const Refusal refusal = refuse_wait(connection, 1)) return refusal;
  Name& name = find_or_add(request.key);
  std::int64_t arrivals = 0;
  if (!add(name, 1, arrivals)) return {Refusal::Why::not_a_number, 0, 0};
  if (arrivals >= request.number) {
    reply.append_u8(proto::c10d::kStopWaiting);
    release_all(name, released);
  } else {
    Name* const waited = &name;
    open_wait(connection, {&waited, 1});
  }
  return {};
}

void StoreCore::open_wait(ConnectionId connection, std::span<Name* const> missing) {
  Connection& owner = state(connection);
  auto wait = std::make_unique<Wait>();
  wait->connection = connection;
  wait->index = owner.waits.size();
  wait->interests = std::vector<Interest>(missing.size());
  for (Name* name : missing) {
    Interests& waiters = name->waiters;
    if (!waiters.empty() && waiters.back().wait == wait.get())
      continue;  // the key is twice in the list
    Interest& interest = wait->interests[wait->missing++];
    interest.wait = wait.get();
    interest.name = name;
    waiters.push_back(interest);
  }
  owner.waited_keys += wait->interests.size();
  bytes_ += bytes_of_wait(wait->interests.size());
  owner.waits.push_back(std::move(wait));
  ++wait_count_;
}

/// Destroys `wait`, and with it its links in the lists of names.
void StoreCore::close_wait(Wait& wait) {
  Connection& owner = connections_[wait.connection];
  owner.waited_keys -= wait.interests.size();
  bytes_ -= bytes_of_wait(wait.interests.size());
  --wait_count_;
  const std::size_t index = wait.index;
  owner.waits.back()->index = index;
  std::swap(owner.waits[index], owner.waits.back());
  owner.waits.pop_back();
}

/// The name of the first waiter is there for it. True if that was all it waited for.
bool StoreCore::arrived(Name& name, std::vector<ConnectionId>& released) {
  Wait& wait = *name.waiters.front().wait;
  name.waiters.pop_front();
  if (--wait.missing > 0) return false;
  released.push_back(wait.connection);
  close_wait(wait);
  return true;
}

void StoreCore::release_all(Name& name, std::vector<ConnectionId>& released) {
  while (!name.waiters.empty()) arrived(name, released);
}

/// One value in a queue is for one waiter. Those that still wait for other names cannot take it, so
/// the next is tried.
void StoreCore::release_first(Name& name, std::vector<ConnectionId>& released) {
  while (!name.waiters.empty() && !arrived(name, released)) {
  }
}

void StoreCore::cancel_waits(ConnectionId connection) {
  Connection& owner = state(connection);
  while (!owner.waits.empty()) {
    Wait& wait = *owner.waits.back();
    for (Interest& interest : wait.interests) {
      if (!interest.is_linked()) continue;
      Name& name = *interest.name;
      interest.unlink();
      drop_if_unused(name);
    }
    close_wait(wait);
  }
}

}  // namespace ddprun::rdzv
