#include "trainer/checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "base/rounded_up.hpp"

namespace ddprun::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

using Json = nlohmann::ordered_json;

constexpr std::size_t kAlignment = 8;
constexpr std::size_t kShownBytesMax = 100;

std::uint16_t half_word(std::span<const std::byte> bytes, std::size_t index) {
  std::uint16_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

// In bits, as not every compiler has a type for halves.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  // Zero and subnormal halves are multiples of 2^-24; the others need another exponent (bias 127 in
  // place of 15; all ones for inf and nan in both).
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  const std::uint32_t large = (magnitude << 13) + (magnitude < 0x7c00U ? 0x38000000U : 0x70000000U);
  return std::bit_cast<float>(sign | (magnitude < 0x0400U ? small : large));
}

}  // namespace

std::string safetensors_header(std::span<const TensorSpec> tensors,
                               const std::map<std::string, std::string>& metadata) {
  Json table = Json::object();
  if (!metadata.empty()) table["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const bool is_float = tensor.type == TensorSpec::Type::f32;
    std::uint64_t bytes = is_float ? sizeof(float) : sizeof(std::int64_t);
    for (const std::int64_t length : tensor.shape) bytes *= static_cast<std::uint64_t>(length);
    table[tensor.name] = {{"dtype", is_float ? "F32" : "I64"},
                          {"shape", tensor.shape},
                          {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string json = json_text(table);
  json.resize(rounded_up(json.size(), kAlignment), ' ');
  std::string header;
  for (std::size_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    header.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  }
  return header + json;
}

bool converts_to_floats(std::string_view dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

void to_floats(std::string_view dtype, std::span<const std::byte> bytes, std::span<float> values) {
  DDPRUN_ASSERT(converts_to_floats(dtype), "only floats are converted");
  DDPRUN_ASSERT(bytes.size() == values.size() * (dtype == "F32" ? 4 : 2), "one value an element");
  if (dtype == "F32") {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (dtype == "F16") {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = half_to_float(half_word(bytes, i));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::bit_cast<float>(std::uint32_t{half_word(bytes, i)} << 16);
    }
  }
}

std::string shown_name(std::string_view name) {
  if (name.size() <= kShownBytesMax) return printable(name);
  return printable(name.substr(0, kShownBytesMax)) + "...";
}

std::string shown_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace ddprun::trainer
