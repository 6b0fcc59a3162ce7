// A program of its own, of the release build: a sanitizer keeps operator new for itself.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/start_thread.hpp"

using namespace ddprun;

namespace {

thread_local bool no_memory = false;

}  // namespace

// Not inline: g++ would see memory of new that free takes back.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* memory = no_memory ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("a thread for which there is no memory is an error and leaves no signal blocked") {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::function<void()> body = [] {};
  no_memory = true;
  const auto thread = start_thread("tester", std::move(body));
  no_memory = false;
  REQUIRE_FALSE(thread.has_value());
  CHECK(thread.error().value() == ENOMEM);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  CHECK(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));
}
