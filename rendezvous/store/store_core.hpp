// The store itself: keys, counters, queues and the waits for them. Pure: no sockets, clock or
// threads; requests in, replies out. What each request means is in `docs/protocol.md`.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "proto/c10d.hpp"
#include "rendezvous/store/reply_buffer.hpp"

namespace ddprun::rdzv {

/// Names a connection, from 0 and dense: the caller uses a number again only after `disconnect`.
using ConnectionId = std::uint32_t;

class StoreCore {
 public:
  /// One client alone may fill this part of the bytes that all may fill.
  static constexpr std::uint64_t kShare = 2;

  explicit StoreCore(std::uint64_t waited_keys_max = proto::c10d::Limits{}.list_elements_max,
                     std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max())
      : waited_keys_max_(waited_keys_max), bytes_max_(bytes_max) {}
  StoreCore(const StoreCore&) = delete;
  StoreCore& operator=(const StoreCore&) = delete;
  ~StoreCore();

  /// Applies one request of `connection`. Appends its reply, if any, to `reply`. Then `released`
  /// names the connections that get one kStopWaiting byte each, in this order; the requester can be
  /// among them (its byte comes behind `reply`). A refusal means: nothing was changed, close the
  /// connection. `released` is emptied first.
  proto::c10d::Refusal apply(ConnectionId connection, const proto::c10d::Request& request,
                             ReplyBuffer& reply, std::vector<ConnectionId>& released);

  /// Forgets the connection's waits. Its keys stay.
  void disconnect(ConnectionId connection);

  /// Keys with a value, as GETNUMKEYS counts them.
  [[nodiscard]] std::uint64_t key_count() const { return key_count_; }
  /// Waits that are open, of all connections.
  [[nodiscard]] std::uint64_t wait_count() const { return wait_count_; }
  /// Memory of all that is kept, about.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Names that the core holds memory for: with a value, a queue or a waiter.
  [[nodiscard]] std::uint64_t name_count() const { return names_.size(); }

 private:
  struct Wait;
  struct Name;

  /// One name that one wait still needs; a link in that name's list, oldest first. Unlinks itself
  /// when destroyed.
  struct Interest : boost::intrusive::list_base_hook<
                        boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Wait* wait = nullptr;
    Name* name = nullptr;
  };
  using Interests = boost::intrusive::list<Interest, boost::intrusive::constant_time_size<false>>;

  /// Memory of the names of one client, which may have left.
  using Account = std::shared_ptr<std::uint64_t>;

  /// All that goes by one name: value and queue are independent of each other.
  struct Name {
    explicit Name(std::string_view its_key) : key(its_key) {}

    const std::string key;
    SharedValue value;
    std::unique_ptr<std::deque<SharedValue>> queue;  ///< absent when empty
    Interests waiters;
    std::uint64_t bytes = 0;  ///< memory of all of this but the waiters, about
    Account account;          ///< of the client that made it or set it last; null: not counted

    [[nodiscard]] bool present() const { return value != nullptr || queue != nullptr; }
  };

  struct KeyHash : std::hash<std::string_view> {
    using is_avalanching = void;
  };
  /// By Name::key. A Name stays where it is until it is erased.
  using Names = boost::unordered_flat_map<std::string_view, std::unique_ptr<Name>, KeyHash>;

  /// One open WAIT or BARRIER, owned by its connection.
  struct Wait {
    ConnectionId connection = 0;
    std::uint64_t missing = 0;
    std::size_t index = 0;  ///< in Connection::waits
    std::vector<Interest> interests;
  };
  struct Connection {
    std::vector<std::unique_ptr<Wait>> waits;
    std::uint64_t waited_keys = 0;
    Account account;  ///< null: it has no names
  };
  proto::c10d::Refusal carry_out(ConnectionId connection, const proto::c10d::Request& request,
                                 ReplyBuffer& reply, std::vector<ConnectionId>& released);
  void count(Name& name, std::uint64_t more, std::uint64_t less = 0);
  void take_over(Name& name);
  [[nodiscard]] std::uint64_t growth_by(const proto::c10d::Request& request) const;
  [[nodiscard]] proto::c10d::Refusal refuse_growth(ConnectionId connection,
                                                   const proto::c10d::Request& request) const;
  [[nodiscard]] Name* find(std::string_view key) const;
  Name& find_or_add(std::string_view key);
  void drop_if_unused(Name& name);

  void store(Name& name, std::string_view bytes);
  bool add(Name& name, std::int64_t delta, std::int64_t& sum);
  void set(std::string_view key, std::string_view value, std::vector<ConnectionId>& released);
  void compare_set(const proto::c10d::Request& request, ReplyBuffer& reply,
                   std::vector<ConnectionId>& released);
  void append(const proto::c10d::Request& request, std::vector<ConnectionId>& released);
  void get(std::string_view key, ReplyBuffer& reply);
  [[nodiscard]] bool all_present(const proto::c10d::List& keys) const;
  void list_keys(ReplyBuffer& reply) const;
  void queue_push(const proto::c10d::Request& request, std::vector<ConnectionId>& released);
  void queue_pop(std::string_view key, ReplyBuffer& reply);
  bool erase(std::string_view key);

  proto::c10d::Refusal wait(ConnectionId connection, const proto::c10d::List& keys,
                            ReplyBuffer& reply);
  proto::c10d::Refusal barrier(ConnectionId connection, const proto::c10d::Request& request,
                               ReplyBuffer& reply, std::vector<ConnectionId>& released);
  [[nodiscard]] proto::c10d::Refusal refuse_wait(ConnectionId connection, std::uint64_t keys);
  void open_wait(ConnectionId connection, std::span<Name* const> missing);
  void close_wait(Wait& wait);
  void release_all(Name& name, std::vector<ConnectionId>& released);
  void release_first(Name& name, std::vector<ConnectionId>& released);
  bool arrived(Name& name, std::vector<ConnectionId>& released);
  void cancel_waits(ConnectionId connection);
  Connection& state(ConnectionId connection);

  const std::uint64_t waited_keys_max_;
  const std::uint64_t bytes_max_;
  ConnectionId requester_ = 0;
  Names names_;
  std::uint64_t bytes_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint64_t wait_count_ = 0;
  std::vector<Connection> connections_;
  std::vector<Name*> missing_;  ///< of the WAIT at hand; a member so that its memory is used again
};

}  // namespace ddprun::rdzv
