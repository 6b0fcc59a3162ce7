#include "launcher/options/log_options.hpp"

#include <algorithm>

#include "agent/streams/line_prefix.hpp"
#include "base/duration.hpp"
#include "base/substitute.hpp"
#include "base/trimmed.hpp"
#include "launcher/options/option_rows.hpp"
#include "launcher/options/option_value.hpp"

namespace ddprun::launcher {
namespace {

constexpr long long kLocalRankMax = 65'535;
constexpr long long kRankMax = 1'000'000'000;
constexpr long long kLogKeepMax = 1'000;
constexpr std::string_view kNoPrefix = "none";

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

LaunchResult<StreamMap> parse_stream_map(std::string_view text, const std::string& spelling) {
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

LaunchResult<agent::RankSet> parse_ranks(std::string_view text, const std::string& spelling) {
  agent::RankSet ranks;
  while (true) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma);
    const auto dash = entry.find('-');
    const auto first = parse_integer(entry.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_integer(entry.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kRankMax)
      return usage_error(spelling + ": expected ranks and ranges of them, as in 0,4-7");
    ranks.ranges.emplace_back(static_cast<int>(*first), static_cast<int>(*last));
    if (comma == std::string_view::npos) return ranks;
    text.remove_prefix(comma + 1);
  }
}

LaunchResult<std::uint64_t> parse_bytes(std::string_view text, const std::string& spelling) {
  if (const auto bytes = parse_byte_count(text)) return *bytes;
  return usage_error(spelling + ": expected bytes, 1 or more, " + std::string(kByteCountExamples));
}

LaunchResult<bool> check_prefix_template(std::string_view text, const std::string& spelling) {
  const auto& known = agent::kPrefixNames;
  for (const std::string& name : braced_names(text)) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return usage_error(spelling + ": ${" + name + "} is not known; expected " +
                       enumerate({known.begin(), known.end()}));
  }
  return true;
}

ColourMode colour_mode(ColourMode asked, const Environment& environment) {
  if (asked != ColourMode::automatic) return asked;
  const bool unwanted = !lookup(environment, "NO_COLOR").value_or("").empty();
  return unwanted || lookup(environment, "TERM") == "dumb" ? ColourMode::never : asked;
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

LaunchResult<LogOptions> log_options(const ParsedCommandLine& parsed,
                                     const Environment& environment) {
  LogOptions logs;
  logs.folder = parsed.text("log-dir");
  auto redirects = parse_stream_map(parsed.text("redirects"), parsed.spelling("redirects"));
  if (!redirects) return redirects.error();
  logs.redirects = std::move(*redirects);
  auto tee = parse_stream_map(parsed.text("tee"), parsed.spelling("tee"));
  if (!tee) return tee.error();
  logs.tee = std::move(*tee);
  if (const std::string ranks = parsed.text("local-ranks-filter"); !ranks.empty()) {
    logs.console_ranks = parse_indexes(ranks);
    logs.console_ranks_spelling = parsed.spelling("local-ranks-filter");
    if (!logs.console_ranks) {
      return usage_error(parsed.spelling("local-ranks-filter") +
                         ": expected local ranks with commas between them, none twice, as in 0,1");
    }
  }
  logs.prefix_template = parsed.text("log-line-prefix-template");
  const auto known =
      check_prefix_template(logs.prefix_template, parsed.spelling("log-line-prefix-template"));
  if (!known) return known.error();
  logs.no_prefix = logs.prefix_template == kNoPrefix;
  logs.prefix_given = !logs.prefix_template.empty() && !logs.no_prefix;
  // What this variable names and we do not know stays as it is, as under torchrun.
  if (logs.prefix_template.empty()) {
    logs.prefix_template =
        lookup(environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
  }
  if (const std::string ranks = parsed.text("rank-filter"); !ranks.empty()) {
    auto shown = parse_ranks(ranks, parsed.spelling("rank-filter"));
    if (!shown) return shown.error();
    logs.lines.shown_ranks = std::move(*shown);
    logs.shown_ranks_spelling = parsed.spelling("rank-filter");
  }
  logs.colour = colour_mode(choice<ColourMode>(parsed, "color"), environment);
  logs.fold = choice<FoldMode>(parsed, "fold");
  logs.lines.policy = choice<agent::LogPolicy>(parsed, "log-policy");
  if (const std::string size = parsed.text("log-max-size"); !size.empty()) {
    const auto bytes = parse_bytes(size, parsed.spelling("log-max-size"));
    if (!bytes) return bytes.error();
    logs.lines.rotation.bytes_max = *bytes;
  }
  const auto keep = parsed.integer_up_to("log-keep", kLogKeepMax);
  if (!keep) return keep.error();
  logs.lines.rotation.keep = *keep;
  logs.lines.bar_interval = parsed.seconds("bar-interval").value_or(logs.lines.bar_interval);
  logs.lines.stdout_filters = parse_texts(parsed.text("duplicate-stdout-filters"));
  logs.lines.stderr_filters = parse_texts(parsed.text("duplicate-stderr-filters"));
  return logs;
}

}  // namespace ddprun::launcher
