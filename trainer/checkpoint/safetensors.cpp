#include "trainer/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw DataError(fmt::format("{}: not a whole safetensors file: {}", file, why));
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

std::uint64_t read_number(const Json& value, const std::string& file, const std::string& tensor) {
  if (!value.is_number_unsigned()) refuse(file, fmt::format("{}: a size is not a number", tensor));
  return value.get<std::uint64_t>();
}

TensorEntry parse_entry(const std::string& name, const Json& row, std::uint64_t data_bytes,
                        const std::string& file) {
  if (!row.is_object() || !row.contains("dtype") || !row["dtype"].is_string() ||
      !row.contains("shape") || !row["shape"].is_array() || !row.contains("data_offsets") ||
      !row["data_offsets"].is_array() || row["data_offsets"].size() != 2) {
    refuse(file, fmt::format("{}: its row lacks dtype, shape or data_offsets", name));
  }
  TensorEntry entry;
  entry.name = name;
  entry.dtype = row["dtype"].get<std::string>();
  std::uint64_t bytes = element_bytes(entry.dtype);
  if (bytes == 0) refuse(file, fmt::format("{}: unknown dtype {}", name, entry.dtype));
  for (const Json& side : row["shape"]) {
    const std::uint64_t length = read_number(side, file, name);
    // Nothing here is larger than the file: a product that would pass that bound cannot match its
    // range.
    if (length > data_bytes || (length != 0 && bytes > data_bytes / length)) {
      refuse(file, fmt::format("{}: its shape is larger than the file", name));
    }
    bytes *= length;
    entry.shape.push_back(static_cast<std::int64_t>(length));
  }
  entry.begin = read_number(row["data_offsets"][0], file, name);
  entry.end = read_number(row["data_offsets"][1], file, name);
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

}  // namespace

std::string safetensors_header(std::span<const TensorSpec> tensors,
                               const std::map<std::string, std::string>& metadata) {
  Json table = Json::object();
  if (!metadata.empty()) table["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    std::uint64_t bytes = sizeof(float);
    for (const std::int64_t length : tensor.shape) bytes *= static_cast<std::uint64_t>(length);
    table[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string json = json_text(table);
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string header;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  }
  return header + json;
}

SafetensorsTable parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    refuse(file, fmt::format("{} bytes are less than the length of a header", bytes.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (length > kSafetensorsHeaderBytesMax) {
    refuse(file, fmt::format("a header of {} bytes; at most {} are allowed", length,
                             kSafetensorsHeaderBytesMax));
  }
  if (length > bytes.size() - kLengthBytes) {
    refuse(file, fmt::format("cut short within the header: {} bytes, but it needs {}", bytes.size(),
                             length + kLengthBytes));
  }
  const std::uint64_t data_offset = kLengthBytes + length;
  const std::uint64_t data_bytes = bytes.size() - data_offset;
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  // A table is two levels deep; deeper nesting is cut off rather than followed down the stack.
  const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
    return depth < 8;
  };
  const Json table = Json::parse(text, text + length, shallow, /*allow_exceptions=*/false);
  if (!table.is_object()) refuse(file, "its header is not a JSON object");

  SafetensorsTable result;
  for (const auto& [name, row] : table.items()) {
    if (name != "__metadata__") {
      result.tensors.push_back(parse_entry(name, row, data_bytes, file));
      continue;
    }
    if (!row.is_object()) refuse(file, "__metadata__ is not an object");
    for (const auto& [key, value] : row.items()) {
      if (!value.is_string()) refuse(file, fmt::format("metadata {} is not text", key));
      result.metadata[key] = value.get<std::string>();
    }
  }
  std::stable_sort(result.tensors.begin(), result.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  std::uint64_t covered = 0;
  for (TensorEntry& entry : result.tensors) {
    if (entry.begin != covered) {
      refuse(file, fmt::format("{}: starts at byte {}, not at {}: ranges must neither overlap nor "
                               "leave holes",
                               entry.name, entry.begin, covered));
    }
    covered = entry.end;
    entry.begin += data_offset;
    entry.end += data_offset;
  }
  if (covered != data_bytes) {
    refuse(file, fmt::format("{} bytes of data, but its tensors cover {}", data_bytes, covered));
  }
  return result;
}

}  // namespace ddprun::trainer
