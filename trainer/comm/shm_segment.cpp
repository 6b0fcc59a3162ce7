#include "trainer/comm/shm_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

namespace ddprun::trainer {
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
