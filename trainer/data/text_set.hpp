// TokenizedTexts as token ids held in memory, and whether a model can read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash_bytes.hpp"
#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

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

/// A DataSet over texts in memory.
class TextSet final : public DataSet {
 public:
  /// Requires as many labels as ends, and rising ends up to the last token. `hash_start` stands for
  /// what the tokens mean: a hash of the vocabulary.
  TextSet(std::string name, TokenizedTexts texts, std::uint64_t hash_start = kHashStart);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] TextShape text() const override { return {texts_.vocabulary, longest_}; }
  [[nodiscard]] Target target() const override { return Target::label; }
  [[nodiscard]] int classes() const override { return texts_.classes; }
  [[nodiscard]] std::size_t size() const override { return texts_.ends.size(); }
  /// hash_bytes() of the labels that starts with that of the ends, which starts with that of the
  /// tokens, which starts with `hash_start`; all as little-endian integers, of 4, 8 and 4 bytes.
  [[nodiscard]] std::uint64_t content_hash() const override { return content_hash_; }
  [[nodiscard]] std::uint64_t bytes() const override { return bytes_of(texts_); }
  [[nodiscard]] std::int32_t label(std::size_t index) const override;
  [[nodiscard]] int length(std::size_t index) const override;
  std::int32_t read_tokens(std::size_t index, std::span<std::int32_t> tokens) const override;

 private:
  [[nodiscard]] std::size_t begin_of(std::size_t index) const {
    return index == 0 ? 0 : texts_.ends[index - 1];
  }

  std::string name_;
  TokenizedTexts texts_;
  int longest_ = 0;
  std::uint64_t content_hash_;
};

/// Throws DataError that names the first sample (from 0) of `set` that a model of this shape cannot
/// read: without tokens, with more than its positions, or with a token that is not in its
/// vocabulary. For the message: `title`, such as "training", and the remedy `shorten` for a text
/// with too many tokens.
void check_texts(const DataSet& set, const std::string& title, const TextShape& model,
                 const std::string& shorten);

}  // namespace ddprun::trainer
