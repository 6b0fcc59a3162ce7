#include "trainer/data/sentences.hpp"

#include <array>
#include <span>

#include "base/assert.hpp"
#include "trainer/data/random_stream.hpp"

namespace ddprun::trainer {
namespace {

constexpr const char* kWords[] = {"<s>", "<pad>", "</s>", "<unk>", ",", ".", "overall",
                                  // articles
                                  "the", "this", "that", "our",
                                  // nouns
                                  "film", "story", "plot", "music", "actor", "ending", "scene",
                                  "book", "song", "room", "meal", "trip",
                                  // verbs
                                  "is", "was", "seems", "looks", "feels", "stays",
                                  // negations
                                  "not", "never", "hardly",
                                  // adverbs
                                  "very", "really", "quite", "rather", "so", "too",
                                  // adjectives, in favour
                                  "good", "great", "fine", "warm", "clever", "bright", "lovely",
                                  "rich",
                                  // adjectives, against
                                  "bad", "dull", "poor", "cold", "silly", "dark", "ugly", "thin",
                                  // adjectives without an opinion
                                  "long", "short", "old", "new", "red", "blue", "small", "large"};

/// Words first .. first + count - 1.
struct Kind {
  int first;
  int count;
};
constexpr int kBegin = 0;
constexpr int kEnd = 2;
constexpr int kComma = 4;
constexpr int kStop = 5;
constexpr int kOverall = 6;
constexpr Kind kArticles{7, 4};
constexpr Kind kNouns{11, 12};
constexpr Kind kVerbs{23, 6};
constexpr Kind kNegations{29, 3};
constexpr Kind kAdverbs{32, 6};
constexpr std::array<Kind, 2> kAdjectives{Kind{46, 8}, Kind{38, 8}};  // against, in favour
constexpr Kind kPlainAdjectives{54, 8};
static_assert(std::size(kWords) == 62);

constexpr int kShortest = 12;   // <s>, the longest clause, "." and </s>, rounded up
constexpr int kClauseMost = 8;  // with the comma before it

int word_of(RandomStream& stream, const Kind& kind) {
  return kind.first + stream.below(kind.count);
}

struct Clause {
  std::vector<std::int32_t> tokens;
  std::int32_t opinion = 0;
};

Clause make_clause(RandomStream& stream, bool counts) {
  Clause clause;
  if (counts) clause.tokens.push_back(kOverall);
  for (const Kind& kind : {kArticles, kNouns, kVerbs})
    clause.tokens.push_back(word_of(stream, kind));
  const bool negated = stream.below(counts ? 3 : 8) == 0;
  if (negated) clause.tokens.push_back(word_of(stream, kNegations));
  if (stream.below(2) == 0) clause.tokens.push_back(word_of(stream, kAdverbs));
  if (!counts) {
    clause.tokens.push_back(word_of(stream, kPlainAdjectives));
    return clause;
  }
  const int adjective = stream.below(2);
  clause.tokens.push_back(word_of(stream, kAdjectives[static_cast<std::size_t>(adjective)]));
  clause.opinion = negated ? 1 - adjective : adjective;
  return clause;
}

}  // namespace

Sentence make_sentence(std::uint64_t seed, std::uint64_t index, int longest) {
  DDPRUN_ASSERT(longest >= kSentenceTokensLeast, "room for a sentence");
  RandomStream stream(seed, index);
  const int tokens = kShortest + stream.below(longest - kShortest + 1);
  // As many clauses as fit even if all are long.
  const int clauses = 1 + (tokens - kShortest) / kClauseMost;
  const int counts = stream.below(clauses);
  Sentence sentence{.tokens = {kBegin}};
  for (int i = 0; i < clauses; ++i) {
    if (i > 0) sentence.tokens.push_back(kComma);
    const Clause clause = make_clause(stream, i == counts);
    sentence.tokens.insert(sentence.tokens.end(), clause.tokens.begin(), clause.tokens.end());
    if (i == counts) sentence.label = clause.opinion;
  }
  sentence.tokens.insert(sentence.tokens.end(), {kStop, kEnd});
  return sentence;
}

TokenizedTexts make_sentences(std::uint64_t seed, std::uint64_t first, std::size_t count,
                              int longest) {
  TokenizedTexts texts{.vocabulary = sentence_vocabulary(), .classes = kSentenceClasses};
  for (std::size_t i = 0; i < count; ++i) {
    const Sentence sentence = make_sentence(seed, first + i, longest);
    texts.tokens.insert(texts.tokens.end(), sentence.tokens.begin(), sentence.tokens.end());
    texts.ends.push_back(texts.tokens.size());
    texts.labels.push_back(sentence.label);
  }
  return texts;
}

int sentence_vocabulary() { return static_cast<int>(std::size(kWords)); }

std::string sentence_text(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    DDPRUN_ASSERT(token >= 0 && token < sentence_vocabulary(), "a word of sentences");
    text += text.empty() ? "" : " ";
    text += kWords[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace ddprun::trainer
