#include "trainer/comm/shm_layout.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/rounded_up.hpp"
#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLineFloats = 64 / sizeof(float);
constexpr std::size_t kChunkFloatsMin =
    (16u << 10) / sizeof(float);  // below, sharing out costs more than it saves
constexpr std::size_t kChunkFloats = (512u << 10) / sizeof(float);  // where there is enough of it

std::size_t pages(std::size_t bytes) { return rounded_up(bytes, kPage); }

}  // namespace

Chunks::Chunks(Range whole, int world_size) : range(whole) {
  const std::size_t floats = whole.end - whole.begin;
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t one_each = std::min(ranks, (floats + kChunkFloatsMin - 1) / kChunkFloatsMin);
  count = static_cast<int>(std::clamp(floats / kChunkFloats, one_each, ranks * kChunksPerRank));
}

Range Chunks::chunk(int index) const {
  const auto cut = [&](int at) {
    if (at == 0) return range.begin;
    if (at == count) return range.end;
    const std::size_t floats = range.end - range.begin;
    const std::size_t end =
        range.begin + floats * static_cast<std::size_t>(at) / static_cast<std::size_t>(count);
    return std::max(range.begin, end / kLineFloats * kLineFloats);
  };
  return {cut(index), cut(index + 1)};
}

SegmentLayout::SegmentLayout(int rank, int world_size, int shards, std::size_t arena_floats) {
  std::size_t at = kRankBlockBytes;
  chunk_words = at;
  if (rank == 0) {
    at +=
        pages(sizeof(Word64) * kStartedMax * static_cast<std::size_t>(world_size) * kChunksPerRank);
  }
  staging = at;
  at += 2 * kStagingHalfBytes;
  arenas = at;
  arena_stride = pages(arena_floats * sizeof(float));
  slots = static_cast<int>(local_nodes(shards, shard_run(shards, world_size, rank)).size());
  bytes = arenas + static_cast<std::size_t>(slots) * arena_stride;
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      inode_(other.inode_) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(inode_, other.inode_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<SharedSegment> SharedSegment::create(std::size_t bytes) {
  UniqueFd fd(::memfd_create("ddprun-gradients", MFD_CLOEXEC));
  if (!fd) return last_system_error();
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return last_system_error();
  return map(std::move(fd), bytes);
}

Result<SharedSegment> SharedSegment::open(pid_t pid, int fd, std::size_t bytes,
                                          std::uint64_t inode) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  UniqueFd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) return last_system_error();
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) return last_system_error();
  if (status.st_ino != inode || static_cast<std::size_t>(status.st_size) != bytes) {
    return ErrorCode(ENODEV, boost::system::system_category());
  }
  Result<SharedSegment> segment = map(std::move(opened), bytes);
  if (segment) segment->close_fd();
  return segment;
}

Result<SharedSegment> SharedSegment::map(UniqueFd fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return last_system_error();
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return last_system_error();
#ifdef MADV_POPULATE_WRITE
  // Pages are entered here, not one by one in the first steps. Older kernels refuse: then they are.
  (void)::madvise(data, bytes, MADV_POPULATE_WRITE);
#endif
  SharedSegment segment;
  segment.fd_ = std::move(fd);
  segment.data_ = static_cast<std::byte*>(data);
  segment.bytes_ = bytes;
  segment.inode_ = status.st_ino;
  return segment;
}

}  // namespace ddprun::trainer
