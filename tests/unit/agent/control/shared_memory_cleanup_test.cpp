// Whose shared memory is removed after a round.
#include "agent/control/descendants.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;

namespace {

/// A round of one worker, which has ended.
class RoundWithMemory {
 public:
  explicit RoundWithMemory(int code) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(code);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    worker.pid = child;
    worker.exit = ExitStatus{false, code, false};
    cleanup.begin_round(std::chrono::system_clock::now(), false);
    cleanup.note_end(child);
    for (const char* end : {"_7_0", "_7_1"})
      std::ofstream(folder / ("torch_" + std::to_string(child) + end)) << "tensor";
  }

  /// How many calls removed a file.
  int remove_all() {
    int calls = 0;
    while (!cleanup.remove_next()) ++calls;
    return calls;
  }

  test::TempDir folder;
  agent::SharedMemoryCleanup cleanup{folder.path().string()};
  agent::WorkerRecord worker;
};

}  // namespace

TEST_CASE("shared memory of a failed round is removed, one file a call") {
  RoundWithMemory round(1);
  CHECK(round.cleanup.remove_next());  // before the round has ended
  round.cleanup.end_round({round.worker});
  CHECK(round.remove_all() == 2);
  CHECK(std::filesystem::is_empty(round.folder.path()));
}

TEST_CASE("after a round that ended in order no shared memory is looked for") {
  RoundWithMemory round(0);
  SECTION("its workers alone have ended") {
    round.cleanup.end_round({round.worker});
    CHECK(round.remove_all() == 0);
  }
  SECTION("another process of it has ended, too") {
    round.cleanup.note_end(round.worker.pid + 1);
    round.cleanup.end_round({round.worker});
    CHECK(round.remove_all() == 2);
  }
}

TEST_CASE("without a round no shared memory is removed") {
  agent::SharedMemoryCleanup cleanup;
  cleanup.note_end(1);
  cleanup.end_round({});
  CHECK(cleanup.remove_next());
}
