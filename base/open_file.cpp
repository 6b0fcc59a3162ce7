#include "base/open_file.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace ddprun {
namespace {

class FileCategory final : public boost::system::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "ddprun.file"; }
  [[nodiscard]] std::string message(int code) const override {
    return static_cast<FileErrc>(code) == FileErrc::symbolic_link
               ? "a symbolic link, which is not followed: remove it"
               : "not a regular file";
  }
};

ErrorCode error_of(int error, int flags) {
  // A socket, or a pipe to be written that no process reads.
  if (error == ENXIO) return FileErrc::not_regular;
  if (error == ELOOP && (flags & O_NOFOLLOW) != 0) return FileErrc::symbolic_link;
  return {error, boost::system::system_category()};
}

Result<UniqueFd> open_regular(int folder, const std::string& path, int flags, mode_t mode) {
  UniqueFd fd(::openat(folder, path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
  if (!fd) return error_of(errno, flags);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return last_system_error();
  if (!S_ISREG(status.st_mode)) return ErrorCode(FileErrc::not_regular);
  // A worker that inherits the file has not asked for this flag.
  ::fcntl(fd.get(), F_SETFL, flags & (O_ACCMODE | O_APPEND));
  return fd;
}

}  // namespace

ErrorCode make_error_code(FileErrc code) noexcept {
  static const FileCategory category;
  return {static_cast<int>(code), category};
}

Result<UniqueFd> open_named_file(const std::string& path, int access, mode_t mode, int folder) {
  return open_regular(folder, path, access, mode);
}

Result<UniqueFd> open_own_file(const std::string& path, int access, mode_t mode, int folder) {
  return open_regular(folder, path, access | O_NOFOLLOW, mode);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return last_system_error();
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace ddprun
