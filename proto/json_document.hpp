// JSON as the control messages need it: a parsed document to look into, and texts to write. The
// library behind it stays in json_document.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::proto {

/// A value of a JsonDocument, valid while that lives. What asks for another type than it has gets
/// nothing.
class JsonValue {
 public:
  explicit JsonValue(const void* node) : node_(node) {}

  bool is_null() const;
  bool is_object() const;
  std::optional<bool> boolean() const;
  /// Whole numbers in the range of the type: 1.0 and 1e3 are none.
  std::optional<std::int64_t> signed_number() const;
  std::optional<std::uint64_t> unsigned_number() const;
  /// Any number.
  std::optional<double> number() const;
  std::optional<std::string_view> text() const;
  /// How many elements an array has.
  std::optional<std::size_t> array_size() const;
  /// `index` must be below array_size().
  JsonValue element(std::size_t index) const;
  std::optional<JsonValue> member(std::string_view name) const;
  /// The members of an object with their names; empty: this is no object.
  std::vector<std::pair<std::string_view, JsonValue>> members() const;

 private:
  const void* node_;
};

class JsonDocument {
 public:
  /// None: these bytes are no JSON. Of members of one name the last one counts.
  static std::optional<JsonDocument> parse(std::string_view bytes);

  JsonValue root() const { return JsonValue(tree_.get()); }

 private:
  explicit JsonDocument(std::shared_ptr<const void> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const void> tree_;
};

/// Appends `text` with its quotes. What is no UTF-8 is replaced; a text above `bytes_max` bytes is
/// cut to whole characters.
void append_json_text(std::string& out, std::string_view text, std::size_t bytes_max);

}  // namespace ddprun::proto
