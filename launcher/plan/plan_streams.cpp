// Where the workers' output goes: here, to files, or both.
#include <algorithm>

#include "agent/streams/line_prefix.hpp"
#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {

using agent::StreamMode;
using agent::StreamSettings;

namespace {

constexpr std::string_view kNullDevice = "/dev/null";

// What torchrun writes before teed lines, for those who call ddprun by that name.
constexpr std::string_view kTeePrefix = "[${role_name}${local_rank}]:";

/// How a stream that is only shown reaches us.
StreamMode shown_mode(OutputMode mode, bool terminal) {
  switch (mode) {
    case OutputMode::raw:
      return StreamMode::inherit;
    case OutputMode::pty:
      return StreamMode::pty;
    case OutputMode::pipe:
      return StreamMode::pipe;
    case OutputMode::prefix:
      break;
  }
  return terminal ? StreamMode::pty : StreamMode::pipe;
}

StreamSettings stream_settings(bool redirected, bool teed, bool shown, bool capped,
                               StreamMode otherwise) {
  if (teed) return {StreamMode::pipe, shown, true};
  // The process that begins new files must be the one that writes them.
  if (redirected && capped) return {StreamMode::pipe, false, true};
  if (redirected) return {StreamMode::file, false, true};
  return {shown ? otherwise : StreamMode::null, shown, false};
}

/// A stderr that is not shown is read, too: the verdict wants its last lines.
StreamSettings stderr_settings(StreamSettings stream) {
  if (stream.mode == StreamMode::null) stream.mode = StreamMode::pipe;
  return stream;
}

/// How the streams of a single worker that are only shown reach us.
struct OwnStreams {
  StreamMode out = StreamMode::inherit;
  StreamMode err = StreamMode::inherit;
};

/// A terminal is the worker's own. Anything else gets its stderr through us, so that the report can
/// name the cause; and its stdout with it where both are one, or their order would be lost.
OwnStreams own_streams(const Probes& probes) {
  if (probes.stderr_is_terminal) return {};
  return {probes.one_output ? StreamMode::copy : StreamMode::inherit, StreamMode::copy};
}

bool coloured(ColourMode mode, bool terminal) {
  return mode == ColourMode::always || (mode == ColourMode::automatic && terminal);
}

bool shown_here(const LogOptions& logs, int local_rank) {
  if (!logs.console_ranks) return true;
  return std::find(logs.console_ranks->begin(), logs.console_ranks->end(), local_rank) !=
         logs.console_ranks->end();
}

/// Ranks that an option names and the job does not have: public command lines are used with fewer
/// workers than they were written for.
void warn_of_missing_ranks(const StreamMap& map, const char* option, LaunchPlan& plan) {
  const auto workers = static_cast<int>(plan.agent.workers.size());
  if (!map.by_rank.empty() && map.by_rank.rbegin()->first >= workers) {
    plan.warnings.push_back(std::string(option) + " names local rank " +
                            std::to_string(map.by_rank.rbegin()->first) + ", but there are only " +
                            std::to_string(workers) + " workers here, counted from 0");
  }
}

/// Warns where the ranks that are to be shown do not exist.
void warn_of_filtered_ranks(const LogOptions& logs, LaunchPlan& plan) {
  const auto workers = static_cast<int>(plan.agent.workers.size());
  const auto warn = [&](const std::string& spelling, const char* kind, int missing, bool any) {
    if (missing < 0) return;
    const std::string rank = std::string(kind) + "rank";
    plan.warnings.push_back(spelling + ": there is no " +
                            (any ? rank + " " + std::to_string(missing) : "such " + rank) + ", " +
                            rank + "s are 0 to " + std::to_string(workers - 1) +
                            (any ? "" : "; nothing will be shown"));
  };
  int missing = -1;
  bool any = false;
  for (const auto& [first, last] : logs.lines.shown_ranks.ranges) {
    any = any || first < workers;
    if (last >= workers && missing < 0) missing = std::max(first, workers);
  }
  warn(logs.shown_ranks_spelling, "", missing, any);
  if (!logs.console_ranks) return;
  missing = -1;
  any = false;
  for (const int rank : *logs.console_ranks) {
    any = any || rank < workers;
    if (rank >= workers && missing < 0) missing = rank;
  }
  warn(logs.console_ranks_spelling, "local ", missing, any);
}

/// Which streams go to files.
struct FileStreams {
  bool possible = true;
  StreamMap redirects;
  StreamMap tee;
};

FileStreams file_streams(const LogOptions& logs, LaunchPlan& plan) {
  // torchrun's rule: /dev/null as the folder means no files, and the console stays as it is.
  if (logs.folder == kNullDevice) return {false, {}, {}};
  const FileStreams files{true, logs.redirects, logs.tee};
  warn_of_missing_ranks(files.redirects, "--redirects", plan);
  warn_of_missing_ranks(files.tee, "--tee", plan);
  return files;
}

/// How the workers' streams that are only shown reach us.
OwnStreams shown_streams(const LaunchOptions& options, const Probes& probes, std::size_t workers) {
  // What comes through ssh is merged with the output of other hosts.
  const bool is_alone = workers == 1 && !options.ssh_node;
  const auto& mode = options.output.mode;
  if (is_alone && !mode && !options.output.logs.prefix_given) return own_streams(probes);
  return {shown_mode(mode.value_or(OutputMode::prefix), probes.stdout_is_terminal),
          shown_mode(mode.value_or(OutputMode::prefix), probes.stderr_is_terminal)};
}

void plan_worker_streams(const LogOptions& logs, const FileStreams& files, const OwnStreams& shown,
                         agent::AgentConfig& agent) {
  const bool capped = logs.lines.rotation.bytes_max > 0;
  int local_rank = 0;
  for (agent::WorkerSettings& worker : agent.workers) {
    const StreamSet redirected = files.redirects.of(local_rank);
    const StreamSet teed = files.tee.of(local_rank);
    const bool is_shown = shown_here(logs, local_rank++);
    worker.standard_output = stream_settings(redirected.standard_output, teed.standard_output,
                                             is_shown, capped, shown.out);
    worker.standard_error = stderr_settings(stream_settings(
        redirected.standard_error, teed.standard_error, is_shown, capped, shown.err));
    if (worker.standard_output.mode == StreamMode::copy &&
        worker.standard_error.mode != StreamMode::copy)
      worker.standard_output.mode = StreamMode::inherit;
    // As if the worker wrote there itself: a slow reader slows it, and nothing is lost.
    if (worker.standard_error.mode == StreamMode::copy &&
        agent.logs.policy == agent::LogPolicy::automatic)
      agent.logs.policy = agent::LogPolicy::block;
  }
}

/// Prefixes, folded lines and colours.
void plan_lines(const LaunchOptions& options, const Probes& probes, bool has_tee,
                agent::AgentConfig& agent) {
  const LogOptions& logs = options.output.logs;
  agent.streams.prefix_template = logs.prefix_template;
  if (agent.streams.prefix_template.empty())
    agent.streams.prefix_template =
        logs.called_torchrun && has_tee ? kTeePrefix : agent::kRankPrefix;
  if (logs.no_prefix) agent.streams.prefix_template.clear();
  const bool folds =
      logs.fold != FoldMode::off && agent.streams.prefix_template == agent::kRankPrefix;
  const bool always_folds = logs.fold == FoldMode::always;
  agent.streams.fold_stdout = folds && (always_folds || probes.stdout_is_terminal);
  agent.streams.fold_stderr = folds && (always_folds || probes.stderr_is_terminal);
  const auto& node = options.ssh_node;
  agent.streams.colour_stdout =
      coloured(logs.colour, node ? node->stdout_is_terminal : probes.stdout_is_terminal);
  agent.streams.colour_stderr =
      coloured(logs.colour, node ? node->stderr_is_terminal : probes.stderr_is_terminal);
}

}  // namespace

