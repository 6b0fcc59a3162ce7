// What the ranks' weights come to.
#include "trainer/run/loop/rank_weights.hpp"

#include <catch2/catch.hpp>

namespace ddprun::trainer {
namespace {

using Catch::Matchers::StartsWith;

TEST_CASE("ranks with an inf or nan are named where others have none") {
  const std::vector<RankWeights> all{{1, false}, {2, true}, {1, false}, {3, true}};
  CHECK(broken_ranks(all) == std::vector<int>{1, 3});
  CHECK(alone_text({1, 3}, 4) == " on ranks 1, 3 alone");
  CHECK(alone_text({1}, 4) == " on rank 1 alone");
  CHECK(alone_text({0, 1}, 2).empty());
  CHECK(broken_ranks(std::span(all).first(1)).empty());
}

TEST_CASE("the first rank with other weights than rank 0 is named") {
  CHECK_THAT(why_different(std::vector<RankWeights>{{1, false}, {1, false}, {2, false}}),
             StartsWith("rank 2 holds other weights (0000000000000002) than rank 0 "
                        "(0000000000000001): faulty memory"));
  CHECK(why_different(std::vector<RankWeights>{{7, false}, {7, false}}).empty());
}

}  // namespace
}  // namespace ddprun::trainer
