// A directory of checkpoints: the newest whole one, publishing, keeping, tidying.
#include "trainer/checkpoint/checkpoint_directory.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <set>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/checkpoint/fixture.hpp"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

const CheckpointLayout kLayout = test::small_layout();

struct Wanted {
  std::int64_t step = 0;
  std::uint64_t sequence = 0;
  std::string lineage = "abc";
  bool best = false;
};

fs::path put(const fs::path& directory, const Wanted& wanted) {
  Snapshot snapshot = test::small_snapshot(kLayout, wanted.step);
  snapshot.state.sequence = wanted.sequence;
  snapshot.state.origin.lineage = wanted.lineage;
  snapshot.state.best = wanted.best;
  PendingCheckpoint pending(directory);
  write_checkpoint(pending.path(), kLayout, snapshot);
  return pending.publish(wanted.step, wanted.best).path;
}

FoundCheckpoint find(const fs::path& directory) {
  return find_newest(directory, kLayout, [](const TrainingState&) { return std::string(); });
}

std::set<std::string> names(const fs::path& directory) {
  std::set<std::string> result;
  for (const auto& entry : fs::directory_iterator(directory)) {
    result.insert(entry.path().filename().string());
  }
  return result;
}

TEST_CASE("a directory that is absent or empty has no checkpoint, and nothing was skipped") {
  const test::TempDir directory;
  CHECK_FALSE(find(directory.path()).snapshot);
  CHECK(find(directory.path()).skipped.empty());
  CHECK_FALSE(find(directory / "absent").snapshot);
  CHECK(find(directory / "absent").sequence_next == 0);
}

TEST_CASE("the newest is the one written last, not the one with most steps") {
  const test::TempDir directory;
  put(directory.path(), {.step = 500, .sequence = 1});
  put(directory.path(), {.step = 20, .sequence = 2});
  const FoundCheckpoint found = find(directory.path());
  REQUIRE(found.snapshot);
  CHECK(found.snapshot->state.step == 20);
  CHECK(found.path.filename() == "step-00000020");
  CHECK(found.sequence_next == 3);
  CHECK(found.skipped.empty());
}

TEST_CASE("newer checkpoints that are torn or foreign are skipped, each with its reason") {
  const test::TempDir directory;
  put(directory.path(), {.step = 10, .sequence = 1});
  const fs::path cut = put(directory.path(), {.step = 20, .sequence = 2});
  put(directory.path(), {.step = 30, .sequence = 3, .lineage = "other"});
  const fs::path stateless = put(directory.path(), {.step = 40, .sequence = 4});
  fs::resize_file(cut / kModelFile, 30);
  fs::remove(stateless / kStateFile);
  const FoundCheckpoint found =
      find_newest(directory.path(), kLayout, [](const TrainingState& state) {
        return state.origin.lineage == "other" ? std::string("of another model") : std::string();
      });
  REQUIRE(found.snapshot);
  CHECK(found.snapshot->state.step == 10);
  REQUIRE(found.skipped.size() == 3);
  CHECK_THAT(found.skipped[0].text(), Contains("step-00000040/state.json: No such file"));
  CHECK_THAT(found.skipped[1].text(), Contains("step-00000030: of another model"));
  CHECK_THAT(found.skipped[2].text(), Contains("step-00000020/model.safetensors: cut short"));
  CHECK(found.sequence_next == 4);
}

TEST_CASE("files and links that look like checkpoints are not followed") {
  const test::TempDir directory;
  const test::TempDir elsewhere;
  const fs::path target = put(elsewhere.path(), {.step = 1, .sequence = 1});
  fs::create_directory_symlink(target, directory / "step-00000009");
  test::write_text(directory / "step-00000010", "a file");
  const FoundCheckpoint found = find(directory.path());
  CHECK_FALSE(found.snapshot);
  CHECK(found.skipped.empty());
}

