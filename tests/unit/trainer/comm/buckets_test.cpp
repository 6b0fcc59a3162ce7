#include "trainer/comm/reducer.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

constexpr std::size_t kMega = 1u << 20;

void check_covers(const std::vector<Range>& table, std::size_t floats) {
  std::size_t at = 0;
  for (const Range& range : table) {
    REQUIRE(range.begin == at);
    REQUIRE(range.end > range.begin);
    REQUIRE(range.begin % 16 == 0);
    at = range.end;
  }
  REQUIRE(at == floats);
}

TEST_CASE("a small model is one bucket") {
  const auto table = bucket_table(44'426, {});
  CHECK(table.size() == 1);
  check_covers(table, 44'426);
}

TEST_CASE("the first and the last bucket are small and those between have the size asked for") {
  const std::size_t floats = 57'044'810;  // AlexNet with ten classes
  const auto table = bucket_table(floats, {});
  check_covers(table, floats);
  CHECK(table.front().end - table.front().begin == kMega / 4);
  CHECK(table.back().end - table.back().begin <= kMega / 4);
  for (std::size_t i = 1; i + 2 < table.size(); ++i)
    CHECK(table[i].end - table[i].begin == 25 * kMega / 4);
}

TEST_CASE("every arena size is covered, whatever the bucket sizes") {
  for (std::size_t floats : {1ul, 15ul, 16ul, 17ul, 100ul, 1000ul, 4096ul, 100'003ul}) {
    for (std::size_t bytes : {0ul, 1ul, 64ul, 100ul, 4096ul, 1ul << 30}) {
      for (std::size_t small : {0ul, 64ul, 1000ul, 1ul << 20}) {
        CAPTURE(floats, bytes, small);
        const auto table = bucket_table(floats, {bytes, small, small});
        check_covers(table, floats);
        REQUIRE(table.size() <= kStartedMax);
      }
    }
  }
}

TEST_CASE("no bucket is larger than asked for, the small ones included") {
  for (const Range& range : bucket_table(1'000'000, {65536, kMega, kMega}))
    CHECK((range.end - range.begin) * 4 <= 65536);
}

}  // namespace
}  // namespace ddprun::trainer
