#include "launcher/log_options.hpp"

#include "launcher/option_value.hpp"

namespace ddprun::launcher {
namespace {

constexpr long long kLocalRankMax = 65'535;

std::optional<StreamSet> stream_set(std::string_view digit) {
  if (digit.size() != 1 || digit[0] < '0' || digit[0] > '3') return std::nullopt;
  const int bits = digit[0] - '0';
  return StreamSet{(bits & 1) != 0, (bits & 2) != 0};
}

}  // namespace

StreamSet StreamMap::of(int local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? others : found->second;
}

bool StreamMap::empty() const {
  if (others != StreamSet{}) return false;
  for (const auto& [rank, set] : by_rank) {
    if (set != StreamSet{}) return false;
  }
  return true;
}

Outcome<StreamMap> parse_stream_map(std::string_view text, const std::string& spelling) {
  StreamMap map;
  if (const auto all = stream_set(text)) {
    map.others = *all;
    return map;
  }
  while (true) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma);
    const auto colon = entry.find(':');
    const auto rank = parse_integer(entry.substr(0, colon));
    const auto set =
        colon == std::string_view::npos ? std::nullopt : stream_set(entry.substr(colon + 1));
    if (!rank || *rank < 0 || *rank > kLocalRankMax || !set) {
      return usage_error(spelling +
                         ": expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all "
                         "workers, or LOCALRANK:0..3 with commas between, as in 0:3,1:2");
    }
    map.by_rank[static_cast<int>(*rank)] = *set;
    if (comma == std::string_view::npos) return map;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> parse_texts(std::string_view text) {
  std::vector<std::string> texts;
  std::string current;
  const auto end_text = [&] {
    if (!current.empty()) texts.push_back(std::move(current));
    current.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      current += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      current += ',';
      ++i;
    } else {
      end_text();
    }
  }
  end_text();
  return texts;
}

}  // namespace ddprun::launcher
