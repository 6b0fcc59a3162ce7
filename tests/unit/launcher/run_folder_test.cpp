// The folders of dead jobs are removed. Others stay: folders of living jobs, folders that are just
// being made, those of other users, and those that only have such a name.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "launcher/run_folder.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
namespace fs = std::filesystem;

namespace {

/// A folder in memory, as /dev/shm is.
class MemoryFolder {
 public:
  MemoryFolder() {
    path_ = "/dev/shm/ddprun_test_XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) test::skip("no folder can be made in /dev/shm");
  }
  ~MemoryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The folder of a job that was killed, with a file in it.
std::string dead_folder(const std::string& base) {
  const launcher::RunFolder made = launcher::make_run_folder(base);
  std::ofstream(made.path + "/error.json") << "{}";
  return made.path;
}

}  // namespace

TEST_CASE("the run folder of a dead job is removed, that of a live one stays") {
  const MemoryFolder base;
  const auto live = launcher::make_run_folder(base.path());
  CHECK_FALSE(launcher::has_other_run_folders(live.path));
  const std::string dead = dead_folder(base.path());
  CHECK(launcher::has_other_run_folders(live.path));
  launcher::remove_dead_run_folders(base.path());
  CHECK(fs::is_directory(live.path));
  CHECK_FALSE(fs::exists(dead));
}

TEST_CASE("a run folder stays while one of its two processes lives") {
  const MemoryFolder base;
  int release[2];
  REQUIRE(pipe(release) == 0);
  std::string path;
  pid_t agent = -1;
  {
    const auto folder = launcher::make_run_folder(base.path());
    path = folder.path;
    agent = fork();
    REQUIRE(agent >= 0);
    if (agent == 0) {
      char byte = 0;
      close(release[1]);
      _exit(read(release[0], &byte, 1) == 0 ? 0 : 1);
    }
  }
  launcher::remove_dead_run_folders(base.path());
  CHECK(fs::is_directory(path));
  close(release[1]);
  REQUIRE(waitpid(agent, nullptr, 0) == agent);
  launcher::remove_dead_run_folders(base.path());
  CHECK_FALSE(fs::exists(path));
  close(release[0]);
}

TEST_CASE("what only looks like a run folder is not removed") {
  const MemoryFolder base;
  const std::string elsewhere = base.path() + "/elsewhere";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere + "/mine") << "x";
  fs::create_directory_symlink(elsewhere, base.path() + "/ddprun_aaaaaa");
  std::ofstream(base.path() + "/ddprun_bbbbbb") << "x";
  fs::create_directory(base.path() + "/ddprun_job_7");
  fs::create_directory(base.path() + "/ddprun_none_abcdef");
  fs::create_directory(base.path() + "/other_cccccc");
  launcher::remove_dead_run_folders(base.path());
  for (const std::string name : {"elsewhere/mine", "ddprun_aaaaaa", "ddprun_bbbbbb", "ddprun_job_7",
                                 "ddprun_none_abcdef", "other_cccccc"})
    CHECK(fs::exists(fs::symlink_status(base.path() + "/" + name)));
}

TEST_CASE("a folder of the user's with the name of a run folder is not removed") {
  const MemoryFolder base;
  for (const std::string name : {"mydata", "models"}) {
    const std::string folder = base.path() + "/ddprun_" + name;
    fs::create_directory(folder);
    std::ofstream(folder + "/weights") << "x";
  }
  const std::string linked = base.path() + "/ddprun_linked";
  fs::create_directory(linked);
  fs::create_symlink("../ddprun_models/weights", linked + "/.ddprun-run");
  launcher::remove_dead_run_folders(base.path());
  CHECK(fs::exists(base.path() + "/ddprun_mydata/weights"));
  CHECK(fs::exists(base.path() + "/ddprun_models/weights"));
  CHECK(fs::is_directory(linked));
}

TEST_CASE("another user's run folder is not removed") {
  if (geteuid() != 0) test::skip("only root can give a folder away");
  const MemoryFolder base;
  const std::string foreign = dead_folder(base.path());
  REQUIRE(chown(foreign.c_str(), 12'345, 12'345) == 0);
  launcher::remove_dead_run_folders(base.path());
  CHECK(fs::exists(foreign + "/error.json"));
}

TEST_CASE("what a removal that failed has left of a run folder is removed later") {
  const MemoryFolder base;
  fs::permissions(base.path(), fs::perms::all);
  const bool is_root = geteuid() == 0;
  if (is_root) REQUIRE(seteuid(12'345) == 0);  // root may remove from any folder
  const std::string dead = dead_folder(base.path());
  const std::string stubborn = dead + "/stubborn";
  fs::create_directory(stubborn);
  std::ofstream(stubborn + "/file") << "x";
  fs::permissions(stubborn, fs::perms::owner_read | fs::perms::owner_exec);
  launcher::remove_dead_run_folders(base.path());
  CHECK(fs::exists(dead + "/.ddprun-run"));
  fs::permissions(stubborn, fs::perms::owner_all);
  launcher::remove_dead_run_folders(base.path());
  CHECK_FALSE(fs::exists(dead));
  if (is_root) REQUIRE(seteuid(0) == 0);
}

TEST_CASE("a job that is just starting keeps its run folder while others look for dead ones") {
  const MemoryFolder base;
  std::atomic<bool> over = false;
  std::thread looking([&] {
    while (!over) launcher::remove_dead_run_folders(base.path());
  });
  for (int i = 0; i < 500; ++i) {
    const auto folder = launcher::make_run_folder(base.path());
    REQUIRE(!folder.path.empty());
    launcher::remove_dead_run_folders(base.path());
    REQUIRE(fs::is_directory(folder.path));
  }
  over = true;
  looking.join();
}
