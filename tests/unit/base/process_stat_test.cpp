#include "base/process_stat.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("a line of /proc/PID/stat is read whatever the name contains") {
  const auto odd = parse_process_stat(
      "12 (a) R 1 (b)) S 3 12 12 0 -1 4228360 0 0 0 0 0 0 0 0 20 0 2 0 4711 0 0\n");
  REQUIRE(odd.has_value());
  CHECK(odd->pid == 12);
  CHECK(odd->name == "a) R 1 (b)");
  CHECK(odd->state == 'S');
  CHECK(odd->parent == 3);
  CHECK(odd->flags == 4228360U);
  CHECK(odd->threads == 2);
  CHECK(odd->start_time == 4711U);
}

TEST_CASE("what is no line of /proc/PID/stat is none") {
  for (const char* garbage : {"", "77", "77 (", ")(", "77 (x)", "77 (x) S", "77 (x) S x",
                              "77 (x) S 1 2 3 4 5 6", "77 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14"})
    CHECK_FALSE(parse_process_stat(garbage).has_value());
}

TEST_CASE("our own line is read and that of no process is not") {
  const auto own = read_process_stat(getpid());
  REQUIRE(own.has_value());
  CHECK(own->pid == getpid());
  CHECK(own->parent == getppid());
  CHECK(own->start_time > 0);
  CHECK_FALSE(read_process_stat(-1).has_value());
}

TEST_CASE("the line of a process that has ended is read until it is reaped") {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(child > 0);
  siginfo_t ended{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  const auto zombie = read_process_stat(child);
  CHECK(waitpid(child, nullptr, 0) == child);
  REQUIRE(zombie.has_value());
  CHECK(zombie->state == 'Z');
  CHECK(zombie->parent == getpid());
  CHECK(zombie->start_time >= read_process_stat(getpid())->start_time);
  CHECK_FALSE(read_process_stat(child).has_value());
}
