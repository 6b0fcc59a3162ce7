#include "agent/streams/line_fold.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace ddprun::agent {

void LineFold::set_ranks(const std::vector<int>& ranks) {
  std::map<int, std::uint64_t> printed;
  for (const int rank : ranks) printed[rank] = printed_.contains(rank) ? printed_[rank] : 0;
  printed_ = std::move(printed);
}

void LineFold::add(int rank, std::string_view text, Clock::time_point now) {
  const std::size_t hash = std::hash<std::string_view>()(text);
  std::uint64_t& printed = printed_[rank];
  // Only a line behind the last one of this rank, or they would change their order.
  auto number = std::max(printed + 1, std::max(first_, released_));
  for (; number < first_ + held_.size(); ++number) {
    Held& held = held_[static_cast<std::size_t>(number - first_)];
    if (held.hash != hash || held.line.text != text) continue;
    std::vector<int>& ranks = held.line.ranks;
    ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank), rank);
    printed = number;
    return;
  }
  held_.push_back({{{rank}, std::string(text)}, hash, now});
  held_bytes_ += text.size();
  printed = number;
}

bool LineFold::is_final(Clock::time_point now) const {
  if (first_ < released_ || now - held_.front().since >= kHold) return true;
  if (held_.size() > kLinesMax || held_bytes_ > kBytesMax) return true;
  // Each rank has printed it, or another line behind it.
  return std::all_of(printed_.begin(), printed_.end(),
                     [this](const auto& rank) { return rank.second >= first_; });
}

std::optional<LineFold::Line> LineFold::next(Clock::time_point now) {
  if (held_.empty() || !is_final(now)) return std::nullopt;
  Line line = std::move(held_.front().line);
  held_.pop_front();
  held_bytes_ -= line.text.size();
  ++first_;
  return line;
}

std::optional<LineFold::Clock::time_point> LineFold::due() const {
  if (held_.empty()) return std::nullopt;
  return held_.front().since + kHold;
}

std::uint64_t LineFold::held_until(int rank) const {
  const auto printed = printed_.find(rank);
  return printed == printed_.end() || printed->second < first_ ? 0 : printed->second - first_ + 1;
}

void LineFold::release(int rank) {
  const auto printed = printed_.find(rank);
  if (printed != printed_.end()) released_ = std::max(released_, printed->second + 1);
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    while (last + 1 != ranks.end() && *(last + 1) == *last + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(*first);
    if (last != first) text += '-' + std::to_string(*last);
    first = last + 1;
  }
  return text;
}

}  // namespace ddprun::agent
