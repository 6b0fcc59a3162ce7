// What the options about the workers' logs say: torchrun's small grammars. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/streams/log_settings.hpp"
#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// Some of a worker's two output streams.
struct StreamSet {
  bool standard_output = false;
  bool standard_error = false;
  friend bool operator==(const StreamSet&, const StreamSet&) = default;
};

/// --redirects or --tee: which streams of which local rank.
struct StreamMap {
  StreamSet others;                  ///< of the ranks that are not in the map
  std::map<int, StreamSet> by_rank;  ///< by local rank

  [[nodiscard]] StreamSet of(int local_rank) const;
  [[nodiscard]] bool empty() const;
};

/// `0` to `3` for all workers, or `RANK:0..3,RANK:0..3` with any local ranks, the last of equal
/// ones counts. 1 is stdout, 2 stderr, 3 both. `spelling` is how the user wrote it, for the
/// message.
LaunchResult<StreamMap> parse_stream_map(std::string_view text, const std::string& spelling);

/// Texts with commas between them; two commas are one comma in a text. Empty texts are left out.
std::vector<std::string> parse_texts(std::string_view text);

/// `0,4-7`: ranks from 0, in any order, ranges with both ends. `spelling` as above.
LaunchResult<agent::RankSet> parse_ranks(std::string_view text, const std::string& spelling);

/// `500000`, `64K`, `100M`, `2G`: bytes, 1 or more; the letters are powers of 1024.
LaunchResult<std::uint64_t> parse_bytes(std::string_view text, const std::string& spelling);

/// True, or the usage error of a template that names in `${...}` what no prefix has.
LaunchResult<bool> check_prefix_template(std::string_view text, const std::string& spelling);

/// --color, with the user's own wishes in `environment` (NO_COLOR, TERM) seen to.
enum class ColourMode { automatic, always, never };
ColourMode colour_mode(ColourMode asked, const Environment& environment);

/// --fold: where the same line of several workers is shown once.
enum class FoldMode { automatic, always, off };

struct LogOptions {
  std::string folder;  ///< empty: not given; /dev/null: no files wanted
  StreamMap redirects;
  StreamMap tee;
  std::optional<std::vector<int>> console_ranks;  ///< local ranks; empty: all
  std::string console_ranks_spelling;             ///< as typed, for messages
  std::string shown_ranks_spelling;
  std::string prefix_template;   ///< empty: not given
  bool prefix_given = false;     ///< by the option, so that also a single worker has it
  bool called_torchrun = false;  ///< ddprun was started under this name
  bool no_prefix = false;        ///< whole lines, and nothing before them
  ColourMode colour = ColourMode::automatic;
  FoldMode fold = FoldMode::automatic;
  agent::LogSettings lines;
};

class ParsedCommandLine;

/// All options about logs, checked.
LaunchResult<LogOptions> log_options(const ParsedCommandLine& parsed,
                                     const Environment& environment);

}  // namespace ddprun::launcher
