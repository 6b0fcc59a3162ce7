// Opening files where others may have put something else in their place: a link, a pipe, a device;
// and pipes of our own.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <string>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun {

enum class FileErrc {
  not_regular = 1,
  symbolic_link,
};

ErrorCode make_error_code(FileErrc code) noexcept;

/// Opens a regular file that the user has named: links are followed. Never waits, neither for the
/// other end of a pipe nor for a device. `access` and `mode` are those of open(); `folder`: that of
/// a relative path. The error is the system's, or FileErrc::not_regular.
Result<UniqueFd> open_named_file(const std::string& path, int access, mode_t mode = 0,
                                 int folder = AT_FDCWD);

/// Opens a file as open_named_file does, but in a folder that a program of ours writes: a symbolic
/// link of this name is refused with FileErrc::symbolic_link. Links in the folder's own path are
/// followed.
Result<UniqueFd> open_own_file(const std::string& path, int access, mode_t mode = 0,
                               int folder = AT_FDCWD);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

/// Both ends are closed by exec. Errors: the system's.
Result<Pipe> make_pipe();

}  // namespace ddprun

template <>
struct boost::system::is_error_code_enum<ddprun::FileErrc> : std::true_type {};
