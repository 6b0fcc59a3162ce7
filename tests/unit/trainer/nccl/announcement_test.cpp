// What the ranks compare before they begin NCCL.
#include "trainer/nccl/announcement.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer::nccl {
namespace {

Announcement rank_with(const std::string& gpu) {
  return {.process = {"boot", "pid:[1]", 12, 34},
          .host = "node1",
          .gpu = gpu,
          .card = {},
          .version = 22809,
          .world_size = 2,
          .shards = 4,
          .arena_floats = 100};
}

TEST_CASE("an announcement is read as it was written, and half of one is refused") {
  Announcement written = rank_with("GPU-1");
  written.order = SumOrder::chain;
  const auto read = Announcement::parse(written.text());
  REQUIRE(read.has_value());
  CHECK(read->text() == written.text());
  CHECK(read->host == "node1");
  CHECK(read->process.start_time == 34);
  CHECK(read->order == SumOrder::chain);
  for (const std::string text : {"", "ddprun-shm-1 pid=3", "ddprun-nccl-3", "ddprun-nccl-3 boot",
                                 "ddprun-nccl-3 pid=3 start=x"}) {
    CAPTURE(text);
    CHECK_FALSE(Announcement::parse(text).has_value());
  }
}

TEST_CASE("ranks that fit together are accepted") {
  CHECK(why_not({rank_with("GPU-1"), rank_with("GPU-2")}, false).empty());
  CHECK(why_not({rank_with("GPU-1"), rank_with("GPU-1")}, true).empty());
}

TEST_CASE("two MIG slices of one GPU are refused before NCCL does, with what to do") {
  const auto slice = [](const std::string& gpu, const std::string& boot) {
    Announcement one = rank_with(gpu);
    one.card = "0000:07:00";
    one.process.boot_id = boot;
    return *Announcement::parse(one.text());
  };
  CHECK_THAT(why_not({slice("MIG-1", "boot"), slice("MIG-2", "boot")}, false),
             Catch::Contains("ranks 0 and 1 on node1") && Catch::Contains("MIG-1 and MIG-2") &&
                 Catch::Contains("0000:07:00") && Catch::Contains("one worker for each card"));
  CHECK(why_not({slice("MIG-1", "boot"), slice("MIG-2", "boot")}, true).empty());
  CHECK(why_not({slice("GPU-1", "boot"), slice("GPU-2", "other-boot")}, false).empty());
}

TEST_CASE("what does not fit is named with both ranks and what to do") {
  CHECK_THAT(why_not({rank_with("GPU-1"), rank_with("GPU-1")}, false),
             Catch::Contains("ranks 0 and 1") && Catch::Contains("GPU-1") &&
                 Catch::Contains("--nproc-per-node=gpu"));
  Announcement other = rank_with("GPU-2");
  other.version = 22105;
  CHECK_THAT(why_not({rank_with("GPU-1"), other}, false),
             Catch::Contains("2.28.9") && Catch::Contains("2.21.5") && Catch::Contains("node1"));
  other = rank_with("GPU-2");
  other.shards = 8;
  CHECK_THAT(why_not({rank_with("GPU-1"), other}, false),
             Catch::Contains("8 shards") && Catch::Contains("same options"));
  other = rank_with("GPU-2");
  other.order = SumOrder::chain;
  CHECK_THAT(why_not({rank_with("GPU-1"), other}, false),
             Catch::Contains("rank 1 was started without --exact, but rank 0 with"));
}

}  // namespace
}  // namespace ddprun::trainer::nccl
