// One table of fields for each struct of the control messages, and what reads and writes JSON by
// it. A struct with a member that its table lacks does not compile.
//
//   template <>
//   inline constexpr auto kFields<Started> = std::tuple{required("round", &Started::round)};
//
// A field with the value that a new struct has is left out, unless it is required. Unknown fields
// are ignored.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/pfr/tuple_size.hpp>

#include "proto/json_document.hpp"
#include "proto/message_limits.hpp"

namespace ddprun::proto {

/// What a field may hold, as far as its type leaves it open. Numbers, counts and spans are not
/// negative unless the field says so; of a list the limits of numbers and texts hold for each.
struct Limits {
  std::int64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::size_t bytes_max = kNameBytesMax;
  std::size_t count_max = 0;
};
constexpr Limits between(std::int64_t least, std::int64_t most) {
  return {.least = least, .most = static_cast<std::uint64_t>(most)};
}
constexpr Limits list(std::size_t count_max, std::size_t bytes_max = kNameBytesMax) {
  return {.bytes_max = bytes_max, .count_max = count_max};
}
inline constexpr Limits kText{.bytes_max = kTextBytesMax};
/// A point in time: it may lie before the one that it is counted from.
inline constexpr Limits kInstant{.least = -kSpanMax.count()};

template <class Message, class T>
struct Field {
  std::string_view name;
  T Message::*member;
  Limits limits;
  bool is_required;
};
template <class Message, class T>
constexpr Field<Message, T> field(std::string_view name, T Message::*member, Limits limits = {}) {
  return {name, member, limits, false};
}
/// The message has no meaning without it.
template <class Message, class T>
constexpr Field<Message, T> required(std::string_view name, T Message::*member,
                                     Limits limits = {}) {
  return {name, member, limits, true};
}

/// The table of a struct.
template <class Message>
inline constexpr int kFields = 0;
/// A function that tells whether the members of a struct agree with each other; null: any values
/// may go together.
template <class Message>
inline constexpr auto kAgrees = nullptr;
/// The names of an enum's values, in their order.
template <class Enum>
inline constexpr int kNames = 0;

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsBytes = false;
template <std::size_t kSize>
inline constexpr bool kIsBytes<std::array<std::uint8_t, kSize>> = true;
template <class T>
concept Described = !std::same_as<std::remove_cvref_t<decltype(kFields<T>)>, int>;

// Writing
// -------------------------------------------------------------------------

/// Written as nanoseconds since its clock's zero, before which it may not lie.
template <class T>
inline constexpr bool kIsInstant = false;
template <class Clock>
inline constexpr bool kIsInstant<std::chrono::time_point<Clock, std::chrono::nanoseconds>> = true;

template <std::integral T>
void append_number(std::string& out, T number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, std::end(digits), number).ptr);
}

template <class T>
void write_value(std::string& out, const T& value, const Limits& limits);

template <class Message, class T>
void write_field(std::string& out, const Field<Message, T>& field, const Message& message,
                 const Message& fresh) {
  const T& value = message.*field.member;
  if (!field.is_required) {
    if constexpr (kIsList<T>) {
      if (value.empty()) return;
    } else if constexpr (std::equality_comparable<T>) {
      if (value == fresh.*field.member) return;
    } else if constexpr (kIsOptional<T>) {
      if (!value) return;
    }
  }
  const std::size_t before = out.size();
  if (out.back() != '{') out += ',';
  out += '"';
  out += field.name;
  out += "\":";
  const std::size_t begin = out.size();
  write_value(out, value, field.limits);
  // A struct that is as a new one; of an optional one its being there counts.
  if (Described<T> && !field.is_required && out.size() == begin + 2) out.resize(before);
}

/// Appends the message's object.
template <Described Message>
void write_object(std::string& out, const Message& message) {
  static_assert(boost::pfr::tuple_size_v<Message> ==
                    std::tuple_size_v<std::remove_cvref_t<decltype(kFields<Message>)>>,
                "the table names every member");
  [[maybe_unused]] static const Message kFresh{};  // unused where there are no fields
  out += '{';
  std::apply([&](const auto&... each) { (write_field(out, each, message, kFresh), ...); },
             kFields<Message>);
  out += '}';
}

