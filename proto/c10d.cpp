#include "proto/c10d.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

namespace ddprun::proto::c10d {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kListBegin = 1 + kLengthBytes;  // behind the code and the count

/// VALIDATE as it is on the wire. Whatever else begins a connection is not today's dialect.
constexpr std::array<char, 5> kHandshake = {0, static_cast<char>(0xCE), static_cast<char>(0xF7),
                                            static_cast<char>(0x85), 0x3C};

/// The codes of PyTorch 1.13, in order; 7 was WATCH_KEY, which nothing used.
constexpr std::array<Code, 9> kOldCodes = {Code::set,       Code::compare_set, Code::get,
                                           Code::add,       Code::check,       Code::wait,
                                           Code::key_count, Code::validate,    Code::delete_key};
constexpr std::uint8_t kOldWatchKey = 7;

}  // namespace

std::string explain(const Refusal& refusal) {
  using Why = Refusal::Why;
  const auto over = [&](const char* what) {
    return fmt::format("{} {} is over the limit of {}", what, refusal.found, refusal.limit);
  };
  switch (refusal.why) {
    case Why::none:
      return "nothing was wrong";
    case Why::not_validated:
      return "the first bytes are not a store client's (a port scanner, a browser, or PyTorch "
             "before 2.1 where that is not accepted)";
    case Why::wrong_magic:
      return "VALIDATE has a wrong magic number, so this is not a store client";
    case Why::validated_twice:
      return "VALIDATE came a second time";
    case Why::unknown_code:
      if (refusal.limit != kLastCode) {
        return fmt::format("request code {} does not exist in PyTorch 1.13's dialect",
                           refusal.found);
      }
      return fmt::format(
          "request code {} is not known: worker's PyTorch is newer than this ddprun: "
          "--worker-store=rank0",
          refusal.found);
    case Why::key_too_long:
      return over("a key length of");
    case Why::value_too_long:
      return over("a value length of");
    case Why::list_too_long:
      return over("a list length of");
    case Why::request_too_long:
      return over("a request size of");
    case Why::not_a_number:
      return "ADD or BARRIER on a key with a value that is no decimal number";
    case Why::too_many_waits:
      return over("a number of keys waited for of");
    case Why::request_while_waiting:
      return "a request while its WAIT is open: the client's wait timed out, its replies would be "
             "out of step";
    case Why::watch_key:
      return "WATCH_KEY, which only C++ programs of PyTorch 1.13 can send, is not served";
    case Why::handshake_too_late:
      return fmt::format("it sent no whole request within {:g} s",
                         static_cast<double>(refusal.limit) / 1000);
    case Why::other_user:
      return fmt::format(
          "it belongs to uid {}, and this store to uid {}: --store-allow-uid={} lets it in",
          refusal.found, refusal.limit, refusal.found);
    case Why::left_unchecked:
      return "it had closed its end before its user could be seen, so its requests were not served";
    case Why::store_full:
      return fmt::format(
          "the store is full: with this request it has {} bytes, and may have {} "
          "(--max-store-bytes)",
          refusal.found, refusal.limit);
    case Why::share_full:
      return fmt::format(
          "with this request it fills {} bytes of the store, and one client may "
          "fill {} (half of --max-store-bytes)",
          refusal.found, refusal.limit);
    case Why::no_store:
      return "it asks for PyTorch's store, which is not served here (--no-store)";
  }
  return "unknown refusal";
}

/// Reads fields one behind the other. A field that is not there whole, or is over a limit, ends the
/// reading.
class RequestParser::Cursor {
 public:
  Cursor(std::string_view bytes, const Limits& limits, std::size_t position)
      : bytes_(bytes), limits_(limits), position_(position) {}

