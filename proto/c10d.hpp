// The c10d TCPStore wire protocol, both dialects: names, limits and the request parser. Pure: bytes
// in, requests out. `docs/protocol.md` has the grammar; `proto/c10d_write.hpp` has the other
// direction.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ddprun::proto::c10d {

static_assert(std::endian::native == std::endian::little,
              "numbers travel in host order, little-endian in practice");

/// Second field of VALIDATE.
inline constexpr std::uint32_t kMagic = 0x3C85F7CE;

/// The port that PyTorch uses where none is given.

/// What a client may ask. The values are today's codes on the wire.
enum class Code : std::uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  key_count = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_length = 16,
  list_keys = 17,
  barrier = 18,
};
inline constexpr std::uint8_t kLastCode = 18;

/// Replies to CHECK.
inline constexpr std::uint8_t kReady = 0;
inline constexpr std::uint8_t kNotReady = 1;
/// Replies to WAIT, BARRIER and CANCEL_WAIT.
inline constexpr std::uint8_t kStopWaiting = 0;
inline constexpr std::uint8_t kWaitCanceled = 1;

/// What one request may hold. The first three are PyTorch's own numbers (libuv backend); the last
/// is ours.
struct Limits {
  std::uint64_t key_bytes_max = 8 * 1024;
  std::uint64_t value_bytes_max = 8 * 1024 * 1024;
  /// Keys in CHECK, WAIT, MULTI_GET; pairs in MULTI_SET.
  std::uint64_t list_elements_max = 128 * 1024;
  /// A whole request, which is kept until it is complete.
  std::uint64_t request_bytes_max = 256ULL * 1024 * 1024;
};
static_assert(Limits{}.request_bytes_max >
                  Limits{}.key_bytes_max + 2 * Limits{}.value_bytes_max + 25,
              "the largest COMPARE_SET fits into a request");

/// The elements of a list that the parser has checked, decoded while iterating. Views into the
/// input.
class List {
 public:
  List() = default;
  List(std::string_view bytes, std::uint64_t count) : bytes_(bytes), count_(count) {}

  [[nodiscard]] std::uint64_t size() const { return count_; }

  class Iterator {
   public:
    explicit Iterator(std::string_view rest) : rest_(rest) {}
    std::string_view operator*() const { return rest_.substr(8, length()); }
    Iterator& operator++() {
      rest_.remove_prefix(8 + length());
      return *this;
    }
    friend bool operator==(const Iterator& left, const Iterator& right) {
      return left.rest_.size() == right.rest_.size();
    }

   private:
    [[nodiscard]] std::uint64_t length() const {
      std::uint64_t value = 0;
      std::memcpy(&value, rest_.data(), sizeof value);
      return value;
    }
    std::string_view rest_;
  };
  [[nodiscard]] Iterator begin() const { return Iterator(bytes_); }
  [[nodiscard]] Iterator end() const { return Iterator(bytes_.substr(bytes_.size())); }

 private:
  std::string_view bytes_;
  std::uint64_t count_ = 0;
};

/// One whole request. Its views point into the bytes that were parsed and live as long as those.
struct Request {
  Code code = Code::validate;
  bool old_dialect = false;  ///< came in the dialect of PyTorch 1.13 and 2.0
  std::string_view key;      ///< all with one key
  std::string_view value;    ///< SET, APPEND, QUEUE_PUSH; COMPARE_SET: what is expected
  std::string_view desired;  ///< COMPARE_SET
  std::int64_t number = 0;   ///< ADD: delta; BARRIER: world size; PING: nonce
  List list;             ///< CHECK, WAIT, MULTI_GET: keys; MULTI_SET: key, value, key, value, ...
  std::size_t size = 0;  ///< bytes of the request, code included
};

/// Why a connection must be closed.
struct Refusal {
  enum class Why {
    none,
    not_validated,  ///< the first bytes are not VALIDATE: a port scanner, a browser, an old PyTorch
    wrong_magic,
    validated_twice,
    unknown_code,  ///< `found` is the code
    key_too_long,  ///< `found` over `limit`, as for the next three
    value_too_long,
    list_too_long,
    request_too_long,
    not_a_number,           ///< ADD or BARRIER on a value that is not decimal text
    too_many_waits,         ///< `found` keys waited for, over `limit`
    request_while_waiting,  ///< old dialect: its client never does that unless its wait timed out
    watch_key,              ///< old dialect: a request that no Python program can send
    handshake_too_late,     ///< no whole request within `limit` milliseconds
    other_user,             ///< belongs to the uid `found`; the store is the uid `limit`'s
    left_unchecked,         ///< closed its end before its user could be seen
    store_full,             ///< with it all clients would fill `found` bytes, over `limit`
    share_full,             ///< with it this client would fill `found` bytes, over `limit`
    no_store,               ///< only the rendezvous is served here
  };
  static constexpr std::size_t kReasons = static_cast<std::size_t>(Why::no_store) + 1;
  Why why = Why::none;
  std::uint64_t found = 0;
  std::uint64_t limit = 0;

  explicit operator bool() const { return why != Why::none; }
};

/// One sentence for the log line: what was wrong and, where there is one, the remedy.
std::string explain(const Refusal& refusal);

enum class ParseStatus { complete, incomplete, refused };

/// Parses the requests of one connection, in any dialect that it may speak. Holds a few numbers and
/// no bytes: the caller keeps an incomplete request and offers it again with more bytes behind.
/// Work already done for it is not done again.
class RequestParser {
 public:
  RequestParser() = default;
  /// With `accept_old_dialect` a connection that does not begin with VALIDATE speaks the dialect of
  /// PyTorch 1.13.
  explicit RequestParser(bool accept_old_dialect)
      : dialect_(accept_old_dialect ? Dialect::undecided : Dialect::must_validate) {}

  /// Looks at `bytes`, which begin with the first byte of a request. After `complete` the next call
  /// must begin `request.size` bytes later; after `incomplete` at the same byte; after `refused`
  /// there is no next call. Lengths are checked as soon as they are there, before what they
  /// announce.
  ParseStatus next(std::string_view bytes, const Limits& limits, Request& request);

  /// After `incomplete`: offering fewer bytes than this would change nothing.
  [[nodiscard]] std::size_t bytes_needed() const { return bytes_needed_; }
  /// After `refused`.
  [[nodiscard]] const Refusal& refusal() const { return refusal_; }
  /// The first request was whole: VALIDATE, or any of the old dialect.
  [[nodiscard]] bool greeted() const { return dialect_ == Dialect::today || old_dialect(); }
  [[nodiscard]] bool old_dialect() const { return dialect_ == Dialect::old; }

 private:
  /// `old_first`: the old dialect, of which no request was whole yet.
  enum class Dialect : std::uint8_t { must_validate, undecided, today, old_first, old };
  class Cursor;

  ParseStatus handshake(std::string_view bytes, Request& request);
  ParseStatus today_code(std::string_view bytes, Request& request);
  ParseStatus old_code(std::string_view bytes, const Limits& limits, Request& request);
  bool arguments(Cursor& cursor, Request& request);
  bool list(Cursor& cursor, std::uint64_t elements_each, Request& request);
  ParseStatus refuse(Refusal refusal);

  Dialect dialect_ = Dialect::must_validate;
  std::uint64_t elements_done_ = 0;  ///< elements of an incomplete list that were seen whole
  std::size_t elements_end_ = 0;  ///< where the next element of that list begins; 0: not in a list
  std::size_t bytes_needed_ = 1;
  Refusal refusal_;
};

}  // namespace ddprun::proto::c10d
