#include "machine/cpus/cpu_set.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <optional>

namespace ddprun::machine {
namespace {

constexpr int kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;
constexpr std::size_t kFirstMaskWords = 1024 / kBitsPerWord;
constexpr std::size_t kMaskWordsMax = (std::size_t{1} << 20U) / kBitsPerWord;

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(kBlanks) + 1));
  return text;
}

std::optional<int> cpu_number(std::string_view text) {
  text = without_blanks(text);
  int number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0 || number > kCpuNumberMax)
    return std::nullopt;
  return number;
}

struct CpuRange {
  int first;
  int last;
};

std::optional<CpuRange> cpu_range(std::string_view piece) {
  const auto dash = piece.find('-');
  const auto first = cpu_number(piece.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : cpu_number(piece.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return CpuRange{*first, *last};
}

/// What a message may show of a text from outside.
std::string shown(std::string_view text) {
  constexpr std::size_t kShownMax = 40;
  std::string result(text.substr(0, kShownMax));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "\"" + result + (text.size() > kShownMax ? "...\"" : "\"");
}

}  // namespace

std::string format_cpus(const CpuSet& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[first]);
    if (i > first) text += "-" + std::to_string(cpus[i]);
  }
  return text;
}

Placed<CpuSet> parse_cpus(std::string_view text) {
  if (without_blanks(text).empty())
    return PlacementError("no CPU is named; write numbers and ranges as in 0-3,8");
  // Marked first: ranges may overlap, and a long text then asks for no more memory than a short
  // one.
  std::vector<bool> named;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    const std::string_view piece = text.substr(begin, comma - begin);
    const auto range = cpu_range(piece);
    if (!range) {
      return PlacementError(shown(piece) + " is no CPU number or range; write them as in 0-3,8 (" +
                            std::to_string(kCpuNumberMax) + " at most)");
    }
    const auto end = static_cast<std::size_t>(range->last) + 1;
    if (named.size() < end) named.resize(end);
    std::fill(named.begin() + range->first, named.begin() + static_cast<std::ptrdiff_t>(end), true);
    begin = comma + 1;
  }
  CpuSet cpus;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i]) cpus.push_back(static_cast<int>(i));
  }
  return cpus;
}

std::vector<unsigned long> affinity_mask(const CpuSet& cpus) {
  std::vector<unsigned long> mask;
  if (!cpus.empty()) mask.resize(static_cast<std::size_t>(cpus.back() / kBitsPerWord) + 1);
  for (const int cpu : cpus)
    mask[static_cast<std::size_t>(cpu / kBitsPerWord)] |= 1UL << (cpu % kBitsPerWord);
  return mask;
}

Result<CpuSet> allowed_cpus() {
  // The kernel refuses a mask with fewer bits than it has CPUs, and does not tell how many it
  // wants.
  std::vector<unsigned long> mask(kFirstMaskWords);
  while (true) {
    const long bytes = syscall(SYS_sched_getaffinity, 0, mask.size() * sizeof mask[0], mask.data());
    if (bytes >= 0) break;
    if (errno != EINVAL || mask.size() >= kMaskWordsMax) return last_system_error();
    mask.assign(mask.size() * 2, 0);
  }
  CpuSet cpus;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (int bit = 0; mask[word] >> bit != 0; ++bit) {
      if ((mask[word] >> bit & 1U) != 0)
        cpus.push_back(static_cast<int>(word) * kBitsPerWord + bit);
      if (bit == kBitsPerWord - 1) break;  // a shift by all bits is undefined
    }
  }
  return cpus;
}

}  // namespace ddprun::machine
