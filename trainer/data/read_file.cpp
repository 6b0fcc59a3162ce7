#include "trainer/data/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/lower_case.hpp"
#include "base/open_file.hpp"
#include "base/unique_handle.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

using Bytes = std::vector<std::uint8_t>;

struct GzClose {
  void operator()(gzFile file) const noexcept { gzclose(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, GzClose>;

[[noreturn]] void refuse_at(const std::string& file, std::size_t offset, const std::string& why) {
  throw DataError(fmt::format("{}: offset {}: {}", file, offset, why));
}

[[noreturn]] void fail(const std::string& file) {
  throw DataError(fmt::format("{}: {}", file, std::strerror(errno != 0 ? errno : ENOMEM)));
}

/// From its beginning. By the descriptor, as a pipe may have taken the name by now.
GzHandle open_gzip(UniqueFd file) {
  errno = 0;
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return nullptr;
  GzHandle handle(gzdopen(file.get(), "rb"));
  if (handle) static_cast<void>(file.release());
  return handle;
}

/// Grown as bytes arrive, never by what a header claims.
Bytes unpack(UniqueFd opened, const std::string& file, std::uint64_t bytes_max) {
  const GzHandle handle = open_gzip(std::move(opened));
  if (!handle) fail(file);
  gzbuffer(handle.get(), 1U << 17);
  Bytes bytes;
  std::size_t used = 0;
  while (true) {
    if (bytes.size() == used) bytes.resize(std::max(2 * bytes.size(), 2 * kChunkBytes));
    const std::size_t room = std::min(kChunkBytes, bytes.size() - used);
    const int got = gzread(handle.get(), bytes.data() + used, static_cast<unsigned>(room));
    int code = Z_OK;
    const char* message = gzerror(handle.get(), &code);
    if (got > 0) used += static_cast<std::size_t>(got);
    if (code == Z_BUF_ERROR) refuse_at(file, used, "the gzip data is cut short");
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      refuse_at(
          file, used,
          code == Z_ERRNO ? std::strerror(errno) : fmt::format("damaged gzip data ({})", message));
    }
    if (used > bytes_max) refuse_at(file, used, fmt::format("more than {} bytes", bytes_max));
    if (got == 0) break;
  }
  // zlib 1.3.2 takes what is damaged at its very beginning for the end of the file.
  if (used == 0) refuse_at(file, used, "damaged gzip data (nothing could be unpacked)");
  bytes.resize(used);
  if (bytes.capacity() - used > kChunkBytes) bytes.shrink_to_fit();
  return bytes;
}

bool is_gzip(const Bytes& start, std::size_t size) {
  return size >= 2 && start[0] == 0x1f && start[1] == 0x8b;
}

}  // namespace

Bytes read_start(const std::filesystem::path& file, std::size_t count) {
  Result<UniqueFd> opened = open_named_file(file, O_RDONLY);
  const GzHandle handle = opened ? open_gzip(std::move(*opened)) : nullptr;
  Bytes bytes(count);
  const int got = handle ? gzread(handle.get(), bytes.data(), static_cast<unsigned>(count)) : 0;
  bytes.resize(static_cast<std::size_t>(std::max(got, 0)));
  return bytes;
}

Bytes read_file_or_gzip(const std::string& file, std::uint64_t bytes_max) {
  Result<UniqueFd> opened = open_named_file(file, O_RDONLY);
  if (opened.has_error() && opened.error() == FileErrc::not_regular)
    throw DataError(fmt::format("{}: not a regular file: put a file there, or remove it", file));
  if (!opened) throw DataError(fmt::format("{}: {}", file, opened.error().message()));
  const UniqueFd& handle = *opened;
  struct stat status {};
  if (::fstat(handle.get(), &status) != 0) fail(file);

  // At first a chunk, as the file may be gzipped; then the room for all of it, as bytes that are
  // copied on the way are held twice. In both, room for a byte that shows its end.
  const std::uint64_t size = std::min(static_cast<std::uint64_t>(status.st_size), bytes_max);
  Bytes bytes(std::min(static_cast<std::size_t>(size) + 1, kChunkBytes));
  std::size_t used = 0;
  while (true) {
    const ssize_t got = ::read(handle.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0) refuse_at(file, used, std::strerror(errno));
    if (got == 0) break;
    if (used == 0 && is_gzip(bytes, static_cast<std::size_t>(got)))
      return unpack(std::move(*opened), file, bytes_max);
    used += static_cast<std::size_t>(got);
    if (used > bytes_max) refuse_at(file, used, fmt::format("more than {} bytes", bytes_max));
    // Twice as much where the file has grown.
    if (bytes.size() == used)
      bytes.resize(used <= size ? static_cast<std::size_t>(size) + 1 : 2 * used);
  }
  bytes.resize(used);
  return bytes;
}

std::vector<FolderEntry> list_folder(const std::filesystem::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code ignored;
    entries.push_back(
        {.name = it->path().filename().string(), .is_folder = it->is_directory(ignored)});
  }
  if (failed) throw DataError(fmt::format("{}: {}", folder.string(), failed.message()));
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

std::string held_out_by_other_name(const std::filesystem::path& folder, const std::string& ending) {
  constexpr std::array kNames{"val",  "valid",      "validation", "dev",      "test",
                              "eval", "evaluation", "testing",    "held-out", "holdout"};
  for (const FolderEntry& entry : list_folder(folder)) {
    const std::string typed = entry.name + (entry.is_folder ? "/" : "");
    const std::string name = lower_case(typed);
    const auto is_name = [&](const char* known) { return name == known + ending; };
    if (std::any_of(kNames.begin(), kNames.end(), is_name)) return typed;
  }
  return "";
}

}  // namespace ddprun::trainer
