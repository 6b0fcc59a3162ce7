// Texts as token ids: words of a vocabulary, or bytes. Pure.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace ddprun::trainer
