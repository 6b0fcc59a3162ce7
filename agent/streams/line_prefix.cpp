#include "agent/streams/line_prefix.hpp"

#include <fmt/format.h>

#include <ctime>

#include "agent/streams/line_fold.hpp"
#include "base/substitute.hpp"

namespace ddprun::agent {
namespace {

// Cyan, green, yellow, magenta, blue and their bright ones: red is for errors.
constexpr std::array<int, 10> kColours = {36, 32, 33, 35, 34, 96, 92, 93, 95, 94};

std::string clock_text(std::chrono::milliseconds since_epoch) {
  const std::time_t seconds = since_epoch.count() / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec,
                     since_epoch.count() % 1000);
}

std::string in_colour(const std::string& prefix, int rank) {
  const auto colour = static_cast<std::size_t>(rank) % kColours.size();
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[colour], prefix);
}

}  // namespace

std::string ranks_prefix(const std::vector<int>& ranks, bool coloured) {
  const std::string list = rank_list(ranks);
  const std::array<Substitution, 1> names = {{{"rank", list}}};
  const std::string prefix = substitute(kRankPrefix, names);
  return coloured ? in_colour(prefix, ranks.front()) : prefix;
}

LinePrefix::LinePrefix(std::string text, PrefixValues values)
    : template_(std::move(text)), values_(std::move(values)) {
  set(filled("0"));
  has_time_ = filled("1") != plain_;
}

std::string LinePrefix::filled(std::string_view time) const {
  const std::string rank = std::to_string(values_.rank);
  const std::string local = std::to_string(values_.local_rank);
  const std::string round = std::to_string(values_.round);
  const std::array<Substitution, kPrefixNames.size()> names = {{{"rank", rank},
                                                                {"local_rank", local},
                                                                {"role_name", values_.role},
                                                                {"role", values_.role},
                                                                {"hostname", values_.host},
                                                                {"host", values_.host},
                                                                {"round", round},
                                                                {"time", time}}};
  return substitute(template_, names);
}

void LinePrefix::at(std::chrono::system_clock::time_point now) {
  if (!has_time_) return;
  const auto since = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch());
  if (since == shown_) return;
  shown_ = since;
  set(filled(clock_text(since)));
}

void LinePrefix::set(std::string text) {
  plain_ = std::move(text);
  if (!plain_.empty()) coloured_ = in_colour(plain_, values_.rank);
}

}  // namespace ddprun::agent