  template <class Number>
  bool number(Number& value) {
    if (!take(sizeof value)) return false;
    std::memcpy(&value, bytes_.data() + position_ - sizeof value, sizeof value);
    return true;
  }
  bool key(std::string_view& bytes) {
    return field(bytes, limits_.key_bytes_max, Refusal::Why::key_too_long);
  }
  bool value(std::string_view& bytes) {
    return field(bytes, limits_.value_bytes_max, Refusal::Why::value_too_long);
  }
  bool count(std::uint64_t& elements) {
    return number(elements) &&
           within(elements, limits_.list_elements_max, Refusal::Why::list_too_long);
  }

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::size_t needed() const { return needed_; }
  [[nodiscard]] const Refusal& refusal() const { return refusal_; }

 private:
  bool within(std::uint64_t found, std::uint64_t limit, Refusal::Why why) {
    if (found <= limit) return true;
    refusal_ = {why, found, limit};
    return false;
  }
  bool take(std::size_t length) {
    if (!within(position_ + length, limits_.request_bytes_max, Refusal::Why::request_too_long))
      return false;
    if (bytes_.size() - position_ < length) {
      needed_ = position_ + length;
      return false;
    }
    position_ += length;
    return true;
  }
  bool field(std::string_view& bytes, std::uint64_t limit, Refusal::Why why) {
    std::uint64_t length = 0;
    if (!number(length) || !within(length, limit, why) || !take(length)) return false;
    bytes = bytes_.substr(position_ - length, length);
    return true;
  }

  std::string_view bytes_;
  const Limits& limits_;
  std::size_t position_;
  std::size_t needed_ = 0;
  Refusal refusal_;
};

ParseStatus RequestParser::next(std::string_view bytes, const Limits& limits, Request& request) {
  if (bytes.empty()) {
    bytes_needed_ = 1;
    return ParseStatus::incomplete;
  }
  if (dialect_ == Dialect::must_validate || dialect_ == Dialect::undecided) {
    const ParseStatus status = handshake(bytes, request);
    if (dialect_ != Dialect::old_first) return status;
  }
  request = Request{};
  const bool old = dialect_ != Dialect::today;
  const ParseStatus known = old ? old_code(bytes, limits, request) : today_code(bytes, request);
  if (known != ParseStatus::complete) return known;

  Cursor cursor(bytes, limits, elements_end_ != 0 ? elements_end_ : 1);
  if (!arguments(cursor, request)) {
    if (cursor.refusal()) return refuse(cursor.refusal());
    bytes_needed_ = cursor.needed();
    return ParseStatus::incomplete;
  }
  request.size = cursor.position();
  elements_done_ = 0;
  elements_end_ = 0;
  bytes_needed_ = 1;
  if (old) dialect_ = Dialect::old;
  return ParseStatus::complete;
}

/// What the first byte of a request means; complete if it is a known code.
ParseStatus RequestParser::today_code(std::string_view bytes, Request& request) {
  const auto byte = static_cast<std::uint8_t>(bytes.front());
  if (byte == 0) return refuse({Refusal::Why::validated_twice, 0, 0});
  if (byte > kLastCode) return refuse({Refusal::Why::unknown_code, byte, kLastCode});
  request.code = static_cast<Code>(byte);
  return ParseStatus::complete;
}

ParseStatus RequestParser::old_code(std::string_view bytes, const Limits& limits,
                                    Request& request) {
  const auto byte = static_cast<std::uint8_t>(bytes.front());
  const bool first = dialect_ == Dialect::old_first;
  if (byte == kOldWatchKey) return refuse({Refusal::Why::watch_key, 0, 0});
  if (byte >= kOldCodes.size()) {
    if (first) return refuse({Refusal::Why::not_validated, 0, 0});
    return refuse({Refusal::Why::unknown_code, byte, kOldCodes.size() - 1});
  }
  request.code = kOldCodes[byte];
  request.old_dialect = true;
  if (!first || request.code != Code::set) return ParseStatus::complete;
  // A SET begins as VALIDATE does. Its key is short, and never empty in PyTorch, so a magic number
  // that is wrong shows before the length is there whole.
  std::uint32_t magic = 0;
  const std::size_t there = std::min(bytes.size() - 1, sizeof magic);
  std::memcpy(&magic, bytes.data() + 1, there);
  if (magic > limits.key_bytes_max || (magic == 0 && there == sizeof magic)) {
    return refuse({Refusal::Why::wrong_magic, 0, 0});
  }
  if (there == sizeof magic) return ParseStatus::complete;
  bytes_needed_ = bytes.size() + 1;  // so that the cuts of the network make no difference
  return ParseStatus::incomplete;
}

