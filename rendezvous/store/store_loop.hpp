// The epoll loop of a store: accepts, reads, hands requests to the core, sends replies. One thread
// runs it; nothing in it waits for a client. Why it is not Asio:
// `docs/decisions/0003-store-on-raw-epoll.md`.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "base/result.hpp"
#include "base/socket.hpp"
#include "base/unique_handle.hpp"
#include "proto/c10d.hpp"
#include "rendezvous/store/peer_users.hpp"
#include "rendezvous/store/reply_buffer.hpp"
#include "rendezvous/store/request_stream.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/store_counters.hpp"
#include "rendezvous/store/store_settings.hpp"
#include "rendezvous/store/warning_limiter.hpp"

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
  void stop();
  /// From any thread: serves a connected socket as if it had been accepted here. Over the limit of
  /// clients it is closed.
  void adopt(UniqueFd connection);
  /// From any thread.
  [[nodiscard]] StoreCounters counters() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// Kinds of warnings: the reasons to refuse a client, and this one behind them.
  static constexpr std::size_t kAcceptWarning = proto::c10d::Refusal::kReasons;
  static constexpr std::size_t kWarningKinds = kAcceptWarning + 1;

  /// What epoll reports of a client that is neither paused nor behind with reading. RDHUP, because
  /// an end behind bytes that were read is no edge of its own.
  static constexpr std::uint32_t kReadEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

  /// All that the loop holds for one client: no buffer, unless something is incomplete or unsent.
  /// What an ordinary request needs lies in the first cache line.
  struct alignas(64) Connection {
    ConnectionId id = 0;
    UniqueFd fd;                ///< none: the slot is free
    std::uint32_t watched = 0;  ///< the events that epoll reports
    bool paused = false;        ///< nothing is read or served until `backlog` has been sent
    bool newcomer = true;       ///< its first request was not whole yet
    bool checked = false;       ///< it is a store's client, and its user may use this store
    std::unique_ptr<ReplyBuffer> backlog;  ///< replies that the socket did not take
    RequestStream input;
    Clock::time_point handshake_deadline;
    boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>
        newcomers;
  };
  /// Those with a deadline for their first request, the earliest first.
  using Newcomers = boost::intrusive::list<
      Connection,
      boost::intrusive::member_hook<Connection, decltype(Connection::newcomers),
                                    &Connection::newcomers>,
      boost::intrusive::constant_time_size<false>>;
  enum class Accepting {
    on,
    no_descriptor,  ///< tried again every now and then, and whenever a client leaves
    full,           ///< until a client leaves
  };

  [[nodiscard]] int wait_limit_ms() const;
  void do_what_is_due();
  void expect_clients();
  void accept_clients();
  [[nodiscard]] bool is_full() const;
  void wake();
  void serve_adopted();
  void add_client(UniqueFd fd, Clock::time_point now);
  void pause_accepting(Accepting why, const char* reason);
  void resume_accepting();

  void handle(Connection& connection, std::uint32_t events);
  void read(Connection& connection, bool ended);
  void serve(Connection& connection, std::string_view bytes);
  void release(ConnectionId requester);
  [[nodiscard]] proto::c10d::Refusal refuse_incomplete(const Connection& connection) const;
  ReplyBuffer& replies(Connection& connection) {
    return connection.backlog ? *connection.backlog : replies_;
  }
  bool send_replies(Connection& connection);
  void send_backlog(Connection& connection);
  void watch(Connection& connection);
  bool is_control(Connection& connection, bool ended);
  bool may_use(Connection& connection);
  void greeted(Connection& connection);
  void close_late_newcomers(Clock::time_point now);
  void refuse(Connection& connection, const proto::c10d::Refusal& refusal);
  void warn(const std::string& line);
  void close(Connection& connection);
  UniqueFd let_go(Connection& connection);
  static std::uint32_t events_of(const Connection& connection);
  bool control(int operation, int fd, std::uint32_t events, void* data);

  StoreSettings settings_;
  UniqueFd listener_;
  UniqueFd epoll_;
  UniqueFd wake_;  ///< an eventfd: `stopping_` is set, or `adopted_` has new ones
  std::atomic<bool> stopping_{false};
  std::mutex adopted_mutex_;
  std::vector<UniqueFd> adopted_;  ///< guarded by the mutex: not yet the loop's
  Accepting accepting_ = Accepting::on;
  Clock::time_point accept_retry_;  ///< while `accepting_` is `no_descriptor`
  bool pause_said_ = false;         ///< no client has come in since
  std::optional<PeerUsers> peer_users_;
  bool users_unknown_said_ = false;

  StoreCore core_;
  /// By ConnectionId; a deque, so that references outlive an accept.
  std::deque<Connection> connections_;
  std::vector<ConnectionId> free_;  ///< slots to use again
  /// Slots closed in this batch of events, of which more may follow.
  std::vector<ConnectionId> closed_;
  std::unique_ptr<char[]> read_buffer_;  ///< shared by all connections
  ReplyBuffer replies_;                  ///< to the connection at hand, if it has no backlog
  std::vector<ConnectionId> released_;
  std::uint64_t kept_bytes_ = 0;  ///< of requests that are not whole, of all connections
  bool old_dialect_seen_ = false;
  WarningLimiter warnings_;
  Newcomers newcomers_;  ///< links between connections_, hence behind them

  std::atomic<std::uint64_t> clients_{0};
  std::atomic<std::uint64_t> open_clients_{0};
  std::atomic<std::uint64_t> refused_clients_{0};
  std::atomic<std::uint64_t> newer_clients_{0};
};

}  // namespace ddprun::rdzv
