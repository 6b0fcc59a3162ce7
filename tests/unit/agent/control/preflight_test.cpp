// What is made of a check's output and of how it ended.
#include "agent/control/node_checks.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;
using agent::PreflightLines;
using agent::why_unsound;
using machine::HelperResult;
using Lines = std::vector<std::string>;

TEST_CASE("the output of a check is taken to lines, however it comes") {
  PreflightLines lines;
  CHECK(lines.add("GPU 0: o").empty());
  CHECK(lines.add("k\r\nGPU 1: ok\n\nGPU") == Lines{"GPU 0: ok", "GPU 1: ok", ""});
  CHECK(lines.add("").empty());
  CHECK(lines.rest() == "GPU");
  CHECK(lines.rest().empty());
  CHECK(lines.add("\n") == Lines{""});
}

TEST_CASE("a very long line of a check is cut") {
  PreflightLines lines;
  const std::string piece(3000, 'x');
  CHECK(lines.add(piece).empty());
  CHECK(lines.add(piece).empty());
  CHECK(lines.add(piece + "\nnext\n") == Lines{std::string(agent::kPreflightLineMax, 'x'), "next"});
}

TEST_CASE("why a check failed: its end and its last line") {
  HelperResult result;
  result.in_time = true;
  result.exit = ExitStatus{false, 0, false};
  CHECK(why_unsound(result, 5min, "all well").empty());
  result.exit = ExitStatus{false, 3, false};
  CHECK(why_unsound(result, 5min, "GPU 3:\tno answer") == "exited with code 3: GPU 3:\\tno answer");
  CHECK(why_unsound(result, 5min, "") == "exited with code 3");
  result.exit = ExitStatus{true, 9, false};
  CHECK(why_unsound(result, 5min, "") == "killed by SIGKILL (signal 9)");
  result.exit.reset();
  CHECK(why_unsound(result, 5min, "") == "its exit is not known");
  result.in_time = false;
  CHECK(why_unsound(result, 90s, "test 2") ==
        "not finished within 1 min 30 s (--preflight-timeout): test 2");
  result.problem = "Too many open files";
  CHECK(why_unsound(result, 90s, "") == "/bin/sh cannot be started: Too many open files");
}
