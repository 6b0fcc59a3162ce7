#include "base/bounded_write.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/unique_handle.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;

TEST_CASE("no other check follows if the state of the last line is known") {
  CHECK(line_start(-1, true) == "\n");
  CHECK(line_start(-1, false).empty());
  CHECK(line_start(-1, std::nullopt).empty());
}

TEST_CASE("a file is looked at for a line that was not ended") {
  const test::TempDir folder;
  const std::string path = (folder / "out").string();
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto after = [&](const std::string& text) {
    REQUIRE(write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    return line_start(file.get(), std::nullopt);
  };
  CHECK(after("").empty());
  CHECK(after("abc") == "\n");
  CHECK(after("\n").empty());
  const UniqueFd appending(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  CHECK(line_start(appending.get(), std::nullopt).empty());
  after("abc");
  CHECK(line_start(appending.get(), std::nullopt) == "\n");
  // Another process has written further on: our next byte comes at our own offset.
  REQUIRE(lseek(file.get(), 4, SEEK_SET) == 4);
  CHECK(line_start(file.get(), std::nullopt).empty());
}

TEST_CASE("a terminal gets a line end in any case, and no blanks") {
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(grantpt(terminal.get()) == 0);
  REQUIRE(unlockpt(terminal.get()) == 0);
  const UniqueFd ours(open(ptsname(terminal.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(ours);
  CHECK(line_start(ours.get(), std::nullopt) == "\n");
}
