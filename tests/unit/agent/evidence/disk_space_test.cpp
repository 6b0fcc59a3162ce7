#include "agent/evidence/disk_space.hpp"

#include <catch2/catch.hpp>

using namespace ddprun::agent;

TEST_CASE("a file system is short of space or of inodes or of neither") {
  CHECK(shortage({0, true}) == "has no space left");
  CHECK(shortage({4096, true}) == "has only 4096 bytes of space left");
  CHECK(shortage({1 << 30, false}) == "has no inodes left");
  CHECK(shortage({1 << 30, true}).empty());
  CHECK(disk_shortage("").empty());
  CHECK(disk_shortage("/no/such/folder").empty());
  CHECK(disk_shortage("/proc").empty());
}
