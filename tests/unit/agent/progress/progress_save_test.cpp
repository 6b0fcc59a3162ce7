// How a worker is asked for a checkpoint, and answers.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "agent/progress/progress_page.hpp"
#include "tests/support/temp_dir.hpp"
#include "worker/ddprun_progress.h"

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("a worker is asked to save, and tells when it has") {
  const test::TempDir folder;
  const std::string path = (folder / "page").string();
  REQUIRE(setenv("DDPRUN_PROGRESS_FILE", path.c_str(), 1) == 0);
  const auto saved = [&path] { return read_progress_page(path).page->saved; };
  ddprun_progress worker;
  REQUIRE(ddprun_progress_open(&worker) == 0);
  ddprun_progress_update(&worker, 5, "forward");
  CHECK_FALSE(saved().has_value());  // it does not look whether it is asked
  CHECK(ddprun_progress_save_requested(&worker) == 0);
  CHECK(saved() == 0U);
  write_save_request(path, 3);
  CHECK(ddprun_progress_save_requested(&worker) == 3);
  ddprun_progress_update(&worker, 6, "forward");
  write_save_request(path, 4);  // while it saves
  ddprun_progress_saved(&worker, 3);
  CHECK(saved() == 3U);
  CHECK(ddprun_progress_save_requested(&worker) == 4);
  ddprun_progress_saved(&worker, 4);
  CHECK(ddprun_progress_save_requested(&worker) == 0);
  CHECK(saved() == 4U);
  ddprun_progress_close(&worker);
  CHECK_FALSE(saved().has_value());  // it does not look any more
  CHECK_FALSE(read_progress_page(path).page->watched);
  CHECK(ddprun_progress_save_requested(&worker) == 0);
  unsetenv("DDPRUN_PROGRESS_FILE");
}

TEST_CASE("a page without room for requests to save is an older program's") {
  const test::TempDir folder;
  const std::string path = (folder / "page").string();
  std::string bytes(kProgressPageBytes, '\0');
  bytes.replace(0, 7, "ddprun\1");
  bytes[52] = 2;
  std::ofstream(path) << bytes;
  REQUIRE(read_progress_page(path).page.has_value());
  CHECK_FALSE(read_progress_page(path).page->saved.has_value());
  write_save_request(path, 1);
  CHECK(std::filesystem::file_size(path) == kProgressPageBytes);
}
