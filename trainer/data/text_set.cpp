#include "trainer/data/text_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::array<std::string_view, kSpecialTokens> kSpecialTexts{"<s>", "<pad>", "</s>",
                                                                     "<unk>"};
constexpr std::string_view kBlanks = " \t\v\f\r\n";

/// Calls `use` with each word until it returns false.
template <class Use>
void for_each_word(std::string_view sentence, const Use& use) {
  while (true) {
    const std::size_t begin = std::min(sentence.find_first_not_of(kBlanks), sentence.size());
    sentence.remove_prefix(begin);
    if (sentence.empty()) return;
    const std::size_t end = std::min(sentence.find_first_of(kBlanks), sentence.size());
    if (!use(sentence.substr(0, end))) return;
    sentence.remove_prefix(end);
  }
}

std::uint64_t hash_of(const TokenizedTexts& texts, std::uint64_t hash_start) {
  const auto hash = [](const auto& values, std::uint64_t start) {
    return hash_bytes(std::as_bytes(std::span(values)), values.size(), start);
  };
  return hash(texts.labels, hash(texts.ends, hash(texts.tokens, hash_start)));
}

}  // namespace

WordVocabulary::WordVocabulary(std::span<const std::string_view> sentences) {
  // False: seen once.
  boost::unordered_flat_map<std::string_view, bool> is_repeated;
  std::vector<std::string_view> in_order;
  for (const std::string_view sentence : sentences) {
    for_each_word(sentence, [&](std::string_view word) {
      const auto [place, is_new] = is_repeated.try_emplace(word, false);
      if (is_new) {
        in_order.push_back(word);
      } else {
        place->second = true;
      }
      return true;
    });
  }
  for (const std::string_view special : kSpecialTexts) {
    is_repeated.erase(special);
    text_.append(special).push_back('\n');
  }
  std::size_t at = text_.size();
  const auto is_kept = [&](std::string_view word) {
    const auto place = is_repeated.find(word);
    return place != is_repeated.end() && place->second;
  };
  std::vector<std::size_t> sizes;
  for (const std::string_view word : in_order) {
    if (!is_kept(word)) continue;
    sizes.push_back(word.size());
    text_.append(word).push_back('\n');
  }
  ids_.reserve(sizes.size());
  std::int32_t id = kSpecialTokens;
  for (const std::size_t size : sizes) {
    ids_.emplace(std::string_view(text_).substr(at, size), id++);
    at += size + 1;
  }
}

WordVocabulary::WordVocabulary(std::string text, const std::string& file) : text_(std::move(text)) {
  const auto refuse = [&](std::size_t line, const char* what) {
    throw DataError(fmt::format("{}: line {} {}: take the file of the checkpoint as it was written",
                                file, line, what));
  };
  std::string_view rest = text_;
  for (std::size_t line = 1; !rest.empty() || line <= kSpecialTexts.size(); ++line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) refuse(line, rest.empty() ? "is missing" : "has no end");
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line <= kSpecialTexts.size()) {
      if (word != kSpecialTexts[line - 1]) refuse(line, "is none of <s>, <pad>, </s> and <unk>");
    } else if (word.empty() || word.find_first_of(kBlanks) != std::string_view::npos) {
      refuse(line, "is not one word");
    } else if (!ids_.emplace(word, static_cast<std::int32_t>(line - 1)).second) {
      refuse(line, "has a word that another one has");
    }
  }
}

std::int32_t WordVocabulary::id(std::string_view word) const {
  const auto place = ids_.find(word);
  return place == ids_.end() ? kUnknownToken : place->second;
}

bool append_tokens(std::string_view sentence, const WordVocabulary* words, int longest,
                   std::vector<std::int32_t>& tokens) {
  DDPRUN_ASSERT(longest >= 2, "room for <s> and </s>");
  std::size_t room = static_cast<std::size_t>(longest) - 2;
  bool is_cut = false;
  tokens.push_back(kBeginToken);
  if (words == nullptr) {
    is_cut = sentence.size() > room;
    for (const char byte : sentence.substr(0, room))
      tokens.push_back(kSpecialTokens + static_cast<unsigned char>(byte));
  } else {
    for_each_word(sentence, [&](std::string_view word) {
      is_cut = room == 0;
      if (is_cut) return false;
      --room;
      tokens.push_back(words->id(word));
      return true;
    });
  }
  tokens.push_back(kEndToken);
  return is_cut;
}

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
