// What /proc tells of a process's threads.
#include "agent/progress/thread_states.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("without a debugger a thread's state and wait channel and system call are shown") {
  const test::TempDir proc;
  for (const std::string thread : {"100", "99"}) {
    const auto folder = proc / ("7/task/" + thread);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "comm") << "tr\x1b"
                                   << "ain\n";
    std::ofstream(folder / "status") << "Name:\tx\nState:\tS (sleeping)\nTracerPid:\t0\n";
    std::ofstream(folder / "wchan") << (thread == "99" ? "futex_wait_queue" : "0");
    std::ofstream(folder / "syscall") << (thread == "99" ? "202 0x1 0x2" : "running");
  }
  CHECK(thread_states(7, proc.path().string()) ==
        std::vector<std::string>{
            "thread 99 (tr?ain): S (sleeping), waits in futex_wait_queue, system call 202",
            "thread 100 (tr?ain): S (sleeping)"});
  std::ofstream(proc / "7/status") << "Name:\tx\nTracerPid:\t12\nUid:\t0\n";
  CHECK(tracer_of(7, proc.path().string()) == 12);
  CHECK(tracer_of(8, proc.path().string()) == 0);
  CHECK(tracer_of(getpid()) == 0);
  CHECK(thread_states(8, proc.path().string()).empty());
  CHECK_FALSE(thread_states(getpid()).empty());
}

TEST_CASE("a process waits for stdin if one of its threads reads it or selects it alone") {
  const test::TempDir proc;
  const auto waits = [&](const std::string& call) {
    for (const std::string thread : {"7", "8"}) {
      const auto folder = proc / "7/task" / thread;
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "syscall") << (thread == "8" ? call : "202 0x0 0x2") << '\n';
    }
    return waits_for_stdin(7, proc.path().string());
  };
  const std::string read = std::to_string(SYS_read);
  const std::string select = std::to_string(SYS_pselect6);
  CHECK(waits(read + " 0x0 0x7faf12df1b03 0x1"));
  CHECK(waits(select + " 0x1 0x7ffd2da2a060 0x0"));
  for (const std::string& other : {read + " 0x3 0x7f", select + " 0x4 0x7f", std::string("running"),
                                   std::string("-1 0x0 0x7f"), std::string()})
    CHECK_FALSE(waits(other));
  CHECK_FALSE(waits_for_stdin(9, proc.path().string()));
}
