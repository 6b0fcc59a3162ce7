#include "trainer/data/text_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

std::uint64_t hash_of(const TokenizedTexts& texts, std::uint64_t hash_start) {
  const auto hash = [](const auto& values, std::uint64_t start) {
    return hash_bytes(std::as_bytes(std::span(values)), values.size(), start);
  };
  return hash(texts.labels, hash(texts.ends, hash(texts.tokens, hash_start)));
}

}  // namespace

std::uint64_t bytes_of(const TokenizedTexts& texts) {
  const auto bytes = [](const auto& values) { return std::span(values).size_bytes(); };
  return bytes(texts.tokens) + bytes(texts.ends) + bytes(texts.labels);
}

TextSet::TextSet(std::string name, TokenizedTexts texts, std::uint64_t hash_start)
    : DataSet({.name = std::move(name),
               .classes = texts.classes,
               .size = texts.ends.size(),
               .content_hash = hash_of(texts, hash_start),
               .bytes = bytes_of(texts)}),
      texts_(std::move(texts)) {
  DDPRUN_ASSERT(texts_.labels.size() == texts_.ends.size(), "texts and labels disagree");
  DDPRUN_ASSERT(std::is_sorted(texts_.ends.begin(), texts_.ends.end()) &&
                    (texts_.ends.empty() ? 0 : texts_.ends.back()) == texts_.tokens.size(),
                "texts and tokens disagree");
  for (std::size_t i = 0; i < size(); ++i) longest_ = std::max(longest_, length(i));
}

std::int32_t TextSet::label(std::size_t index) const {
  DDPRUN_ASSERT(index < size(), "sample out of range");
  return texts_.labels[index];
}

int TextSet::length(std::size_t index) const {
  DDPRUN_ASSERT(index < size(), "sample out of range");
  return static_cast<int>(texts_.ends[index] - begin_of(index));
}

std::int32_t TextSet::read_tokens(std::size_t index, std::span<std::int32_t> tokens) const {
  DDPRUN_ASSERT(index < size() && tokens.size() == texts_.ends[index] - begin_of(index),
                "sample out of range");
  std::copy_n(texts_.tokens.data() + begin_of(index), tokens.size(), tokens.data());
  return texts_.labels[index];
}

void check_texts(const TextSet& set, const std::string& title, const TextShape& model,
                 const std::string& shorten) {
  std::vector<std::int32_t> tokens;
  for (std::size_t index = 0; index < set.size(); ++index) {
    const auto sample = [&] { return fmt::format("sample {} of the {} set", index, title); };
    const int length = set.length(index);
    if (length < 1) throw DataError(sample() + " has no tokens: remove it");
    if (length > model.positions)
      throw DataError(fmt::format("{} has {} tokens, but the model has {} positions: {}", sample(),
                                  length, model.positions, shorten));
    tokens.resize(static_cast<std::size_t>(length));
    set.read_tokens(index, tokens);
    const auto wrong = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
      return token < 0 || token >= model.vocabulary;
    });
    if (wrong != tokens.end())
      throw DataError(fmt::format(
          "{} has the token {}, but the model has the tokens 0 to {}: use the vocabulary that the "
          "model was made for",
          sample(), *wrong, model.vocabulary - 1));
  }
}

}  // namespace ddprun::trainer
