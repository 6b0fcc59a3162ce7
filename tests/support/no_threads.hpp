// A system that refuses to start threads, as at the limit of processes (which root has none of).
#pragma once

#include <pthread.h>

#include <string>
#include <vector>

#include "tests/support/skip.hpp"

namespace ddprun::test {

/// For this process, while it lives: no address space is large enough for a thread's stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 50);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

/// The command in such a way that it and all that it starts can start no threads; it exits with 99
/// where that can't be arranged.
inline std::vector<std::string> without_threads(const std::vector<std::string>& command) {
#if defined(__SANITIZE_THREAD__)
  // The kernel leaves so much room for the stack that other memory lies where TSan wants its own.
  skip("ThreadSanitizer does not start under a huge stack limit");
#endif
  std::vector<std::string> words{"/bin/sh", "-c", "ulimit -s 1099511627776 || exit 99; exec \"$@\"",
                                 "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace ddprun::test
