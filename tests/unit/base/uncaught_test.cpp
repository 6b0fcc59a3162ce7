#include "base/program_main.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/system/system_error.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

using namespace ddprun;

namespace {

struct Ending {
  int status = 0;
  std::string said;
};

/// What a program says on stderr, and how it ends, when one of its threads does this.
Ending ending_of(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    end_on_uncaught_exception("tester", 70);
    std::thread(body).join();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  std::array<char, 1024> part{};
  for (ssize_t count = 0; (count = read(ends[0], part.data(), part.size())) > 0;)
    ending.said.append(part.data(), static_cast<std::size_t>(count));
  close(ends[0]);
  waitpid(child, &ending.status, 0);
  return ending;
}

}  // namespace

TEST_CASE("an exception that is not caught ends the program with one line and its exit code") {
  const Ending ending = ending_of([] { throw std::runtime_error("the reason"); });
  CHECK(ending.said == "tester: internal error: the reason\n");
  REQUIRE(WIFEXITED(ending.status));
  CHECK(WEXITSTATUS(ending.status) == 70);
}

TEST_CASE("a program that gets no memory says so and what to look at") {
  const Ending ending = ending_of([] { throw std::bad_alloc(); });
  CHECK(ending.said ==
        "tester: out of memory; raise its limit (ulimit -v, the container's memory)\n");
  REQUIRE(WIFEXITED(ending.status));
  CHECK(WEXITSTATUS(ending.status) == 70);
}

TEST_CASE("a program that may open no more files says so and what to raise") {
  const Ending ending = ending_of(
      [] { throw boost::system::system_error(EMFILE, boost::system::system_category(), "epoll"); });
  CHECK(ending.said == "tester: Too many open files; raise the limit of open files (ulimit -n)\n");
  CHECK(WEXITSTATUS(ending.status) == 70);
}

TEST_CASE("an exception with a text longer than a line's room is cut") {
  const Ending ending = ending_of([] { throw std::runtime_error(std::string(5000, 'x')); });
  CHECK(ending.said.size() < 600);
  CHECK(ending.said.back() == '\n');
}
