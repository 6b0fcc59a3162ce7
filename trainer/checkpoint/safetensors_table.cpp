// The reading half of safetensors.hpp. The file may come from anywhere, so its header is read event
// by event: nothing is built from it but rows of a table, and nothing is followed that is no such
// row.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kOffsets = 2;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw DataError(fmt::format("{}: not a safetensors file, or not a whole one: {}", file, why));
}

/// Refuses a file whose header cannot be read: perhaps it is another program's.
[[noreturn]] void refuse_header(const std::string& file, std::span<const std::byte> start,
                                const std::string& why) {
  const std::string other = other_weights_text(start, file);
  if (!other.empty())
    throw DataError(fmt::format("{}: not a safetensors file, but {}", file, other));
  refuse(file, why);
}

/// Bytes of one element; 0 for a type that the format does not know.
std::uint64_t element_bytes(const std::string& dtype) {
  static constexpr std::array<std::pair<const char*, std::uint64_t>, 13> kTypes{{
      {"F64", 8},
      {"F32", 4},
      {"F16", 2},
      {"BF16", 2},
      {"I64", 8},
      {"I32", 4},
      {"I16", 2},
      {"I8", 1},
      {"U8", 1},
      {"BOOL", 1},
      {"U16", 2},
      {"U32", 4},
      {"U64", 8},
  }};
  for (const auto& [name, bytes] : kTypes) {
    if (dtype == name) return bytes;
  }
  return 0;
}

/// A row as it stands in the header.
struct Row {
  std::string name;
  std::vector<std::string> fields;  // that were there
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
};

/// Takes a header's events apart into rows and metadata. Throws DataError at the first event that
/// has no place in a table:
///   table    := { name: row ... }       row := { "dtype": text, "shape": numbers,
///   metadata := { key: text ... }                "data_offsets": numbers }
class TableReader final : public nlohmann::json_sax<Json> {
 public:
  explicit TableReader(const std::string& file) : file_(file) {}

  std::vector<Row> rows;
  std::map<std::string, std::string> metadata;

  bool null() override { return other_value(); }
  bool boolean(bool /*value*/) override { return other_value(); }
  bool number_integer(number_integer_t /*value*/) override { return other_value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return other_value();
  }
  bool binary(binary_t& /*value*/) override { return other_value(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*last*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::numbers) return other_value();
    const bool is_shape = key_ == "shape";
    std::vector<std::uint64_t>& numbers = is_shape ? rows.back().shape : rows.back().offsets;
    if (numbers.size() == (is_shape ? kSafetensorsRankMax : kOffsets)) {
      refuse_row(fmt::format("more than {} numbers in {}", numbers.size(), key_));
    }
    numbers.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!metadata.emplace(key_, std::move(value)).second) {
        refuse(file_, fmt::format("metadata {} is there twice", shown_name(key_)));
      }
      return true;
    }
    if (place_ != Place::row || key_ != "dtype") return other_value();
    rows.back().dtype = std::move(value);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (place_ == Place::outside) {
      place_ = Place::table;
    } else if (place_ != Place::table) {
      return other_value();
    } else if (key_ == kMetadata) {
      if (std::exchange(metadata_seen_, true)) refuse(file_, "__metadata__ is there twice");
      place_ = Place::metadata;
    } else {
      rows.push_back({.name = key_, .fields = {}, .dtype = {}, .shape = {}, .offsets = {}});
      place_ = Place::row;
    }
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    if (place_ != Place::row) return true;
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      refuse_row(fmt::format("unknown field {}", shown_name(key_)));
    }
    auto& fields = rows.back().fields;
    if (std::find(fields.begin(), fields.end(), key_) != fields.end()) {
      refuse_row(fmt::format("{} is there twice", key_));
    }
    fields.push_back(key_);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::row) {
      const Row& row = rows.back();
      if (row.fields.size() != 3 || row.offsets.size() != kOffsets) refuse_incomplete(row.name);
      rows.back().fields = {};
    }
    place_ = place_ == Place::table ? Place::outside : Place::table;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (place_ != Place::row || key_ == "dtype") return other_value();
    place_ = Place::numbers;
    return true;
  }

  bool end_array() override {
    place_ = Place::row;
    return true;
  }

 private:
  enum class Place { outside, table, metadata, row, numbers };

  [[noreturn]] void refuse_row(const std::string& why) const {
    refuse(file_, fmt::format("{}: {}", shown_name(rows.back().name), why));
  }
  [[noreturn]] void refuse_incomplete(const std::string& name) const {
    refuse(file_, fmt::format("{}: its row lacks dtype, shape or data_offsets", shown_name(name)));
  }

  /// A value of a kind that has no place here.
  [[noreturn]] bool other_value() const {
    switch (place_) {
      case Place::outside:
        refuse(file_, "its header is not a JSON object");
      case Place::table:
        if (key_ == kMetadata) refuse(file_, "__metadata__ is not an object");
        refuse_incomplete(key_);
      case Place::metadata:
        refuse(file_, fmt::format("metadata {} is not text", shown_name(key_)));
      case Place::row:
        refuse_incomplete(rows.back().name);
      case Place::numbers:
        break;
    }
    refuse_row("a size is not a number");
  }

  const std::string& file_;
  Place place_ = Place::outside;
  std::string key_;
  bool metadata_seen_ = false;
};

