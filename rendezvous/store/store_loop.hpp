// The epoll loop of a store: accepts, reads, hands requests to the core, sends replies. One thread
// runs it; nothing in it waits for a client. Why it is not Asio:
// `docs/decisions/0003-store-on-raw-epoll.md`.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d.hpp"
#include "proto/unique_handle.hpp"
#include "rendezvous/store/reply_buffer.hpp"
#include "rendezvous/store/request_stream.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/store_settings.hpp"

namespace ddprun::rdzv {

class StoreLoop {
 public:
  /// Takes a listening socket. Throws boost::system::system_error where the process has no
  /// descriptors left.
  StoreLoop(UniqueFd listener, StoreSettings settings);
  StoreLoop(const StoreLoop&) = delete;
  StoreLoop& operator=(const StoreLoop&) = delete;
  /// Closes the listener and every connection.
  ~StoreLoop();

  /// Serves until `stop`.
  void run();
  /// From any thread: makes `run` return soon.
  void stop();
  /// From any thread.
  [[nodiscard]] std::uint64_t refused_clients() const {
    return refused_clients_.load(std::memory_order_relaxed);
  }

 private:
  /// All that the loop holds for one client: no buffer, unless something is incomplete or unsent.
  struct Connection {
    UniqueFd fd;                ///< none: the slot is free
    bool paused = false;        ///< nothing is read or served until `backlog` has been sent
    std::uint32_t watched = 0;  ///< the events that epoll reports
    RequestStream input;
    std::unique_ptr<ReplyBuffer> backlog;  ///< replies that the socket did not take
  };

  void accept_clients();
  void add_client(UniqueFd fd);
  void pause_accepting(int error);
  void resume_accepting();

  void handle(ConnectionId id, std::uint32_t events);
  void read(ConnectionId id);
  void serve(ConnectionId id, std::string_view bytes);
  void release(ConnectionId requester);
  ReplyBuffer& replies(Connection& connection) {
    return connection.backlog ? *connection.backlog : replies_;
  }
  bool send_replies(Connection& connection);
  void send_backlog(ConnectionId id);
  void watch(ConnectionId id);
  void refuse(ConnectionId id, const proto::c10d::Refusal& refusal);
  void warn(const std::string& line);
  void close(ConnectionId id);
  bool control(int operation, int fd, std::uint32_t events, std::uint64_t data);

  StoreSettings settings_;
  UniqueFd listener_;
  UniqueFd epoll_;
  UniqueFd stop_;
  bool accepting_ = true;

  StoreCore core_;
  std::deque<Connection>
      connections_;  ///< by ConnectionId; a deque, so that references outlive an accept
  std::vector<ConnectionId> free_;  ///< slots to use again
  std::vector<ConnectionId>
      closed_;  ///< slots closed in this batch of events, of which more may follow
  std::unique_ptr<char[]> read_buffer_;  ///< shared by all connections
  ReplyBuffer replies_;                  ///< to the connection at hand, if it has no backlog
  std::vector<ConnectionId> released_;
  std::atomic<std::uint64_t> refused_clients_{0};
};

}  // namespace ddprun::rdzv
