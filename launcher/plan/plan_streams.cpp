// Where the workers' output goes: here, to files, or both.
#include <algorithm>

#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kNullDevice = "/dev/null";

// What torchrun writes before teed lines, and what we write before the others.
constexpr std::string_view kTeePrefix = "[${role_name}${local_rank}]:";
constexpr std::string_view kOwnPrefix = "[rank${rank}] ";

/// How a stream that is only shown reaches us.
StreamTransport shown_transport(OutputMode mode, bool terminal) {
  switch (mode) {
    case OutputMode::raw:
      return StreamTransport::inherit;
    case OutputMode::pty:
      return StreamTransport::pty;
    case OutputMode::pipe:
      return StreamTransport::pipe;
    case OutputMode::prefix:
      break;
  }
  return terminal ? StreamTransport::pty : StreamTransport::pipe;
}

StreamPlan stream_plan(bool redirected, bool teed, bool shown, bool capped,
                       StreamTransport otherwise) {
  if (teed) return {StreamTransport::pipe, shown, true};
  // The process that begins new files must be the one that writes them.
  if (redirected && capped) return {StreamTransport::pipe, false, true};
  if (redirected) return {StreamTransport::file, false, true};
  return {shown ? otherwise : StreamTransport::null, shown, false};
}

/// Of a stderr that is not shown the verdict still wants the last lines.
StreamPlan stderr_plan(StreamPlan plan) {
  if (plan.transport == StreamTransport::null) plan.transport = StreamTransport::pipe;
  return plan;
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
void note_missing_ranks(const StreamMap& map, const char* option, LaunchPlan& plan) {
  const auto workers = static_cast<int>(plan.workers.size());
  if (!map.by_rank.empty() && map.by_rank.rbegin()->first >= workers) {
    plan.notes.push_back(std::string(option) + " names local rank " +
                         std::to_string(map.by_rank.rbegin()->first) + ", but there are only " +
                         std::to_string(workers) + " workers here, counted from 0");
  }
}

/// The same for the options that choose the ranks to show.
void note_filtered_ranks(const LogOptions& logs, LaunchPlan& plan) {
  const auto workers = static_cast<int>(plan.workers.size());
  const auto note = [&](const std::string& spelling, const char* kind, int missing, bool any) {
    if (missing < 0) return;
    const std::string rank = std::string(kind) + "rank";
    plan.notes.push_back(spelling + ": there is no " +
                         (any ? rank + " " + std::to_string(missing) : "such " + rank) + ", " +
                         rank + "s are 0 to " + std::to_string(workers - 1) +
                         (any ? "" : "; nothing will be shown"));
  };
  int missing = -1;
  bool any = false;
  for (const auto& [first, last] : logs.shown_ranks.ranges) {
    any = any || first < workers;
    if (last >= workers && missing < 0) missing = std::max(first, workers);
  }
  note(logs.shown_ranks_spelling, "", missing, any);
  if (!logs.console_ranks) return;
  missing = -1;
  any = false;
  for (const int rank : *logs.console_ranks) {
    any = any || rank < workers;
    if (rank >= workers && missing < 0) missing = rank;
  }
  note(logs.console_ranks_spelling, "local ", missing, any);
}

}  // namespace

void plan_streams(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan) {
  const LogOptions& logs = options.logs;
  const auto workers = static_cast<int>(plan.workers.size());
  plan.standard_input = options.standard_input;
  // torchrun's rule: /dev/null as the folder means no files, and the console stays as it is.
  const bool files = logs.folder != kNullDevice;
  const StreamMap redirects = files ? logs.redirects : StreamMap{};
  const StreamMap tee = files ? logs.tee : StreamMap{};
  note_missing_ranks(redirects, "--redirects", plan);
  note_missing_ranks(tee, "--tee", plan);

  note_filtered_ranks(logs, plan);
  if (files && !logs.folder.empty() && redirects.empty() && tee.empty())
    plan.notes.emplace_back(
        "--log-dir without --tee or --redirects keeps no output of the workers");

  const auto mode = options.output.value_or(workers == 1 ? OutputMode::raw : OutputMode::prefix);
  const auto out = shown_transport(mode, probes.stdout_is_terminal);
  const auto err = shown_transport(mode, probes.stderr_is_terminal);
  for (WorkerPlan& worker : plan.workers) {
    const StreamSet redirected = redirects.of(worker.local_rank);
    const StreamSet teed = tee.of(worker.local_rank);
    const bool shown = shown_here(logs, worker.local_rank);
    const bool capped = logs.rotation.bytes_max > 0;
    worker.standard_output =
        stream_plan(redirected.standard_output, teed.standard_output, shown, capped, out);
    worker.standard_error = stderr_plan(
        stream_plan(redirected.standard_error, teed.standard_error, shown, capped, err));
  }
  plan.logs.wanted = files && (!logs.folder.empty() || !redirects.empty() || !tee.empty());
  plan.logs.base = files ? logs.folder : "";
  if (!logs.no_prefix) plan.logs.prefix_template = logs.prefix_template;
  if (plan.logs.prefix_template.empty() && !logs.no_prefix)
    plan.logs.prefix_template = tee.empty() ? kOwnPrefix : kTeePrefix;
  plan.logs.colour_stdout = coloured(logs.colour, probes.stdout_is_terminal);
  plan.logs.colour_stderr = coloured(logs.colour, probes.stderr_is_terminal);
  const bool filters = !logs.stdout_filters.empty() || !logs.stderr_filters.empty();
  if (filters && tee.empty()) {
    plan.notes.emplace_back(
        "--duplicate-stdout-filters and --duplicate-stderr-filters see only teed streams: add "
        "--tee=3");
  }
}

}  // namespace ddprun::launcher
