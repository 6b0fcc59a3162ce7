// The safetensors format: an 8-byte little-endian header length, a JSON table of tensors, then
// their bytes without holes or overlaps. Only SafetensorsFile touches a file, of which it reads the
// header and some tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_handle.hpp"

namespace ddprun::trainer {

/// The format's own limit.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;
/// Bytes of the header's length, which come first.
inline constexpr std::size_t kSafetensorsLengthBytes = 8;
/// Sides of one tensor's shape: PyTorch's limit.
inline constexpr std::size_t kSafetensorsRankMax = 64;

/// A tensor to be written, row-major.
struct TensorSpec {
  enum class Type { f32, i64 };
  std::string name;
  std::vector<std::int64_t> shape;
  Type type = Type::f32;
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

/// How long the header is, its 8 bytes of length included; `start` are the file's first bytes, 8 if
/// it has as many. Throws DataError that names `file`: cut short, over the limit.
std::size_t safetensors_header_bytes(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     const std::string& file);

/// Reads and checks the table in `header`, the first safetensors_header_bytes() of a file of
/// `file_bytes`. Throws DataError that names `file` and what is wrong: not JSON, no table, a name
/// that is there twice, an unknown type, a range that leaves a hole, overlaps or disagrees with its
/// shape. Neither time nor memory grows with the square of what it holds.
SafetensorsTable parse_safetensors_header(std::span<const std::byte> header,
                                          std::uint64_t file_bytes, const std::string& file);

/// The table of a whole file, from its bytes; throws what the one above throws.
SafetensorsTable parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

/// Whether to_floats() knows the type: F32, F16 and BF16.
bool converts_to_floats(std::string_view dtype);

/// The elements of a tensor as floats, each exactly: every half and every bfloat16 is a float, also
/// subnormal ones, inf and nan (with its payload). `bytes` holds values.size() elements of `dtype`,
/// which must be one that converts.
void to_floats(std::string_view dtype, std::span<const std::byte> bytes, std::span<float> values);

/// A name from a file for a message: at most 100 bytes of it, control characters as in C.
std::string shown_name(std::string_view name);

/// A shape for a message: "[10, 84]".
std::string shown_shape(std::span<const std::int64_t> shape);

/// Holds the file open. All calls throw DataError that names the file.
class SafetensorsFile {
 public:
  /// Reads the header: not readable, no regular file, or not whole.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const SafetensorsTable& table() const { return table_; }

  /// The bytes of a row of table(); `out` has exactly as many. A file that has become shorter is
  /// refused.
  void read(const TensorEntry& tensor, std::span<std::byte> out) const;

 private:
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  std::filesystem::path path_;
  UniqueFd fd_;
  SafetensorsTable table_;
};

/// What `file` is and what makes a safetensors file of it, by its first bytes (8 are enough), which
/// are not those of a safetensors file. Empty: none that is known.
std::string other_weights_text(std::span<const std::byte> start, const std::string& file);

}  // namespace ddprun::trainer