TEST_CASE("a pipe or a link in the place of a checkpoint's file is named, and not waited for") {
  const test::TempDir directory;
  const test::TempDir elsewhere;
  const char* const name = GENERATE(kStateFile, kModelFile, kOptimizerFile);
  const fs::path file = put(directory.path(), {.step = 1, .sequence = 1}) / name;
  fs::rename(file, elsewhere / name);
  SECTION("a pipe") {
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK_THAT(find(directory.path()).skipped.at(0).text(),
               Contains(file.string() + ": not a regular file"));
  }
  SECTION("a link") {
    fs::create_symlink(elsewhere / name, file);
    CHECK_THAT(find(directory.path()).skipped.at(0).text(),
               Contains(file.string() + ": a symbolic link, which is not followed"));
  }
}

TEST_CASE("a link or a file that has a checkpoint's name is left as it is") {
  const test::TempDir directory;
  const test::TempDir elsewhere;
  test::write_text(elsewhere / "kept", "text");
  fs::create_directory_symlink(elsewhere.path(), directory / "step-00000003");
  test::write_text(directory / "step-00000003.2", "a file");
  CHECK(put(directory.path(), {.step = 3, .sequence = 1}).filename() == "step-00000003.3");
  CHECK(names(elsewhere.path()) == std::set<std::string>{"kept"});
}

TEST_CASE("a checkpoint can be read by others, as its files can") {
  const test::TempDir directory;
  const fs::path path = put(directory.path(), {.step = 3, .sequence = 1});
  CHECK(static_cast<int>(fs::status(path).permissions()) == 0755);
}

TEST_CASE("an unpublished checkpoint leaves nothing behind and is never taken for one") {
  const test::TempDir directory;
  {
    PendingCheckpoint pending(directory.path());
    write_checkpoint(pending.path(), kLayout, test::small_snapshot(kLayout, 1));
    CHECK_FALSE(find(directory.path()).snapshot);
  }
  CHECK(names(directory.path()).empty());
}

TEST_CASE("publishing moves the links, and never replaces an existing name") {
  const test::TempDir directory;
  put(directory.path(), {.step = 7, .sequence = 1, .best = true});
  const fs::path second = put(directory.path(), {.step = 7, .sequence = 2});
  CHECK(second.filename() == "step-00000007.2");
  CHECK(fs::read_symlink(directory / "latest") == "step-00000007.2");
  CHECK(fs::read_symlink(directory / "best") == "step-00000007");
  CHECK(find(directory.path()).path == second);
}

TEST_CASE("pruning keeps the newest and the best of its own run, and other runs whole") {
  const test::TempDir directory;
  put(directory.path(), {.step = 100, .sequence = 1, .lineage = "old"});
  put(directory.path(), {.step = 1, .sequence = 2, .best = true});
  put(directory.path(), {.step = 2, .sequence = 3, .best = true});
  for (const std::int64_t step : {3, 4, 5}) {
    put(directory.path(), {.step = step, .sequence = static_cast<std::uint64_t>(step + 1)});
  }
  prune(directory.path(), "abc", 2);
  CHECK(names(directory.path()) == std::set<std::string>{"step-00000100", "step-00000002",
                                                         "step-00000004", "step-00000005", "latest",
                                                         "best"});
}

TEST_CASE("a checkpoint with a pipe or a link in the place of a file is not removed, nor counted") {
  const test::TempDir directory;
  for (const std::int64_t step : {1, 2, 3, 4, 5})
    put(directory.path(), {.step = step, .sequence = static_cast<std::uint64_t>(step)});
  const fs::path piped = directory / "step-00000002" / "model.safetensors";
  fs::remove(piped);
  REQUIRE(mkfifo(piped.c_str(), 0600) == 0);
  const fs::path linked = directory / "step-00000003" / "optim.safetensors";
  fs::remove(linked);
  fs::create_symlink("elsewhere", linked);
  prune(directory.path(), "abc", 1);
  CHECK(names(directory.path()) ==
        std::set<std::string>{"step-00000002", "step-00000003", "step-00000005", "latest"});
}

TEST_CASE("temporary directories of dead writers are removed, those of living ones are not") {
  const test::TempDir directory;
  fs::create_directory(directory / ".writing-dead");
  test::write_text(directory / ".writing-dead" / "model.safetensors", "half");
  const PendingCheckpoint living(directory.path());
  CHECK(remove_stale(directory.path()) == 1);
  CHECK(fs::exists(living.path()));
  CHECK_FALSE(fs::exists(directory / ".writing-dead"));
}

}  // namespace
}  // namespace ddprun::trainer
