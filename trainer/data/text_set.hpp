// Texts as token ids, which are words of a vocabulary or bytes; a set of them in memory, and
// whether a model can read it.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash_bytes.hpp"
#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

/// RoBERTa's <s>, <pad>, </s> and <unk>, which every vocabulary begins with.
inline constexpr std::int32_t kBeginToken = 0;
inline constexpr std::int32_t kPadToken = 1;
inline constexpr std::int32_t kEndToken = 2;
inline constexpr std::int32_t kUnknownToken = 3;
inline constexpr int kSpecialTokens = 4;

enum class TokenKind {
  words,   ///< a WordVocabulary's
  bytes,   ///< byte + kSpecialTokens
  pieces,  ///< a SentencePiece model's (piece_model.hpp)
};
inline constexpr int kByteVocabulary = 256 + kSpecialTokens;

/// The words that occur at least twice in `sentences`, split at blanks. Their ids begin with
/// kSpecialTokens, in the order in which the words occur first. The spellings of the special tokens
/// are no words.
class WordVocabulary {
 public:
  explicit WordVocabulary(std::span<const std::string_view> sentences);
  /// That of a text() kept in `file`. Throws DataError that names the file and the line.
  WordVocabulary(std::string text, const std::string& file);
  // The words are parts of text_.
  WordVocabulary(const WordVocabulary&) = delete;
  WordVocabulary& operator=(const WordVocabulary&) = delete;

  /// Ids are below it.
  [[nodiscard]] int size() const { return kSpecialTokens + static_cast<int>(ids_.size()); }
  /// kUnknownToken if it has no other.
  [[nodiscard]] std::int32_t id(std::string_view word) const;
  /// One token a line, the special ones first: line k, from 0, is the token with the id k.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  boost::unordered_flat_map<std::string_view, std::int32_t> ids_;
};

/// Appends <s>, the tokens of a sentence and </s> to `tokens`; at most `longest` (2 or more), of
/// which the last is </s>. True: the sentence has more. `words` is null: its bytes.
bool append_tokens(std::string_view sentence, const WordVocabulary* words, int longest,
                   std::vector<std::int32_t>& tokens);

/// The tokens of a set one text behind the other.
struct TokenizedTexts {
  int vocabulary = 0;
  int classes = 0;
  std::vector<std::int32_t> tokens = {};
  std::vector<std::size_t> ends =
      {};  ///< of each text in `tokens`; it begins where the one before ends
  std::vector<std::int32_t> labels = {};
};

/// That they take in memory.
std::uint64_t bytes_of(const TokenizedTexts& texts);

/// Texts with labels, in memory. Reading one allocates nothing.
class TextSet final : public DataSet {
 public:
  /// Requires as many labels as ends, and rising ends up to the last token. `hash_start` stands for
  /// what the tokens mean: a hash of the vocabulary. The set's hash is hash_bytes() of the labels
  /// that starts with that of the ends, which starts with that of the tokens, which starts with
  /// `hash_start`; all as little-endian integers, of 4, 8 and 4 bytes.
  TextSet(std::string name, TokenizedTexts texts, std::uint64_t hash_start = kHashStart);

  /// Positions: the tokens of the longest.
  [[nodiscard]] TextShape shape() const { return {texts_.vocabulary, longest_}; }
  [[nodiscard]] std::int32_t label(std::size_t index) const override;
  /// Tokens of sample `index`.
  [[nodiscard]] int length(std::size_t index) const;
  /// Writes them, `tokens` having exactly their number; gives the label.
  std::int32_t read_tokens(std::size_t index, std::span<std::int32_t> tokens) const;
  [[nodiscard]] const TextSet* texts() const override { return this; }

 private:
  [[nodiscard]] std::size_t begin_of(std::size_t index) const {
    return index == 0 ? 0 : texts_.ends[index - 1];
  }

  TokenizedTexts texts_;
  int longest_ = 0;
};

// Shapes of the samples of a set that may be of either kind: zeros where it is of the other one.
inline ImageShape image_shape(const DataSet& set) {
  return set.images() == nullptr ? ImageShape{0, 0, 0} : set.images()->shape();
}
inline TextShape text_shape(const DataSet& set) {
  return set.texts() == nullptr ? TextShape{} : set.texts()->shape();
}

/// Throws DataError that names the first sample (from 0) of `set` that a model of this shape cannot
/// read: without tokens, with more than its positions, or with a token that is not in its
/// vocabulary. For the message: `title`, such as "training", and the remedy `shorten` for a text
/// with too many tokens.
void check_texts(const TextSet& set, const std::string& title, const TextShape& model,
                 const std::string& shorten);

}  // namespace ddprun::trainer
