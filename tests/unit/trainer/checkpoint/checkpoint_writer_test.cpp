// The background writer: what was submitted is on disk, and a failing disk is reported without
// harm.
#include "trainer/checkpoint/checkpoint_writer.hpp"

#include <fcntl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <memory>

#include "base/file_lock.hpp"
#include "base/unique_handle.hpp"
#include "tests/support/child.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/checkpoint/fixture.hpp"
#include "trainer/checkpoint/checkpoint_directory.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

struct Fixture {
  test::TempDir directory;
  CheckpointLayout layout = test::small_layout();
  std::vector<std::string> failures;
  CheckpointWriter writer{
      {.directory = directory / "out",
       .keep = 2,
       .layout = layout,
       .on_failure = [this](const std::string& why) { failures.push_back(why); }}};

  void write(std::int64_t step) {
    const Snapshot snapshot = test::small_snapshot(layout, step);
    std::copy(snapshot.parameters.span().begin(), snapshot.parameters.span().end(),
              writer.snapshot().parameters.span().begin());
    writer.snapshot().state = snapshot.state;
    writer.submit();
    REQUIRE(writer.wait_idle(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  }
  FoundCheckpoint find() const {
    return find_newest(directory / "out", layout,
                       [](const TrainingState&) { return std::string(); });
  }
};

TEST_CASE("a submitted state becomes the newest checkpoint, and old ones are removed") {
  Fixture fixture;
  CHECK(fixture.writer.idle());
  for (const std::int64_t step : {1, 2, 3}) fixture.write(step);
  const FoundCheckpoint found = fixture.find();
  REQUIRE(found.snapshot);
  CHECK(found.snapshot->state.step == 3);
  CHECK(fixture.writer.totals().written == 3);
  CHECK(fixture.writer.totals().failed == 0);
  CHECK_THAT(fixture.writer.totals().last_path, Contains("step-00000003"));
  CHECK_FALSE(std::filesystem::exists(fixture.directory / "out" / "step-00000001"));
}

TEST_CASE(
    "a full disk is reported, the old checkpoint stays whole, and writing works again later") {
  Fixture fixture;
  fixture.write(1);
  {
    const test::FullDisk full(100);
    fixture.write(2);
  }
  REQUIRE(fixture.failures.size() == 1);
  CHECK_THAT(fixture.failures[0], Contains("model.safetensors") && Contains("File too large"));
  CHECK(fixture.find().snapshot->state.step == 1);
  CHECK(fixture.find().skipped.empty());
  CHECK(fixture.writer.totals().failed == 1);
  fixture.write(3);
  CHECK(fixture.find().snapshot->state.step == 3);
}

TEST_CASE("a directory that cannot be made is reported") {
  Fixture fixture;
  test::write_text(fixture.directory / "out", "a file in the way");
  fixture.write(1);
  REQUIRE(fixture.failures.size() == 1);
  CHECK_THAT(fixture.failures[0], Contains("out"));
  CHECK(fixture.writer.totals().written == 0);
}

TEST_CASE("the destructor waits for the write under way") {
  const test::TempDir directory;
  const CheckpointLayout layout = test::small_layout();
  {
    CheckpointWriter writer({.directory = directory.path(),
                             .keep = 2,
                             .layout = layout,
                             .on_failure = [](const std::string&) {}});
    writer.snapshot().state = test::small_snapshot(layout, 4).state;
    writer.submit();
  }
  CHECK(find_newest(directory.path(), layout, [](const TrainingState&) {
          return std::string();
        }).snapshot->state.step == 4);
}

TEST_CASE("a write that does not come to an end keeps no process") {
  Fixture fixture;
  fixture.write(1);
  const auto out = fixture.directory / "out";
  // Stands in for a disk that hangs: another process holds the claim's lock.
  DirectoryClaim claim(out, {"job", 1, 0});
  UniqueFd held(open((out / ".claim").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(try_lock(held) == LockOutcome::locked);
  {
    CheckpointWriter writer({.directory = out,
                             .keep = 1,
                             .layout = fixture.layout,
                             .claim = std::move(claim),
                             .on_failure = {}});
    writer.snapshot().state = test::small_snapshot(fixture.layout, 4).state;
    writer.submit();
  }
  const auto over = [&] { return !std::filesystem::exists(out / "step-00000001"); };
  CHECK_FALSE(over());
  held.reset();
  CHECK(test::eventually(over));
}

TEST_CASE("a failure that is being reported is reported to the end before its listener goes") {
  struct Reports {
    std::promise<void> began, destroyed;
    bool outlived = false;
  } reports;
  const test::TempDir directory;
  std::ofstream(directory / "file") << "no folder";
  const CheckpointLayout layout = test::small_layout();
  {
    CheckpointWriter writer(
        {.directory = directory / "file", .layout = layout, .on_failure = [&](const std::string&) {
           reports.began.set_value();
           reports.outlived = reports.destroyed.get_future().wait_for(
                                  2 * CheckpointWriter::kLastWait) == std::future_status::ready;
         }});
    writer.snapshot().state = test::small_snapshot(layout, 4).state;
    writer.submit();
    reports.began.get_future().wait();
  }
  reports.destroyed.set_value();
  CHECK_FALSE(reports.outlived);
}

}  // namespace
}  // namespace ddprun::trainer
