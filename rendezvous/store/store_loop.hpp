// The epoll loop of a store: accepts, reads, hands requests to the core, sends replies. One thread
// runs it; nothing in it waits for a client. Why it is not Asio:
// `docs/decisions/0003-store-on-raw-epoll.md`.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/c10d.hpp"
#include "rendezvous/store/client_slots.hpp"
#include "rendezvous/store/peer_users.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/store_counters.hpp"
#include "rendezvous/store/store_inbox.hpp"
#include "rendezvous/store/store_settings.hpp"
#include "rendezvous/store/store_warnings.hpp"

namespace ddprun::rdzv {

class StoreLoop {
 public:
  /// Takes a listening socket, or none: then all clients are adopted.
  StoreLoop(UniqueFd listener, StoreSettings settings);
  StoreLoop(const StoreLoop&) = delete;
  StoreLoop& operator=(const StoreLoop&) = delete;
  /// Closes the listener, and closes or resets every connection.
  ~StoreLoop();

  /// Once, before all below. Errors: the system's, where there is no descriptor left.
  [[nodiscard]] ErrorCode open();
  /// Serves until `stop`.
  void run();
  /// From any thread: makes `run` return soon.
  void stop() { inbox_.stop(); }
  /// From any thread: serves a connected socket as if it had been accepted here. Over the limit of
  /// clients it is closed.
  void adopt(UniqueFd connection);
  /// From any thread.
  [[nodiscard]] StoreCounters counters() const { return counters_.now(); }

 private:
  using Clock = std::chrono::steady_clock;

  // Whether clients of its own port are accepted
  struct Accepting {};
  struct NoDescriptor {
    Clock::time_point retry_at;  ///< or whenever a client leaves
  };
  struct Full {};  ///< until a client leaves
  using Gate = std::variant<Accepting, NoDescriptor, Full>;

  [[nodiscard]] int wait_limit_ms() const;
  void do_what_is_due();
  void accept_clients();
  [[nodiscard]] bool is_full() const;
  void serve_adopted();
  void add_client(UniqueFd fd, Clock::time_point now);
  void pause_accepting(Gate why, const char* reason);
  void resume_accepting();

  void handle(ClientSlot& client, std::uint32_t events);
  void read(ClientSlot& client, bool ended);
  void serve(ClientSlot& client, std::string_view bytes);
  void release(ConnectionId requester);
  [[nodiscard]] proto::c10d::Refusal refuse_incomplete(const ClientSlot& client) const;
  ReplyBuffer& replies(ClientSlot& client) { return client.backlog ? *client.backlog : replies_; }
  bool send_replies(ClientSlot& client);
  void send_backlog(ClientSlot& client);
  void watch(ClientSlot& client);
  bool is_control(ClientSlot& client, bool ended);
  bool may_use(ClientSlot& client);
  void close_late_newcomers(Clock::time_point now);
  void refuse(ClientSlot& client, const proto::c10d::Refusal& refusal);
  void close(ClientSlot& client);
  UniqueFd let_go(ClientSlot& client);
  bool control(int operation, int fd, std::uint32_t events, void* data);

  StoreSettings settings_;
  UniqueFd listener_;
  UniqueFd epoll_;
  StoreInbox inbox_;
  Gate gate_;
  bool pause_said_ = false;  ///< no client has come in since
  std::optional<PeerUsers> peer_users_;
  bool users_unknown_said_ = false;

  StoreCore core_;
  ClientSlots clients_;
  std::unique_ptr<char[]> read_buffer_;  ///< shared by all connections
  ReplyBuffer replies_;                  ///< to the client at hand, if it has no backlog
  std::vector<ConnectionId> released_;
  std::uint64_t kept_bytes_ = 0;  ///< of requests that are not whole, of all clients
  bool old_dialect_seen_ = false;
  StoreWarnings warnings_;
  LiveStoreCounters counters_;
};

}  // namespace ddprun::rdzv
