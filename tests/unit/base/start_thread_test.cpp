#include "base/start_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "tests/support/no_threads.hpp"

using namespace ddprun;

TEST_CASE("a thread has its name and gets no signals, and ours are as before") {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::string name(16, '\0');
  sigset_t blocked;
  auto thread = start_thread("tester", [&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  });
  REQUIRE(thread.has_value());
  thread->join();
  CHECK(std::string(name.c_str()) == "tester");
  CHECK(sigismember(&blocked, SIGTERM) == 1);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  CHECK(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));
}

TEST_CASE("a thread that the system refuses is an error that says what to do") {
  const test::NoThreads none;
  bool ran = false;
  const auto thread = start_thread("tester", [&ran] { ran = true; });
  REQUIRE_FALSE(thread.has_value());
  CHECK_FALSE(ran);
  CHECK(why_no_thread(thread.error()) ==
        "no thread can be started: Resource temporarily unavailable; raise the limit of processes "
        "(ulimit -u, pids.max)");
}
