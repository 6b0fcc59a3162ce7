#include "trainer/data/vocabulary.hpp"

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

}  // namespace ddprun::trainer
