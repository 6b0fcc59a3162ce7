#include "base/no_descriptor.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace ddprun {

bool no_descriptor(const ErrorCode& error) {
  const int value = error.value();
  return value == EMFILE || value == ENFILE || value == ENOBUFS || value == ENOMEM;
}

std::string why_no_descriptor(const ErrorCode& error) {
  switch (error.value()) {
    case EMFILE:
      return fmt::format("{}; raise the limit of open files (ulimit -n)", error.message());
    case ENFILE:
      return fmt::format("{}; raise the machine's limit of open files (sysctl fs.file-max)",
                         error.message());
    case ENOSPC:  // of epoll_ctl
      return "too many watched descriptors; raise the limit (sysctl fs.epoll.max_user_watches)";
    default:
      return error.message();
  }
}

}  // namespace ddprun
