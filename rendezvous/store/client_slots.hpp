// What a store's loop holds for its clients: each has a slot, which is used again when it has left.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "base/unique_handle.hpp"
#include "rendezvous/store/reply_buffer.hpp"
#include "rendezvous/store/request_stream.hpp"
#include "rendezvous/store/store_core.hpp"

namespace ddprun::rdzv {

/// One client: no buffer, unless something is incomplete or unsent. What an ordinary request needs
/// lies in the first cache line.
struct alignas(64) ClientSlot {
  /// What epoll reports of a client that is neither paused nor behind with reading. RDHUP, because
  /// an end behind bytes that were read is no edge of its own.
  static constexpr std::uint32_t kReadEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

  ConnectionId id = 0;
  UniqueFd fd;                ///< none: the slot is free
  std::uint32_t watched = 0;  ///< the events that epoll reports
  bool paused = false;        ///< nothing is read or served until `backlog` has been sent
  bool newcomer = true;       ///< its first request was not whole yet
  bool checked = false;       ///< it is a store's client, and its user may use this store
  std::unique_ptr<ReplyBuffer> backlog;  ///< replies that the socket did not take
  RequestStream input;
  std::chrono::steady_clock::time_point handshake_deadline;
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>
      newcomers;

  /// Edge-triggered as long as a client is simply read: epoll then looks at its socket once for
  /// each request and not a second time to see that nothing is left.
  [[nodiscard]] std::uint32_t wanted_events() const {
    if (paused) return EPOLLOUT;
    if (backlog) return EPOLLIN | EPOLLOUT;
    return kReadEvents;
  }
};

class ClientSlots {
 public:
  /// An empty slot. References to others outlive this.
  ClientSlot& add() {
    if (free_.empty()) {
      const auto id = static_cast<ConnectionId>(slots_.size());
      slots_.emplace_back().id = id;
      return slots_.back();
    }
    ClientSlot& slot = slots_[free_.back()];
    slot.id = free_.back();
    free_.pop_back();
    return slot;
  }
  /// An empty slot that is not needed after all.
  void give_back(const ClientSlot& slot) { free_.push_back(slot.id); }
  /// Empties a slot. It is used again after `reuse_closed` only: more events of the same batch may
  /// follow for it.
  UniqueFd remove(ClientSlot& client) {
    client.newcomers.unlink();
    closed_.push_back(client.id);
    UniqueFd fd = std::move(client.fd);
    client = ClientSlot{};
    return fd;
  }
  /// Whether any slot becomes free.
  bool reuse_closed() {
    const bool any = !closed_.empty();
    free_.insert(free_.end(), closed_.begin(), closed_.end());
    closed_.clear();
    return any;
  }
  ClientSlot& operator[](ConnectionId id) { return slots_[id]; }
  [[nodiscard]] const std::deque<ClientSlot>& slots() const { return slots_; }

  /// Its first request is due by `handshake_deadline`, which is later than those of all others.
  void expect_request(ClientSlot& client) { newcomers_.push_back(client); }
  /// The one whose first request is due first. Null: none is waited for.
  ClientSlot* first_newcomer() { return newcomers_.empty() ? nullptr : &newcomers_.front(); }
  [[nodiscard]] const ClientSlot* first_newcomer() const {
    return newcomers_.empty() ? nullptr : &newcomers_.front();
  }

 private:
  using Newcomers = boost::intrusive::list<
      ClientSlot,
      boost::intrusive::member_hook<ClientSlot, decltype(ClientSlot::newcomers),
                                    &ClientSlot::newcomers>,
      boost::intrusive::constant_time_size<false>>;

  std::deque<ClientSlot> slots_;  // by ConnectionId
  std::vector<ConnectionId> free_;
  std::vector<ConnectionId> closed_;
  Newcomers newcomers_;  // links between slots_, hence behind them
};

}  // namespace ddprun::rdzv
