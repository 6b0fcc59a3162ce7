#include "trainer/checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/open_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

// A single write() is limited to 2 GiB by the kernel.
constexpr std::size_t kWriteBytesMax = std::size_t{1} << 30;

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

}  // namespace

UniqueFd open_in_output(const std::filesystem::path& path, int access) {
  Result<UniqueFd> opened = open_own_file(path, access, 0666);
  if (!opened) throw std::system_error(opened.error(), path.string());
  return std::move(*opened);
}

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start) {
  return static_cast<std::uint32_t>(
      crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

DurableFile::DurableFile(const std::filesystem::path& path)
    : path_(path), fd_(open_in_output(path, O_WRONLY | O_CREAT | O_EXCL)) {
  digest_.name = path.filename().string();
}

void DurableFile::write(std::span<const std::byte> bytes) {
  digest_.crc32 = crc32_of(bytes, digest_.crc32);
  digest_.bytes += bytes.size();
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kWriteBytesMax));
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;
    if (done <= 0) fail(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

FileDigest DurableFile::finish() {
  if (::fsync(fd_.get()) != 0) fail(path_);
  // close() is where some network file systems report that the disk is full.
  if (::close(fd_.release()) != 0) fail(path_);
  return digest_;
}

void sync_directory(const std::filesystem::path& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) fail(directory);
  // Some file systems cannot sync a directory and say so; then there is nothing more to do.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail(directory);
}

std::vector<std::byte> read_whole(const std::filesystem::path& path, std::uint64_t bytes_max) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format("{}: {}", path.string(), why));
  };
  const Result<UniqueFd> opened = open_own_file(path, O_RDONLY);
  if (!opened) refuse(opened.error().message());
  const UniqueFd& fd = *opened;
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) refuse(std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > bytes_max) refuse(fmt::format("{} bytes; at most {} are expected", size, bytes_max));
  std::vector<std::byte> bytes(size);
  std::size_t used = 0;
  while (used < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(std::strerror(errno));
    if (got == 0) refuse("became shorter while it was read");
    used += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace ddprun::trainer
