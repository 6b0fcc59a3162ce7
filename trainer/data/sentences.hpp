// Generated sentences with an opinion: a set for text models that needs no download.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/text_set.hpp"

namespace ddprun::trainer {

inline constexpr int kSentenceClasses = 2;  ///< 0: against, 1: in favour
inline constexpr int kSentences = 8'000;    ///< for training, unless another number is asked for
inline constexpr int kSentencesMost = 1'000'000;
/// The most tokens of a sentence lie between these two.
inline constexpr int kSentenceTokensLeast = 16;
inline constexpr int kSentenceTokens = 64;  ///< unless another number is asked for

struct Sentence {
  std::vector<std::int32_t> tokens;
  std::int32_t label = 0;
};

/// Sentence `index` of the set `seed`, of at most `longest` tokens, short and long ones about
/// equally often:
///
///   sentence := <s> clause ("," clause)* "." </s>
///   clause   := ["overall"] article noun verb [negation] [adverb] adjective
///
/// One clause begins with "overall" and has an adjective with an opinion. The label is that
/// opinion, turned round by a negation in the same clause; negations in others do not count. A pure
/// function of its arguments.
Sentence make_sentence(std::uint64_t seed, std::uint64_t index, int longest);

/// Samples first .. first + count - 1.
TokenizedTexts make_sentences(std::uint64_t seed, std::uint64_t first, std::size_t count,
                              int longest);

/// Token ids are below it. 0, 1, 2 and 3 are RoBERTa's <s>, <pad>, </s> and <unk>.
int sentence_vocabulary();
/// The words of tokens, with blanks between them.
std::string sentence_text(const std::vector<std::int32_t>& tokens);

}  // namespace ddprun::trainer
