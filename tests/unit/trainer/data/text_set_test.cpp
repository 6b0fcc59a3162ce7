#include "trainer/data/text_set.hpp"

#include <catch2/catch.hpp>

#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

TokenizedTexts three_texts() {
  return {.vocabulary = 10,
          .classes = 2,
          .tokens = {0, 2, 0, 9, 8, 2, 0, 5, 2},
          .ends = {2, 6, 9},
          .labels = {1, 0, 1}};
}

TEST_CASE("a set of texts gives the tokens, lengths and labels that it was made of") {
  const TextSet set("three", three_texts());
  CHECK(set.size() == 3);
  CHECK(set.texts() == &set);
  CHECK(set.images() == nullptr);
  CHECK(set.shape().positions == 4);
  CHECK(set.shape().vocabulary == 10);
  CHECK(set.bytes() == 9 * 4 + 3 * 8 + 3 * 4);
  CHECK(set.length(1) == 4);
  std::vector<std::int32_t> tokens(4);
  CHECK(set.read_tokens(1, tokens) == 0);
  CHECK(tokens == std::vector<std::int32_t>{0, 9, 8, 2});
}

TEST_CASE("the hash of a set of texts depends on tokens, lengths and labels, and not on the name") {
  const std::uint64_t base = TextSet("a", three_texts()).content_hash();
  CHECK(TextSet("b", three_texts()).content_hash() == base);
  TokenizedTexts other = three_texts();
  other.tokens[3] = 7;
  CHECK(TextSet("a", other).content_hash() != base);
  other = three_texts();
  other.ends[0] = 3;
  CHECK(TextSet("a", other).content_hash() != base);
  other = three_texts();
  other.labels[0] = 0;
  CHECK(TextSet("a", other).content_hash() != base);
}

TEST_CASE("a text that the model cannot read is named by its number") {
  const TextSet set("three", three_texts());
  CHECK_NOTHROW(check_texts(set, "training", {.vocabulary = 10, .positions = 4}, "shorten it"));
  CHECK_THROWS_WITH(check_texts(set, "training", {.vocabulary = 10, .positions = 3}, "shorten it"),
                    "sample 1 of the training set has 4 tokens, but the model has 3 positions: "
                    "shorten it");
  CHECK_THROWS_WITH(check_texts(set, "held-out", {.vocabulary = 9, .positions = 512}, "shorten it"),
                    Catch::Contains("sample 1 of the held-out set has the token 9, but the model "
                                    "has the tokens 0 to 8"));
  TokenizedTexts other = three_texts();
  other.tokens[7] = -1;
  CHECK_THROWS_WITH(check_texts(TextSet("a", other), "training", {.vocabulary = 10, .positions = 4},
                                "shorten it"),
                    Catch::Contains("sample 2 of the training set has the token -1"));
  other = three_texts();
  other.ends[0] = 0;
  CHECK_THROWS_WITH(check_texts(TextSet("a", other), "training", {.vocabulary = 10, .positions = 8},
                                "shorten it"),
                    Catch::Contains("sample 0 of the training set has no tokens"));
}

TEST_CASE("generated sentences for training and held-out ones are different ones") {
  const TrainAndTest sets =
      load_data({.kind = DataKind::texts, .sentences = {.count = 10, .tokens = 32}});
  CHECK(sets.train->size() == 10);
  CHECK(sets.test->size() == 3);
  CHECK(sets.train->classes() == 2);
  CHECK(sets.train->content_hash() != sets.test->content_hash());
}

}  // namespace
}  // namespace ddprun::trainer
