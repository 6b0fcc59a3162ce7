// The safetensors format: an 8-byte little-endian header length, a JSON table of tensors, then
// their bytes without holes or overlaps. Pure: no file is touched here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// The format's own limit.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

/// A tensor to be written: 32-bit floats, row-major.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// One row of a file's table. Offsets count from the start of the file.
struct TensorEntry {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsTable {
  std::vector<TensorEntry> tensors;  ///< by rising offset
  std::map<std::string, std::string> metadata;
};

/// Everything before the data: length and JSON, padded with spaces to a multiple of 8. The tensors'
/// bytes follow in the order given.
std::string safetensors_header(std::span<const TensorSpec> tensors,
                               const std::map<std::string, std::string>& metadata);

/// Reads and checks the table of a whole file's bytes. Throws DataError that names `file` and what
/// is wrong: cut short, a header over the limit, not JSON, a range that leaves a hole, overlaps or
/// disagrees with its shape.
SafetensorsTable parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

}  // namespace ddprun::trainer
