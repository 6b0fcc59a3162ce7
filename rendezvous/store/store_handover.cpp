#include "rendezvous/store/store_handover.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/socket.hpp"

namespace ddprun::rdzv {
namespace {

/// Its other end has sent all that it will ever send, and all of that would be nothing.
bool has_left(const UniqueFd& connection) {
  char first = 0;
  const ssize_t count = recv(connection.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && !would_block(errno));
}

}  // namespace

StoreHandover::StoreHandover(Settings settings) : settings_(std::move(settings)) {}

StoreHandover::~StoreHandover() {
  while (!parked_.empty()) reset_oldest();
}

void StoreHandover::offer(UniqueFd connection) {
  {
    const std::lock_guard lock(mutex_);
    // Under the lock, so that no store is used any more once `close` has returned.
    if (store_ != nullptr) return store_->adopt(std::move(connection));
    const Clock::time_point now = Clock::now();
    reset_expired(now);
    if (parked_.size() >= settings_.parked_max) reset_oldest();
    parked_.push_back({std::move(connection), now + settings_.parked_for});
    if (std::exchange(wanted_, true)) return;
  }
  if (settings_.on_first_client) settings_.on_first_client();
}

void StoreHandover::open(StoreServer& store) {
  const std::lock_guard lock(mutex_);
  reset_expired(Clock::now());
  store_ = &store;
  for (Parked& parked : parked_) {
    if (!has_left(parked.connection)) store.adopt(std::move(parked.connection));
  }
  parked_.clear();
}

void StoreHandover::close() {
  const std::lock_guard lock(mutex_);
  store_ = nullptr;
  wanted_ = false;
}

std::size_t StoreHandover::parked() const {
  const std::lock_guard lock(mutex_);
  return parked_.size();
}

void StoreHandover::reset_oldest() {
  reset_on_close(parked_.front().connection.get());
  parked_.pop_front();
}

void StoreHandover::reset_expired(Clock::time_point now) {
  while (!parked_.empty() && parked_.front().until <= now) reset_oldest();
}

}  // namespace ddprun::rdzv
