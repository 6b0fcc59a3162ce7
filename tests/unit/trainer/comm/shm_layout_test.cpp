#include "trainer/comm/shm_layout.hpp"

#include <catch2/catch.hpp>

#include "trainer/comm/process_watch.hpp"
#include "trainer/comm/shm_group.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("chunks cover their range once, on cache lines, and number at most eight for each rank") {
  for (int world : {1, 2, 3, 4, 7, 64}) {
    for (std::size_t begin : {0ul, 5ul, 160ul}) {
      for (std::size_t floats :
           {0ul, 1ul, 16ul, 4096ul, 4097ul, 10'000ul, 262'144ul, 6'553'600ul}) {
        const Chunks chunks({begin, begin + floats}, world);
        CAPTURE(world, begin, floats);
        REQUIRE(chunks.count <= world * kChunksPerRank);
        std::size_t at = begin;
        for (int i = 0; i < chunks.count; ++i) {
          const Range chunk = chunks.chunk(i);
          REQUIRE(chunk.begin == at);
          REQUIRE(chunk.end >= chunk.begin);
          if (i > 0) REQUIRE((chunk.begin % 16 == 0 || chunk.begin == begin));
          at = chunk.end;
        }
        if (floats > 0) REQUIRE(at == begin + floats);
      }
    }
  }
}

TEST_CASE("words keep their parts") {
  const ChunkWord word = ChunkWord::unpack(ChunkWord{123'456'789'012, 255, true}.pack());
  CHECK((word.ticket == 123'456'789'012 && word.rank == 255 && word.done));
  const AbortRecord record = AbortRecord::unpack(AbortRecord{255, -1, 1023}.pack());
  CHECK((record.by == 255 && record.rank == -1 && record.bucket == 1023));
  CHECK(AbortRecord{0, -1, -1}.pack() != 0);
}

TEST_CASE("an announcement is read back as it was written, and other text is not one") {
  Announcement announcement{{"boot", "pid:[1]", 7, 8}, 9, 10, 11, 12, 13, 14, 15};
  const auto read = Announcement::parse(announcement.text());
  REQUIRE(read.has_value());
  CHECK(read->text() == announcement.text());
  CHECK_FALSE(Announcement::parse(""));
  CHECK_FALSE(Announcement::parse("ddprun-shm-1"));
  CHECK_FALSE(Announcement::parse("ddprun-shm-1 pid"));
  CHECK_FALSE(Announcement::parse("ddprun-shm-2" + announcement.text().substr(12)));
  CHECK_FALSE(Announcement::parse(announcement.text() + "x"));
  for (const char* field : {"pid=7", "start=8", "fd=9", "bytes=10", "inode=11", "nonce=12",
                            "world=13", "shards=14", "floats=15"}) {
    std::string text = announcement.text();
    const std::size_t at = text.find(field);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(field).size(),
                 std::string(field).substr(0, std::string(field).find('=')) + "=-");
    CHECK_FALSE(Announcement::parse(text));
  }
}

TEST_CASE("a process is alive only under the start time it was announced with") {
  ProcessIdentity identity = own_identity();
  CHECK(ProcessWatch(identity).alive());
  identity.start_time += 1;
  CHECK_FALSE(ProcessWatch(identity).alive());
}

}  // namespace
}  // namespace ddprun::trainer
