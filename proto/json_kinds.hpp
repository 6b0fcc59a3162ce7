// The envelope of a control message: one member names its kind and holds its fields, as in
// {"seq": 7, "join": {...}}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "proto/error.hpp"
#include "proto/json_fields.hpp"

namespace ddprun::proto {

/// The name of a message on the wire.
template <class Message>
inline constexpr std::string_view kKind = "";

/// A message of a known kind, with its fields still unread.
struct Envelope {
  JsonDocument document;
  std::string_view kind;
  JsonValue fields;
  std::optional<std::uint64_t> seq;
};

/// The one member that is an object is the message; others than `seq` are ignored.
/// Errors: malformed.
Result<Envelope> open_envelope(std::string_view body);

/// Reads the message if its kind is one of the variant's own; an alternative without a name, such
/// as another variant, is passed over. Errors: malformed; unknown_kind.
template <class... Messages>
ErrorCode read_message(const Envelope& envelope, std::variant<Messages...>& message) {
  ErrorCode result = make_error_code(Errc::unknown_kind);
  const auto try_kind = [&]<class Message>(std::in_place_type_t<Message>) {
    if constexpr (!kKind<Message>.empty()) {
      if (kKind<Message> != envelope.kind) return;
      const bool good = read_object(envelope.fields, message.template emplace<Message>());
      result = good ? ErrorCode() : make_error_code(Errc::malformed);
    }
  };
  (try_kind(std::in_place_type<Messages>), ...);
  return result;
}

/// Appends `"kind":{...}`.
template <class Message>
void write_message(std::string& out, const Message& message) {
  static_assert(!kKind<Message>.empty(), "every message has a name");
  out += '"';
  out += kKind<Message>;
  out += "\":";
  write_object(out, message);
}

}  // namespace ddprun::proto
