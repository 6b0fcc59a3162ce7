// Memory shared between processes without a name: a memfd, opened by others through /proc. The
// kernel frees it with the last process that maps it, however that one ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::trainer {

/// A mapping of a whole memfd. Move-only; unmaps and closes.
class SharedSegment {
 public:
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  /// A new segment of `bytes` zeroes.
  static Result<SharedSegment> create(std::size_t bytes);

  /// The segment behind descriptor `fd` of process `pid`. An error of the system, or no_such_device
  /// when what is there has another inode or size, so that it is not the segment that was
  /// announced.
  static Result<SharedSegment> open(pid_t pid, int fd, std::size_t bytes, std::uint64_t inode);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The descriptor, while it is open; others need it until they have mapped the segment.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t inode() const { return inode_; }
  void close_fd() { fd_.reset(); }

 private:
  static Result<SharedSegment> map(UniqueFd fd, std::size_t bytes);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t inode_ = 0;
};

}  // namespace ddprun::trainer
