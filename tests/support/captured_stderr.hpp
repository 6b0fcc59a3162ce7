// What this process writes to stderr meanwhile.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace ddprun::test {

/// What this process's threads print to stderr while `work` runs, which must not throw.
template <class Work>
std::string captured_stderr(const Work& work) {
  std::fflush(stderr);
  const int file = ::memfd_create("stderr", MFD_CLOEXEC);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  work();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
  if (::pread(file, text.data(), text.size(), 0) < 0) text.clear();
  ::close(file);
  return text;
}

}  // namespace ddprun::test
