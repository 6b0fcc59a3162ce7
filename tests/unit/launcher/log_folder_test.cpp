#include "launcher/log_folder.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/time_stamp.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
namespace fs = std::filesystem;

namespace {

/// The folder of a job with this run id.
fs::path made_folder(const fs::path& base, const std::string& run_id) {
  LaunchPlan plan;
  plan.log_folder = {.wanted = true, .base = base.string()};
  plan.agent.run_id = run_id;
  const auto made = make_log_folder(plan);
  if (!made) FAIL(made.error().message);
  struct stat status {};
  REQUIRE(::stat(made->c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK(fs::path(*made).parent_path() == base);
  CHECK(fs::read_symlink(base / "latest") == fs::path(*made).filename());
  return *made;
}

}  // namespace

TEST_CASE("log folders begin with date and time, whatever the run id, and latest leads there") {
  const test::TempDir dir;
  const fs::path base = dir / "logs";
  for (const std::string id : {"none", "job/7", "2026-11-28_17-15-33_0123abcd"}) {
    const std::string name = made_folder(base, id).filename();
    CAPTURE(name);
    CHECK(begins_with_time_stamp(name));
    if (id == "none") CHECK(name.size() == 19);
    if (id == "job/7") CHECK(name.substr(19) == "_job_7");
    if (id.starts_with("2026")) CHECK(name == id);
  }
}

TEST_CASE("nodes of one job that share a disk have a log folder each") {
  const test::TempDir dir;
  const std::string id = "2026-11-28_17-15-33_0123abcd";
  const fs::path first = made_folder(dir.path(), id);
  const fs::path second = made_folder(dir.path(), id);
  CHECK(first.filename() == id);
  CHECK(second != first);
  CHECK(second.filename().string().starts_with(id + "_"));
}
