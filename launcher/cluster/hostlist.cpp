#include "launcher/cluster/hostlist.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/number_in.hpp"

namespace ddprun::launcher {
namespace {

/// More are beyond 64 bits.
constexpr std::size_t kDigitsMax = 18;

bool is_separator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

/// Reads from left to right; `problem_` is set at the first thing that is wrong.
class HostlistParser {
 public:
  explicit HostlistParser(std::string_view text) { list_.text_ = text; }

  boost::system::result<Hostlist, std::string> parse() {
    if (text().size() > Hostlist::kBytesMax) {
      return fail(fmt::format("{} bytes are more than the {} that a list of hosts may have",
                              text().size(), Hostlist::kBytesMax));
    }
    while (problem_.empty() && skip_separators()) read_entry();
    if (problem_.empty() && list_.entries_.empty()) return fail("it names no host");
    if (!problem_.empty()) return fail(std::move(problem_));
    return std::move(list_);
  }

 private:
  using Result = boost::system::result<Hostlist, std::string>;
  static Result fail(std::string why) { return {boost::system::in_place_error, std::move(why)}; }

  [[nodiscard]] const std::string& text() const { return list_.text_; }
  [[nodiscard]] bool at_end() const { return at_ == text().size(); }
  [[nodiscard]] std::uint32_t place() const { return static_cast<std::uint32_t>(at_); }

  bool skip_separators() {
    while (!at_end() && is_separator(text()[at_])) ++at_;
    return !at_end();
  }

  void refuse(std::size_t at, std::string_view why) {
    if (problem_.empty()) problem_ = fmt::format("character {}: {}", at + 1, why);
  }

  void read_entry() {
    const std::size_t begin = at_;
    const auto first_part = static_cast<std::uint32_t>(list_.parts_.size());
    std::uint64_t hosts = 1;
    name_bytes_ = 0;
    while (problem_.empty() && !at_end() && !is_separator(text()[at_])) {
      read_part();
      // Both are at most a million, or there is a problem.
      hosts *= list_.parts_.back().values;
      if (list_.hosts_ + hosts > Hostlist::kHostsMax)
        refuse(begin, fmt::format("more than {} hosts", Hostlist::kHostsMax));
    }
    if (name_bytes_ > Hostlist::kNameBytesMax)
      refuse(begin, fmt::format("a name of more than {} bytes", Hostlist::kNameBytesMax));
    list_.entries_.push_back(
        {first_part, static_cast<std::uint32_t>(list_.parts_.size()), list_.hosts_});
    list_.hosts_ += hosts;
  }

  void read_part() {
    Hostlist::Part& part = list_.parts_.emplace_back();
    part.text_begin = place();
    while (!at_end() && !is_separator(text()[at_]) && text()[at_] != '[') {
      const auto c = static_cast<unsigned char>(text()[at_]);
      if (c == ']') return refuse(at_, "']' without '['");
      if (c < 0x21 || c > 0x7e) return refuse(at_, "no character of a host's name");
      ++at_;
    }
    part.text_end = place();
    name_bytes_ += part.text_end - part.text_begin;
    part.range_begin = part.range_end = static_cast<std::uint32_t>(list_.ranges_.size());
    if (!at_end() && text()[at_] == '[') read_bracket(part);
  }

  void read_bracket(Hostlist::Part& part) {
    const std::size_t begin = at_;
    const std::size_t end = text().find(']', begin);
    if (end == std::string::npos) return refuse(begin, "'[' is not closed");
    part.values = 0;
    std::size_t digits_max = 0;
    do {
      ++at_;  // '[' or ','
      const std::size_t range_at = at_;
      const auto range = read_range();
      if (!range) return;
      part.values += range->last - range->first + 1;
      if (part.values > Hostlist::kHostsMax)
        return refuse(range_at, fmt::format("more than {} hosts", Hostlist::kHostsMax));
      digits_max =
          std::max({digits_max, std::size_t{range->digits}, fmt::format("{}", range->last).size()});
      list_.ranges_.push_back(*range);
    } while (text()[at_] == ',');
    if (at_ != end) return refuse(at_, "expected a number, ',' or ']'");
    ++at_;
    name_bytes_ += digits_max;
    part.range_end = static_cast<std::uint32_t>(list_.ranges_.size());
  }

  /// `7` or `07-09`. The bracket is closed, so that there is a character behind it.
  std::optional<Hostlist::Range> read_range() {
    const std::size_t begin = at_;
    Hostlist::Range range;
    const auto first = read_number();
    if (!first) return std::nullopt;
    range.first = range.last = *first;
    range.digits = place() - static_cast<std::uint32_t>(begin);
    if (text()[at_] != '-') return range;
    ++at_;
    const auto last = read_number();
    if (!last) return std::nullopt;
    range.last = *last;
    if (range.last < range.first) {
      refuse(begin, "a range ends before it begins");
      return std::nullopt;
    }
    if (range.last - range.first >= Hostlist::kRangeMax) {
      refuse(begin, fmt::format("a range of more than {} hosts", Hostlist::kRangeMax));
      return std::nullopt;
    }
    return range;
  }

  std::optional<std::uint64_t> read_number() {
    const std::size_t begin = at_;
    while (is_digit(text()[at_])) ++at_;
    const std::string_view digits = std::string_view(text()).substr(begin, at_ - begin);
    if (digits.empty()) {
      refuse(begin, "expected a number");
    } else if (digits.size() > kDigitsMax) {
      refuse(begin, fmt::format("a number of more than {} digits", kDigitsMax));
    } else {
      return number_in<std::uint64_t>(digits);
    }
    return std::nullopt;
  }

  Hostlist list_;
  std::size_t at_ = 0;
  std::size_t name_bytes_ = 0;  // of the entry's longest host
  std::string problem_;
};

boost::system::result<Hostlist, std::string> Hostlist::parse(std::string_view text) {
  return HostlistParser(text).parse();
}

std::string Hostlist::value(const Part& part, std::uint64_t place) const {
  for (std::uint32_t i = part.range_begin; i < part.range_end; ++i) {
    const Range& range = ranges_[i];
    const std::uint64_t values = range.last - range.first + 1;
    if (place < values) return fmt::format("{:0{}}", range.first + place, range.digits);
    place -= values;
  }
  return "";
}

std::string Hostlist::name(std::uint64_t place) const {
  DDPRUN_ASSERT(place < hosts_, "the list has that many hosts");
  const auto behind =
      std::upper_bound(entries_.begin(), entries_.end(), place,
                       [](std::uint64_t wanted, const Entry& one) { return wanted < one.place; });
  const Entry& entry = *(behind - 1);
  place -= entry.place;
  std::uint32_t last = entry.part_end - 1;
  while (last > entry.part_begin && parts_[last].range_begin == parts_[last].range_end) --last;
  std::uint64_t others = place / parts_[last].values;
  std::string name;
  for (std::uint32_t i = entry.part_begin; i < entry.part_end; ++i) {
    const Part& part = parts_[i];
    name += std::string_view(text_).substr(part.text_begin, part.text_end - part.text_begin);
    if (i == last) {
      name += value(part, place % part.values);
    } else {
      name += value(part, others % part.values);
      others /= part.values;
    }
  }
  return name;
}

}  // namespace ddprun::launcher