TensorEntry check_row(Row row, std::uint64_t data_bytes, const std::string& file) {
  const std::string name = shown_name(row.name);
  TensorEntry entry;
  entry.name = std::move(row.name);
  entry.dtype = std::move(row.dtype);
  std::uint64_t bytes = element_bytes(entry.dtype);
  if (bytes == 0) {
    refuse(file, fmt::format("{}: unknown dtype {}", name, shown_name(entry.dtype)));
  }
  for (const std::uint64_t length : row.shape) {
    // Nothing here is larger than the file: a product that would pass that bound cannot match its
    // range.
    if (length > data_bytes || (length != 0 && bytes > data_bytes / length)) {
      refuse(file, fmt::format("{}: its shape is larger than the file", name));
    }
    bytes *= length;
    entry.shape.push_back(static_cast<std::int64_t>(length));
  }
  entry.begin = row.offsets[0];
  entry.end = row.offsets[1];
  if (entry.begin > entry.end || entry.end > data_bytes) {
    refuse(file, fmt::format("{}: bytes {}..{} lie outside the data of {} bytes (cut short?)", name,
                             entry.begin, entry.end, data_bytes));
  }
  if (entry.end - entry.begin != bytes) {
    refuse(file, fmt::format("{}: {} bytes, but its shape needs {}", name, entry.end - entry.begin,
                             bytes));
  }
  return entry;
}

void refuse_same_names(std::span<const TensorEntry> tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse(file, fmt::format("{} is there twice", shown_name(*twice)));
}

}  // namespace

std::size_t safetensors_header_bytes(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     const std::string& file) {
  if (file_bytes < kSafetensorsLengthBytes || start.size() < kSafetensorsLengthBytes) {
    refuse(file, fmt::format("{} bytes are less than the length of a header", file_bytes));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  }
  if (length > kSafetensorsHeaderBytesMax) {
    refuse_header(file, start,
                  fmt::format("a header of {} bytes; at most {} are allowed", length,
                              kSafetensorsHeaderBytesMax));
  }
  if (length > file_bytes - kSafetensorsLengthBytes) {
    refuse_header(file, start,
                  fmt::format("cut short within the header: {} bytes, but it needs {}", file_bytes,
                              length + kSafetensorsLengthBytes));
  }
  return kSafetensorsLengthBytes + static_cast<std::size_t>(length);
}

SafetensorsTable parse_safetensors_header(std::span<const std::byte> header,
                                          std::uint64_t file_bytes, const std::string& file) {
  const std::uint64_t data_bytes = file_bytes - header.size();
  const auto* text = reinterpret_cast<const char*>(header.data());
  TableReader reader(file);
  if (!Json::sax_parse(text + kSafetensorsLengthBytes, text + header.size(), &reader)) {
    refuse_header(file, header, "its header is not a JSON object");
  }

  SafetensorsTable result;
  result.metadata = std::move(reader.metadata);
  result.tensors.reserve(reader.rows.size());
  for (Row& row : reader.rows) {
    result.tensors.push_back(check_row(std::move(row), data_bytes, file));
  }
  refuse_same_names(result.tensors, file);
  std::stable_sort(result.tensors.begin(), result.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  std::uint64_t covered = 0;
  for (TensorEntry& entry : result.tensors) {
    if (entry.begin != covered) {
      refuse(file, fmt::format("{}: starts at byte {}, not at {}: ranges must neither overlap nor "
                               "leave holes",
                               shown_name(entry.name), entry.begin, covered));
    }
    covered = entry.end;
    entry.begin += header.size();
    entry.end += header.size();
  }
  if (covered != data_bytes) {
    refuse(file, fmt::format("{} bytes of data, but its tensors cover {}", data_bytes, covered));
  }
  return result;
}

SafetensorsTable parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  const std::size_t header = safetensors_header_bytes(bytes, bytes.size(), file);
  return parse_safetensors_header(bytes.first(header), bytes.size(), file);
}

}  // namespace ddprun::trainer
