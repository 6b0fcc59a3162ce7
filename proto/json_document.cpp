#include "proto/json_document.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace ddprun::proto {
namespace {

using Json = nlohmann::json;

const Json& json(const void* node) { return *static_cast<const Json*>(node); }

/// Needs neither an escape nor a look at its UTF-8.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char character) {
    return character >= ' ' && character <= '~' && character != '"' && character != '\\';
  });
}

std::string_view cut(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  const auto continues = [&](std::size_t at) { return (text[at] & 0xc0) == 0x80; };
  for (int back = 0; back < 3 && end > 0 && continues(end); ++back) --end;
  return text.substr(0, end);
}

std::string json_string(std::string_view text) { return json_text(Json(text)); }

}  // namespace

bool JsonValue::is_null() const { return json(node_).is_null(); }

bool JsonValue::is_object() const { return json(node_).is_object(); }

std::optional<bool> JsonValue::boolean() const {
  const bool* value = json(node_).get_ptr<const Json::boolean_t*>();
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::uint64_t> JsonValue::unsigned_number() const {
  const auto* value = json(node_).get_ptr<const Json::number_unsigned_t*>();
  return value == nullptr ? std::nullopt : std::optional<std::uint64_t>(*value);
}

std::optional<double> JsonValue::number() const {
  const Json& value = json(node_);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::optional<std::int64_t> JsonValue::signed_number() const {
  const Json& value = json(node_);
  if (!value.is_number_integer()) return std::nullopt;
  // An unsigned one is stored as such, and get() would wrap it round.
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    return std::nullopt;
  }
  return value.get<std::int64_t>();
}

std::optional<std::string_view> JsonValue::text() const {
  const auto* value = json(node_).get_ptr<const Json::string_t*>();
  return value == nullptr ? std::nullopt : std::optional<std::string_view>(*value);
}

std::optional<std::size_t> JsonValue::array_size() const {
  const Json& value = json(node_);
  return value.is_array() ? std::optional(value.size()) : std::nullopt;
}

JsonValue JsonValue::element(std::size_t index) const { return JsonValue(&json(node_)[index]); }

std::optional<JsonValue> JsonValue::member(std::string_view name) const {
  const Json& value = json(node_);
  const auto found = value.find(name);
  return found == value.end() ? std::nullopt : std::optional(JsonValue(&*found));
}

std::vector<std::pair<std::string_view, JsonValue>> JsonValue::members() const {
  std::vector<std::pair<std::string_view, JsonValue>> found;
  const auto* object = json(node_).get_ptr<const Json::object_t*>();
  if (object == nullptr) return found;
  for (const auto& [name, value] : *object) found.emplace_back(name, JsonValue(&value));
  return found;
}

std::optional<JsonDocument> JsonDocument::parse(std::string_view bytes) {
  auto tree = std::make_shared<const Json>(
      Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false));
  if (tree->is_discarded()) return std::nullopt;
  return JsonDocument(std::move(tree));
}

void append_json_text(std::string& out, std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max && is_plain(text)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  std::string written = json_string(cut(text, bytes_max));
  if (written.size() > bytes_max) {  // replaced bytes became longer, or only its escapes are long
    const auto valid = Json::parse(written).get<std::string>();
    if (valid.size() > bytes_max) written = json_string(cut(valid, bytes_max));
  }
  out += written;
}

}  // namespace ddprun::proto
