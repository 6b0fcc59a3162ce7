#include "trainer/checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/json_text.hpp"
#include "base/open_file.hpp"
#include "base/printable.hpp"
#include "base/rounded_up.hpp"
#include "base/shell_word.hpp"
#include "trainer/error.hpp"

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

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw DataError(fmt::format("{}: {}", path.string(), why));
}

UniqueFd open_tensors(const std::filesystem::path& path) {
  Result<UniqueFd> opened = open_named_file(path, O_RDONLY);
  if (opened) return std::move(*opened);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    refuse(path, "a directory: give the file, of a checkpoint its model.safetensors");
  refuse(path, opened.error() == FileErrc::not_regular
                   ? "not a file with tensors, but a pipe or a device"
                   : opened.error().message());
}

using namespace std::string_view_literals;

constexpr std::size_t kStartBytes = 8;

/// A pickle begins with its protocol; the length of a header that begins with these bytes is short,
/// and the next bytes are 0.
bool is_pickle(std::string_view start) {
  return start.starts_with('\x80') && start[1] >= 2 && start[1] <= 5 && start[2] != 0;
}

bool is_text(std::string_view start) {
  return std::all_of(start.begin(), start.end(), [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return std::isprint(byte) != 0 || std::isspace(byte) != 0;
  });
}

/// save_file() takes tensors alone, contiguous ones that share no memory.
std::string converted(const std::string& file) {
  auto output = std::filesystem::path(file).replace_extension(".safetensors");
  if (output == file) output.replace_extension(".converted.safetensors");
  return fmt::format(
      "convert it: python3 -c 'import sys, torch; from safetensors.torch import save_file; "
      "d = torch.load(sys.argv[1], map_location=\"cpu\"); save_file({{k: v.clone().contiguous() "
      "for k, v in d.items() if torch.is_tensor(v)}}, sys.argv[2])' {} {}",
      shell_word(file), shell_word(output.string()));
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

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), fd_(open_tensors(path)) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) refuse(path_, std::strerror(errno));
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);

  std::vector<std::byte> header(std::min<std::uint64_t>(file_bytes, kSafetensorsLengthBytes));
  read_at(0, header);
  header.resize(safetensors_header_bytes(header, file_bytes, path_.string()));
  read_at(0, header);
  table_ = parse_safetensors_header(header, file_bytes, path_.string());
}

void SafetensorsFile::read(const TensorEntry& tensor, std::span<std::byte> out) const {
  DDPRUN_ASSERT(out.size() == tensor.end - tensor.begin, "room for the tensor's bytes");
  read_at(tensor.begin, out);
}

void SafetensorsFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path_, std::strerror(errno));
    if (got == 0) refuse(path_, "became shorter while it was read");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string other_weights_text(std::span<const std::byte> start, const std::string& file) {
  if (start.size() < kStartBytes) return "";
  const std::string_view text(reinterpret_cast<const char*>(start.data()), kStartBytes);
  if (text == "version "sv) {
    return "a Git LFS pointer, which only names the file: run git lfs pull, or download the file "
           "itself";
  }
  if (text.starts_with("PK\x03\x04"sv))
    return "a zip archive, as torch.save writes it: " + converted(file);
  if (is_pickle(text))
    return "a pickle, as older versions of torch.save write it: " + converted(file);
  if (text.starts_with("\x89HDF"sv))
    return "HDF5, the format of Keras: give weights of PyTorch as safetensors";
  if (text.starts_with("\x1f\x8b"sv)) return "packed with gzip: unpack it";
  if (!is_text(text)) return "";
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), kStartBytes - 1);
  return text[first] == '<'
             ? "a page of HTML, perhaps of a download that failed: download the file again"
             : "a text: give the file with the tensors";
}

}  // namespace ddprun::trainer