template <class T>
void write_value(std::string& out, const T& value, const Limits& limits) {
  if constexpr (std::same_as<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::integral<T>) {
    append_number(out, value);
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
    append_number(out, std::clamp(value, -kSpanMax, kSpanMax).count());
  } else if constexpr (kIsInstant<T>) {
    write_value(out, value.time_since_epoch(), limits);
  } else if constexpr (std::is_enum_v<T>) {
    append_json_text(out, kNames<T>[static_cast<std::size_t>(value)], kNameBytesMax);
  } else if constexpr (std::same_as<T, std::string>) {
    append_json_text(out, value, limits.bytes_max);
  } else if constexpr (kIsBytes<T>) {
    out += '"';
    for (const std::uint8_t byte : value) {
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    }
    out += '"';
  } else if constexpr (kIsOptional<T>) {
    value ? write_value(out, *value, limits) : void(out += "null");
  } else if constexpr (kIsList<T>) {
    out += '[';
    const std::size_t count = std::min(value.size(), limits.count_max);
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out += ',';
      write_value(out, value[i], limits);
    }
    out += ']';
  } else {
    write_object(out, value);
  }
}

// Reading: false where something is wrong, and then the message is to be thrown away.
// -------------------------------------------------------------------------

template <std::integral T>
bool read_number(JsonValue json, T& value, const Limits& limits) {
  if (const auto number = json.unsigned_number()) {
    value = static_cast<T>(*number);
    return std::in_range<T>(*number) && *number <= limits.most &&
           std::cmp_greater_equal(*number, limits.least);
  }
  const auto number = json.signed_number();
  if (!number || !std::in_range<T>(*number)) return false;
  value = static_cast<T>(*number);
  return *number >= limits.least;
}

template <std::size_t kSize>
bool read_bytes(JsonValue json, std::array<std::uint8_t, kSize>& bytes) {
  const auto text = json.text();
  if (!text || text->size() != 2 * kSize) return false;
  for (std::size_t i = 0; i < kSize; ++i) {
    const char* pair = text->data() + 2 * i;
    const auto [end, failed] = std::from_chars(pair, pair + 2, bytes[i], 16);
    if (failed != std::errc() || end != pair + 2) return false;
  }
  return true;
}

template <class T>
bool read_value(JsonValue json, T& value, const Limits& limits);

template <Described Message>
bool read_object(JsonValue json, Message& message) {
  const auto read_field = [&](const auto& field) {
    const auto member = json.member(field.name);
    return member ? read_value(*member, message.*field.member, field.limits) : !field.is_required;
  };
  const bool read =
      json.is_object() &&
      std::apply([&](const auto&... each) { return (read_field(each) && ...); }, kFields<Message>);
  using Agrees = std::remove_cvref_t<decltype(kAgrees<Message>)>;
  if constexpr (!std::same_as<Agrees, std::nullptr_t>) {
    return read && kAgrees<Message>(message);
  } else {
    return read;
  }
}

template <class T>
bool read_value(JsonValue json, T& value, const Limits& limits) {
  if constexpr (std::same_as<T, bool>) {
    const auto given = json.boolean();
    value = given.value_or(false);
    return given.has_value();
  } else if constexpr (std::integral<T>) {
    return read_number(json, value, limits);
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
    std::int64_t count = 0;
    const bool good = read_number(json, count, between(limits.least, kSpanMax.count()));
    value = T(count);
    return good;
  } else if constexpr (kIsInstant<T>) {
    std::chrono::nanoseconds since_zero{0};
    const bool good = read_value(json, since_zero, limits);
    value = T(since_zero);
    return good;
  } else if constexpr (std::is_enum_v<T>) {
    const auto name = json.text();
    const auto found = std::find(kNames<T>.begin(), kNames<T>.end(), name.value_or(""));
    value = static_cast<T>(found - kNames<T>.begin());
    return found != kNames<T>.end();
  } else if constexpr (std::same_as<T, std::string>) {
    const auto text = json.text();
    if (!text || text->size() > limits.bytes_max) return false;
    value = *text;
    return true;
  } else if constexpr (kIsBytes<T>) {
    return read_bytes(json, value);
  } else if constexpr (kIsOptional<T>) {
    if (json.is_null()) {
      value.reset();
      return true;
    }
    return read_value(json, value.emplace(), limits);
  } else if constexpr (kIsList<T>) {
    const auto count = json.array_size();
    if (!count || *count > limits.count_max) return false;
    value.resize(*count);
    for (std::size_t i = 0; i < *count; ++i) {
      if (!read_value(json.element(i), value[i], limits)) return false;
    }
    return true;
  } else {
    return read_object(json, value);
  }
}

}  // namespace ddprun::proto
