#include "trainer/checkpoint/safetensors_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/assert.hpp"
#include "base/open_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

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

}  // namespace

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

}  // namespace ddprun::trainer
