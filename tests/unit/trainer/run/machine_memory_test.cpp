// The machine's memory as the kernel's files tell it, and the limits of cgroups.
#include "trainer/run/machine_memory.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace ddprun::trainer {
namespace {

struct FakeMachine {
  ddprun::test::TempDir root;
  FakeMachine() {
    write("proc/meminfo",
          "MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  600 kB\nSwapTotal:  50 kB\n"
          "SwapFree:  20 kB\n");
    write("proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
          "36 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
  [[nodiscard]] MachineMemory read() const { return machine_memory(root.path()); }
};

constexpr std::uint64_t kKilobyte = 1024;

TEST_CASE("without a cgroup the machine's memory and swap count") {
  const FakeMachine machine;
  const MachineMemory memory = machine.read();
  CHECK(memory.most == 1050 * kKilobyte);
  CHECK(memory.available == 620 * kKilobyte);
  CHECK_FALSE(memory.is_cgroup);
}

TEST_CASE("the least limit of our cgroups counts, and files' pages are given back") {
  const FakeMachine machine;
  const std::string top = "sys/fs/cgroup/";
  SECTION("version 2") {
    machine.write("proc/self/cgroup", "0::/job/worker\n");
    machine.write(top + "job/memory.max", "500000\n");
    machine.write(top + "job/memory.current", "300000\n");
    machine.write(top + "job/memory.stat", "anon 1\ninactive_file 100000\nactive_file 7\n");
    machine.write(top + "job/worker/memory.max", "max\n");
  }
  SECTION("version 1") {
    machine.write("proc/self/cgroup", "3:cpu,cpuacct:/other\n5:memory:/job/worker\n0::/x\n");
    machine.write(top + "memory/job/memory.limit_in_bytes", "500000\n");
    machine.write(top + "memory/job/memory.usage_in_bytes", "300000\n");
    machine.write(top + "memory/job/memory.stat", "total_inactive_file 100000\n");
    machine.write(top + "memory/memory.limit_in_bytes", "9223372036854771712\n");
  }
  SECTION("version 1 beside version 2, where a container shows its own cgroup at the top") {
    machine.write("proc/self/mountinfo",
                  "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n"
                  "36 30 0:33 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    machine.write("proc/self/cgroup", "5:memory:/docker/1\n0::/docker/1\n");
    machine.write(top + "memory/memory.limit_in_bytes", "500000\n");
    machine.write(top + "memory/memory.usage_in_bytes", "200000\n");
  }
  SECTION("in a container that sees the host's path, but only its own top") {
    machine.write("proc/self/cgroup", "0::/host/docker/123\n");
    machine.write(top + "memory.max", "500000\n");
    machine.write(top + "memory.current", "200000\n");
  }
  const MachineMemory memory = machine.read();
  CHECK(memory.most == 500000);
  CHECK(memory.available == 300000);
  CHECK(memory.is_cgroup);
}

TEST_CASE("a cgroup that uses more than its limit has nothing left") {
  const FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "500\n");
  machine.write("sys/fs/cgroup/memory.current", "600\n");
  CHECK(machine.read().available == 0);
}

TEST_CASE("where nothing can be read the memory is unknown") {
  const ddprun::test::TempDir nothing;
  CHECK(machine_memory(nothing.path()).most == 0);
}

}  // namespace
}  // namespace ddprun::trainer
