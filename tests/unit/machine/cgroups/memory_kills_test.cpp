#include "machine/cgroups/job_cgroup.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.hpp"

TEST_CASE("the kernel's counters of kills for memory are read from the cgroup first") {
  const ddprun::test::TempDir root;
  std::filesystem::create_directories(root / "proc/self");
  CHECK_FALSE(ddprun::machine::memory_kill_count(root.path().string()).has_value());
  std::ofstream(root / "proc/vmstat") << "nr_free 5\noom_kill 7\n";
  CHECK(ddprun::machine::memory_kill_count(root.path().string()) == 7U);
  std::ofstream(root / "proc/self/cgroup") << "12:cpu:/x\n0::/job/a\n";
  std::ofstream(root / "proc/self/mountinfo")
      << "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
  CHECK(ddprun::machine::memory_kill_count(root.path().string()) == 7U);
  std::filesystem::create_directories(root / "sys/fs/cgroup/job/a");
  std::ofstream(root / "sys/fs/cgroup/job/a/memory.events") << "oom 2\noom_kill 2\n";
  CHECK(ddprun::machine::memory_kill_count(root.path().string()) == 2U);
}
