// Which files of shared memory count as left by the dead.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/unique_handle.hpp"
#include "machine/processes/shared_memory.hpp"
#include "tests/support/skip.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using machine::maker_of_shared_memory;
namespace fs = std::filesystem;

namespace {

/// In memory, with files of a process that has ended.
class SharedMemory {
 public:
  SharedMemory() {
    path_ = "/dev/shm/ddprun_test_XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) test::skip("no folder can be made in /dev/shm");
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(0);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    ended = {{child}, std::chrono::system_clock::now()};
  }
  ~SharedMemory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// `torch_PID_7_0`, of the dead process unless another one is named.
  std::string make(pid_t maker = 0) const {
    std::string file =
        path_ + "/torch_" + std::to_string(maker != 0 ? maker : *ended.pids.begin()) + "_7_0";
    std::ofstream(file) << "tensor";
    return file;
  }
  [[nodiscard]] int remove() const { return machine::remove_shared_memory_of(ended, path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

  machine::EndedProcesses ended;

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("the names of shared memory tell who made it") {
  CHECK(maker_of_shared_memory("torch_4242_1093772311_0") == 4242);
  CHECK(maker_of_shared_memory("torch_4242_1093772311") == 4242);
  CHECK(maker_of_shared_memory("pym-77-ab_cd12x") == 77);
  CHECK(maker_of_shared_memory("sem.loky-9-x8a7") == 9);
  for (const char* other :
       {"torch_", "torch_4242", "torch_x_1", "torch_-5_1_0", "torch_0_1_0", "torch_99999999999_1_0",
        "torch__1", "psm_1a2b3c4d", "sem.mp-x8a7", "nccl-Ab12Cd", "mytorch_5_1_0", ""}) {
    INFO(other);
    CHECK_FALSE(maker_of_shared_memory(other));
  }
}

TEST_CASE("shared memory of a process that has ended is removed, with nothing else") {
  const SharedMemory memory;
  const std::string left = memory.make();
  const std::string of_another = memory.make(1);
  std::ofstream(memory.path() + "/psm_1a2b3c4d") << "x";
  CHECK(memory.remove() == 1);
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(of_another));
  CHECK(fs::exists(memory.path() + "/psm_1a2b3c4d"));
}

TEST_CASE("shared memory is removed file by file") {
  const SharedMemory memory;
  const std::string left = memory.make();
  fs::copy_file(left, left + "_1");
  machine::SharedMemoryRemoval removal(memory.ended, memory.path());
  CHECK(removal.remove_next());
  CHECK(fs::exists(left) != fs::exists(left + "_1"));
  CHECK(removal.remove_next());
  CHECK_FALSE(removal.remove_next());
  CHECK(removal.removed() == 2);
  CHECK(fs::is_empty(memory.path()));
}

TEST_CASE("shared memory that a process has open or mapped stays") {
  const SharedMemory memory;
  const std::string file = memory.make();
  UniqueFd opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(opened);
  CHECK(memory.remove() == 0);
  void* mapped = mmap(nullptr, 6, PROT_READ, MAP_SHARED, opened.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  opened.reset();
  CHECK(memory.remove() == 0);
  CHECK(fs::exists(file));
  munmap(mapped, 6);
  CHECK(memory.remove() == 1);
}

TEST_CASE("shared memory of a process that had the number earlier or has it now stays") {
  SharedMemory memory;
  const std::string earlier = memory.make();
  memory.ended.since += 10s;
  CHECK(memory.remove() == 0);
  memory.ended.pids = {getpid()};
  memory.ended.since -= 20s;
  const std::string ours = memory.make(getpid());
  CHECK(memory.remove() == 0);
  CHECK(fs::exists(earlier));
  CHECK(fs::exists(ours));
}

TEST_CASE("a link, a pipe or another user's file is not taken for shared memory") {
  const SharedMemory memory;
  const std::string file = memory.make();
  const std::string elsewhere = memory.path() + "/elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  CHECK(memory.remove() == 0);
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK(memory.remove() == 0);
  fs::remove(file);
  if (geteuid() != 0) return;
  fs::rename(elsewhere, file);
  REQUIRE(chown(file.c_str(), 12'345, 12'345) == 0);
  CHECK(memory.remove() == 0);
  CHECK(fs::exists(file));
}
