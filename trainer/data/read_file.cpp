#include "trainer/data/read_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct GzClose {
  void operator()(gzFile file) const noexcept { gzclose(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, GzClose>;

[[noreturn]] void refuse_at(const std::string& file, std::size_t offset, const std::string& why) {
  throw DataError(fmt::format("{}: offset {}: {}", file, offset, why));
}

bool is_other_than_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  return type != std::filesystem::file_type::regular &&
         type != std::filesystem::file_type::not_found;
}

GzHandle open_gzip(const std::filesystem::path& file) {
  errno = 0;
  return GzHandle(gzopen(file.c_str(), "rbe"));
}

}  // namespace

std::vector<std::uint8_t> read_start(const std::filesystem::path& file, std::size_t count) {
  if (is_other_than_file(file)) return {};
  const GzHandle handle = open_gzip(file);
  std::vector<std::uint8_t> bytes(count);
  const int got = handle ? gzread(handle.get(), bytes.data(), static_cast<unsigned>(count)) : 0;
  bytes.resize(static_cast<std::size_t>(std::max(got, 0)));
  return bytes;
}

std::vector<std::uint8_t> read_file_or_gzip(const std::filesystem::path& file,
                                            std::uint64_t bytes_max) {
  const std::string name = file.string();
  if (is_other_than_file(file))
    throw DataError(fmt::format("{}: not a regular file: put a file there, or remove it", name));
  const GzHandle handle = open_gzip(file);
  if (!handle)
    throw DataError(fmt::format("{}: {}", name, std::strerror(errno != 0 ? errno : ENOMEM)));
  gzbuffer(handle.get(), 1U << 17);

  // Of a plain file the room for all of it, as bytes that are copied on the way are held twice, and
  // a byte that shows its end. Else grown as bytes arrive, never by what a header claims.
  std::vector<std::uint8_t> bytes;
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(file, unknown);
  if (!unknown && size <= bytes_max && gzdirect(handle.get()) == 1)
    bytes.resize(static_cast<std::size_t>(size) + 1);
  std::size_t used = 0;
  while (true) {
    if (bytes.size() == used) bytes.resize(std::max(2 * bytes.size(), 2 * kChunkBytes));
    const std::size_t room = std::min(kChunkBytes, bytes.size() - used);
    const int got = gzread(handle.get(), bytes.data() + used, static_cast<unsigned>(room));
    int code = Z_OK;
    const char* message = gzerror(handle.get(), &code);
    if (got > 0) used += static_cast<std::size_t>(got);
    if (code == Z_BUF_ERROR) refuse_at(name, used, "the gzip data is cut short");
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      refuse_at(
          name, used,
          code == Z_ERRNO ? std::strerror(errno) : fmt::format("damaged gzip data ({})", message));
    }
    if (used > bytes_max) refuse_at(name, used, fmt::format("more than {} bytes", bytes_max));
    if (got == 0) break;
  }
  // zlib 1.3.2 takes what is damaged at its very beginning for the end of the file.
  if (used == 0 && gzdirect(handle.get()) == 0)
    refuse_at(name, used, "damaged gzip data (nothing could be unpacked)");
  bytes.resize(used);
  if (bytes.capacity() - used > kChunkBytes) bytes.shrink_to_fit();
  return bytes;
}

}  // namespace ddprun::trainer