void plan_streams(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan) {
  const LogOptions& logs = options.output.logs;
  agent::AgentConfig& agent = plan.agent;
  agent.streams.standard_input = options.output.standard_input;
  plan.warden.reads_input = options.output.standard_input != StdinMode::none;
  agent.logs = logs.lines;

  const FileStreams files = file_streams(logs, plan);
  const bool has_files = !files.redirects.empty() || !files.tee.empty();
  warn_of_filtered_ranks(logs, plan);
  if (files.possible && !logs.folder.empty() && !has_files)
    plan.warnings.emplace_back(
        "--log-dir without --tee or --redirects keeps no output of the workers");
  plan.log_folder.wanted = files.possible && (!logs.folder.empty() || has_files);
  plan.log_folder.base = files.possible ? logs.folder : "";

  plan_worker_streams(logs, files, shown_streams(options, probes, agent.workers.size()), agent);
  plan_lines(options, probes, !files.tee.empty(), agent);
  const bool filters = !logs.lines.stdout_filters.empty() || !logs.lines.stderr_filters.empty();
  if (filters && files.tee.empty()) {
    plan.warnings.emplace_back(
        "--duplicate-stdout-filters and --duplicate-stderr-filters see only teed streams: add "
        "--tee=3");
  }
}

}  // namespace ddprun::launcher
