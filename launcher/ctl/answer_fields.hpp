// Fields of a job's answers: another program has written them, so each may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/printable.hpp"
#include "proto/json_document.hpp"

namespace ddprun::ctl {

/// Printable; empty: there is no such text.
inline std::string text_in(const proto::JsonValue& json, const char* name) {
  const auto field = json.member(name);
  return field ? printable(field->text().value_or("")) : "";
}

inline std::optional<std::int64_t> whole_in(const proto::JsonValue& json, const char* name) {
  const auto field = json.member(name);
  return field ? field->signed_number() : std::nullopt;
}

inline std::optional<double> fraction_in(const proto::JsonValue& json, const char* name) {
  const auto field = json.member(name);
  return field ? field->number() : std::nullopt;
}

}  // namespace ddprun::ctl