/// The first request of a connection: VALIDATE, refused at its first wrong byte, or the sign of the
/// old dialect.
ParseStatus RequestParser::handshake(std::string_view bytes, Request& request) {
  const std::size_t length = std::min(bytes.size(), kHandshake.size());
  const auto wrong =
      std::mismatch(bytes.begin(), bytes.begin() + length, kHandshake.begin()).first -
      bytes.begin();
  if (wrong < static_cast<std::ptrdiff_t>(length)) {
    if (dialect_ == Dialect::undecided) {
      dialect_ = Dialect::old_first;
      return ParseStatus::incomplete;  // looked at again by the caller, in that dialect
    }
    return refuse({wrong == 0 ? Refusal::Why::not_validated : Refusal::Why::wrong_magic, 0, 0});
  }
  if (length < kHandshake.size()) {
    // A wrong byte is to be seen when it comes, so every further byte is worth a look.
    bytes_needed_ = length + 1;
    return ParseStatus::incomplete;
  }
  dialect_ = Dialect::today;
  bytes_needed_ = 1;
  request = Request{};
  request.size = kHandshake.size();
  return ParseStatus::complete;
}

bool RequestParser::arguments(Cursor& cursor, Request& request) {
  switch (request.code) {
    case Code::key_count:
    case Code::cancel_wait:
    case Code::list_keys:
      return true;
    case Code::get:
    case Code::delete_key:
    case Code::queue_pop:
    case Code::queue_length:
      return cursor.key(request.key);
    case Code::set:
    case Code::append:
    case Code::queue_push:
      return cursor.key(request.key) && cursor.value(request.value);
    case Code::compare_set:
      return cursor.key(request.key) && cursor.value(request.value) &&
             cursor.value(request.desired);
    case Code::add:
    case Code::barrier:
      return cursor.key(request.key) && cursor.number(request.number);
    case Code::check:
    case Code::wait:
    case Code::multi_get:
      return list(cursor, 1, request);
    case Code::multi_set:
      return list(cursor, 2, request);
    case Code::ping: {
      std::uint32_t nonce = 0;
      if (!cursor.number(nonce)) return false;
      request.number = nonce;
      return true;
    }
    case Code::validate:
      break;
  }
  return true;
}

/// A list of keys (`elements_each` 1) or of keys and values in turn (2). Goes on where the last
/// call had to stop, so that a list that comes byte by byte costs no more than one that comes at
/// once.
bool RequestParser::list(Cursor& cursor, std::uint64_t elements_each, Request& request) {
  std::uint64_t count = 0;
  if (elements_end_ == 0) {
    if (!cursor.count(count)) return false;
    elements_end_ = cursor.position();
  } else {
    std::memcpy(&count, cursor.bytes().data() + 1,
                sizeof count);  // checked by the call that began the list
  }
  const std::uint64_t elements = count * elements_each;
  std::string_view element;
  for (; elements_done_ < elements; ++elements_done_) {
    const bool is_key = elements_each == 1 || elements_done_ % 2 == 0;
    if (!(is_key ? cursor.key(element) : cursor.value(element))) return false;
    elements_end_ = cursor.position();
  }
  request.list = List(cursor.bytes().substr(kListBegin, cursor.position() - kListBegin), elements);
  return true;
}

ParseStatus RequestParser::refuse(Refusal refusal) {
  refusal_ = refusal;
  return ParseStatus::refused;
}

}  // namespace ddprun::proto::c10d
