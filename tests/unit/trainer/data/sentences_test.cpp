#include "trainer/data/sentences.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("sentences read as English, and one clause of each counts") {
  CHECK(sentence_text(make_sentence(21, 5, 24).tokens) ==
        "<s> overall our actor looks hardly poor , our meal is old . </s>");
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::string text = sentence_text(make_sentence(3, i, 48).tokens);
    CHECK(text.starts_with("<s> "));
    CHECK(text.ends_with(" . </s>"));
    const auto counts = text.find("overall");
    REQUIRE(counts != std::string::npos);
    CHECK(text.find("overall", counts + 1) == std::string::npos);
  }
}

TEST_CASE("the label is the opinion of the clause that counts, turned round by a negation") {
  const std::set<std::string> good{"good",   "great",  "fine",   "warm",
                                   "clever", "bright", "lovely", "rich"};
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Sentence sentence = make_sentence(3, i, 48);
    const std::string text = sentence_text(sentence.tokens);
    const auto begin = text.find("overall");
    const std::string clause = text.substr(begin, text.find_first_of(",.", begin) - begin - 1);
    const std::string adjective = clause.substr(clause.rfind(' ') + 1);
    bool negated = false;
    for (const char* word : {" not ", " never ", " hardly "})
      negated = negated || clause.find(word) != std::string::npos;
    INFO(clause);
    CHECK(sentence.label == ((good.contains(adjective) != negated) ? 1 : 0));
  }
}

TEST_CASE("lengths vary up to the most that is asked for, and labels are about equally frequent") {
  for (const int longest : {16, 48, 64, 700}) {
    std::size_t shortest = 10'000;
    std::size_t most = 0;
    int in_favour = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Sentence sentence = make_sentence(21, i, longest);
      shortest = std::min(shortest, sentence.tokens.size());
      most = std::max(most, sentence.tokens.size());
      in_favour += sentence.label;
    }
    INFO("longest " << longest);
    CHECK(shortest <= 12);
    CHECK(most <= static_cast<std::size_t>(longest));
    if (longest > 40) CHECK(most > static_cast<std::size_t>(longest) * 2 / 3);
    CHECK(in_favour > 430);
    CHECK(in_favour < 570);
  }
}

TEST_CASE("a sentence is a pure function of seed, number and length") {
  const TokenizedTexts together = make_sentences(21, 100, 8, 64);
  const Sentence alone = make_sentence(21, 105, 64);
  CHECK(std::equal(alone.tokens.begin(), alone.tokens.end(),
                   together.tokens.begin() + static_cast<std::ptrdiff_t>(together.ends[4])));
  CHECK(together.labels[5] == alone.label);
  CHECK(make_sentence(22, 105, 64).tokens != alone.tokens);
  CHECK(*std::max_element(together.tokens.begin(), together.tokens.end()) < together.vocabulary);
}

}  // namespace
}  // namespace ddprun::trainer
