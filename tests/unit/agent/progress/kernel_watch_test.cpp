// Workers that wait in the kernel: what /proc tells of it, and for how long it counts.
#include "agent/progress/progress_watch.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "agent/progress/thread_states.hpp"
#include "tests/support/temp_dir.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("one wait in the kernel is a hang after the time-out, and several short ones are not") {
  KernelWatch watch(2, 2s);
  CHECK_FALSE(watch.look({7, 7}, 1s));  // they may just have begun
  CHECK_FALSE(watch.look({7, 8}, 1s));
  CHECK(watch.look({7, 9}, 1s) == KernelWait{0, 2s});
  CHECK_FALSE(watch.look({std::nullopt, 9}, 1s));
  CHECK(watch.look({7, 9}, 1s) == KernelWait{1, 2s});  // and rank 0 begins anew
  CHECK(watch.look({7, 9}, 1s) == KernelWait{1, 3s});
  CHECK_FALSE(watch.look({std::nullopt, std::nullopt}, 9s));
}

TEST_CASE("a wait in the kernel has a number, and a sleep has none") {
  const test::TempDir proc;
  std::filesystem::create_directory(proc / "5");
  const auto seen = [&proc](const std::string& state, const std::string& waits) {
    std::ofstream((proc / "5/status").string())
        << "Name:\tpython3\nState:\t" << state << "\nvoluntary_ctxt_switches:\t" << waits
        << "\nnonvoluntary_ctxt_switches:\t3\n";
    return kernel_wait_of(5, proc.path().string());
  };
  CHECK(seen("D (disk sleep)", "41") == std::uint64_t{41});
  CHECK_FALSE(seen("S (sleeping)", "41"));
  CHECK_FALSE(seen("R (running)", "41"));
  CHECK_FALSE(kernel_wait_of(6, proc.path().string()));
}
