#include "trainer/data/text_set.hpp"

#include <catch2/catch.hpp>

#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Texts = std::vector<std::string_view>;
using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(std::string_view sentence, const WordVocabulary* words, int longest = 512) {
  Tokens tokens;
  append_tokens(sentence, words, longest, tokens);
  return tokens;
}

TEST_CASE("words that occur twice have ids in the order in which they occur first") {
  const WordVocabulary words(Texts{"the film is  the best", "a film", " is\ta\r\nb once "});
  CHECK(words.text() == "<s>\n<pad>\n</s>\n<unk>\nthe\nfilm\nis\na\n");
  CHECK(words.size() == 8);
  CHECK(words.id("the") == 4);
  CHECK(words.id("a") == 7);
  CHECK(words.id("best") == kUnknownToken);
  CHECK(words.id("") == kUnknownToken);
  CHECK(tokens_of("  film of the a ", &words) == Tokens{0, 5, 3, 4, 7, 2});
}

TEST_CASE("a text cannot hold special tokens") {
  const WordVocabulary words(Texts{"<s> </s> x <pad> <unk>", "<s> </s> x <pad> <unk>"});
  CHECK(words.size() == 5);
  CHECK(tokens_of("<s> </s> x <pad>", &words) == Tokens{0, 3, 3, 4, 3, 2});
}

TEST_CASE("bytes have the ids behind the special ones") {
  CHECK(tokens_of("a \xff", nullptr) == Tokens{0, 4 + 97, 4 + 32, 4 + 255, 2});
  CHECK(kByteVocabulary == 260);
}

TEST_CASE("a text that is too long is cut and keeps its end") {
  const WordVocabulary words(Texts{"a b c d", "a b c d"});
  Tokens tokens{9};
  CHECK_FALSE(append_tokens("a b c", &words, 5, tokens));
  CHECK(append_tokens("a b c d", &words, 5, tokens));
  CHECK_FALSE(append_tokens("a b c  ", &words, 5, tokens));
  CHECK(tokens == Tokens{9, 0, 4, 5, 6, 2, 0, 4, 5, 6, 2, 0, 4, 5, 6, 2});
  Tokens bytes;
  CHECK_FALSE(append_tokens("abc", nullptr, 5, bytes));
  CHECK(append_tokens("abcd", nullptr, 5, bytes));
  CHECK(bytes.size() == 10);
  CHECK(bytes.back() == kEndToken);
}

TEST_CASE("a vocabulary of many words finds each") {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "w" + std::to_string(i) + " ";
  const WordVocabulary words(Texts{text, text});
  CHECK(words.size() == 20'004);
  const Tokens tokens = tokens_of(text, &words, 30'000);
  REQUIRE(tokens.size() == 20'002);
  bool all = true;
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i)
    all = all && tokens[i] == static_cast<std::int32_t>(i + 3);
  CHECK(all);
}

TEST_CASE("a vocabulary goes through its text") {
  const WordVocabulary words(Texts{"a b c", "c b a d"});
  const WordVocabulary again(words.text(), "v.txt");
  CHECK(again.size() == words.size());
  CHECK(again.text() == words.text());
  for (const char* const word : {"a", "b", "c", "d"}) CHECK(again.id(word) == words.id(word));
}

TEST_CASE("a vocabulary's text that is damaged is refused with its line") {
  const std::string specials = "<s>\n<pad>\n</s>\n<unk>\n";
  const auto refused = [](const std::string& text, const std::string& wanted) {
    CHECK_THROWS_WITH(WordVocabulary(text, "v.txt"),
                      Catch::Contains("v.txt: " + wanted + ": take"));
  };
  refused("", "line 1 is missing");
  refused("<s>\n", "line 2 is missing");
  refused("<s>\n</s>\n", "line 2 is none of <s>, <pad>, </s> and <unk>");
  refused(specials + "a", "line 5 has no end");
  refused(specials + "\n", "line 5 is not one word");
  refused(specials + "a b\n", "line 5 is not one word");
  refused(specials + "a\na\n", "line 6 has a word that another one has");
}

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
