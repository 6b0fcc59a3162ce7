#include "launcher/ctl/top_model.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "agent/terminal/terminal_text.hpp"
#include "base/describe.hpp"
#include "base/duration.hpp"
#include "base/printable.hpp"
#include "launcher/ctl/answer_fields.hpp"
#include "proto/json_document.hpp"

namespace ddprun::ctl {
namespace {

using namespace std::chrono_literals;
using proto::JsonDocument;
using proto::JsonValue;

constexpr std::size_t kHistoryMax = 64;
/// The time of a step is that of so long a stretch.
constexpr auto kStretch = 10s;
/// Half a step may be missing at the beginning of fewer ones.
constexpr std::int64_t kStepsForPart = 4;
/// Later than it was asked for.
constexpr auto kAnswerDelay = 2s;

TopTime before(TopTime at, double seconds) {
  constexpr double kLongest = 1e9;
  const std::chrono::duration<double> age(std::clamp(seconds, 0.0, kLongest));
  return at - std::chrono::duration_cast<TopTime::duration>(age);
}

/// A line as a terminal would show it in the end: without colours, and of a progress bar the newest
/// state.
std::string shown_line(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    std::size_t bytes = 1;
    if (line.front() == agent::kEscape) {
      const auto escape = agent::read_escape(line);
      if (escape.kind == agent::EscapeSequence::Kind::incomplete) break;
      bytes = std::max<std::size_t>(escape.bytes, 1);
    } else if (line.front() != '\r') {
      text += line.front();
    } else if (line.size() > 1) {
      text.clear();
    }
    line.remove_prefix(std::min(bytes, line.size()));
  }
  std::replace(text.begin(), text.end(), '\t', ' ');
  return printable(text);
}

void set_state(TopRow& row, const JsonValue& worker) {
  if (const auto signal = whole_in(worker, "signal")) {
    row.state = signal_name(static_cast<int>(*signal));
    row.has_failed = true;
  } else if (const auto code = whole_in(worker, "exit_code")) {
    row.state = fmt::format("exit {}", *code);
    row.has_failed = *code != 0;
  } else {
    row.state = worker.member("slow_factor") ? "slow" : text_in(worker, "state");
    row.has_failed = row.state == "not_started";
    std::replace(row.state.begin(), row.state.end(), '_', ' ');
  }
}

/// Steps that take about as long are equal, or rows would change places at every answer.
int coarse(const TopRow& row) {
  constexpr int kParts = 8;  // of a doubling
  if (!row.step_seconds) return std::numeric_limits<int>::min() + 1;
  int doublings = 0;  // counted, because no function of libm is used: ddpctl starts without it
  double seconds = std::clamp(*row.step_seconds, 1e-9, 1e9);
  for (; seconds >= 2; seconds /= 2) ++doublings;
  for (; seconds < 1; seconds *= 2) --doublings;
  return doublings * kParts + static_cast<int>((seconds - 1) * kParts);
}

bool is_before(const TopRow& one, const TopRow& other) {
  const auto key = [](const TopRow& row) {
    return std::tuple(!row.step.has_value(), row.step.value_or(0), -coarse(row), row.rank);
  };
  return key(one) < key(other);
}

template <class Number>
void add(std::optional<Number>& sum, const std::optional<Number>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

TopNode node_of(const std::vector<TopRow>& rows) {
  TopNode node;
  node.workers = rows.size();
  for (const TopRow& row : rows) {
    node.failed += row.has_failed ? 1 : 0;
    if (row.step) node.step = std::min(node.step.value_or(*row.step), *row.step);
    if (row.step_seconds)
      node.step_seconds = std::max(node.step_seconds.value_or(0), *row.step_seconds);
    add(node.cpu_percent, row.cpu_percent);
    add(node.memory_bytes, row.memory_bytes);
  }
  return node;
}

}  // namespace

double TopModel::seconds_of(const Mark& from, const Mark& to) {
  // A worker's own times may be anything.
  const bool is_plausible = to.reported > from.reported;
  const double seconds = is_plausible ? seconds_between(from.reported, to.reported)
                                      : seconds_between(from.seen, to.seen);
  return std::max(0.0, seconds / static_cast<double>(to.step - from.step));
}

void TopModel::Track::note_step(std::int64_t step, TopTime reported, TopTime at) {
  if (!marks.empty() && step == marks.back().step) return;
  if (!marks.empty() && step < marks.back().step) {  // it has begun anew
    marks.clear();
    history.clear();
  }
  if (marks.empty()) {
    is_first_whole = false;
  } else if (!is_first_whole && step - marks.front().step < kStepsForPart) {
    marks.clear();
    is_first_whole = true;
  } else {
    is_first_whole = true;
  }
  marks.push_back({step, reported, at});
  if (marks.size() > 1) history.push_back(seconds_of(*(marks.end() - 2), marks.back()));
  while (marks.size() > 2 && marks[1].seen + kStretch <= marks.back().seen) marks.pop_front();
  if (history.size() > kHistoryMax) history.pop_front();
}

void TopModel::Track::note_cpu(double seconds, TopTime at) {
  if (cpu_seconds && seconds >= *cpu_seconds && at > cpu_at)
    row.cpu_percent = 100 * (seconds - *cpu_seconds) / seconds_between(cpu_at, at);
  cpu_seconds = seconds;
  cpu_at = at;
}

std::optional<double> TopModel::Track::step_seconds(TopTime at) const {
  if (marks.size() < 2) return std::nullopt;
  const double lasts = seconds_between(marks.back().reported, at);
  return std::max(seconds_of(marks.front(), marks.back()), lasts);
}

bool TopModel::take(const std::string& status, TopTime at) {
  const auto document = JsonDocument::parse(status);
  if (!document || !document->root().member("workers")) return false;
  const JsonValue json = document->root();
  Node& node = nodes_[text_in(json, "node")];
  node.answered = at;
  node.group_rank = whole_in(json, "group_rank").value_or(0);
  node.job.job = text_in(json, "run_id");
  node.job.state = text_in(json, "state");
  node.job.age_seconds = fraction_in(json, "age_seconds").value_or(0);
  node.job.round = whole_in(json, "round");
  node.job.restart_count = whole_in(json, "restart_count").value_or(0);
  node.job.max_restarts = whole_in(json, "max_restarts").value_or(0);
  node.job.world_size = whole_in(json, "world_size").value_or(0);
  node.job.nodes_in_round = whole_in(json, "nodes").value_or(0);
  const bool has_gpus = text_in(json, "devices_variable") == "CUDA_VISIBLE_DEVICES";
  std::map<std::int64_t, Track> tracks;
  const JsonValue workers = *json.member("workers");
  for (std::size_t i = 0; i < workers.array_size().value_or(0); ++i) {
    const JsonValue worker = workers.element(i);
    if (!worker.is_object()) continue;
    const std::int64_t pid = whole_in(worker, "pid").value_or(0);
    const std::int64_t key = pid > 0 ? pid : -1 - static_cast<std::int64_t>(i);
    Track& track = tracks[key];
    if (const auto known = node.tracks.find(key); pid > 0 && known != node.tracks.end())
      track = std::move(known->second);
    TopRow& row = track.row;
    row.rank = whole_in(worker, "rank").value_or(0);
    set_state(row, worker);
    row.phase = text_in(worker, "phase");
    row.age_seconds = fraction_in(worker, "step_age_seconds");
    const auto memory = whole_in(worker, "memory_bytes");
    row.memory_bytes = memory ? std::optional(static_cast<std::uint64_t>(*memory)) : std::nullopt;
    if (const auto line = worker.member("last_line"))
      row.last_line = shown_line(line->text().value_or(""));
    if (const auto step = whole_in(worker, "step")) {
      row.step = step;
      track.note_step(*step, before(at, row.age_seconds.value_or(0)), at);
    }
    const auto cpu = fraction_in(worker, "cpu_seconds");
    if (cpu) track.note_cpu(*cpu, at);
    if (!cpu) row.cpu_percent.reset();
    track.devices = has_gpus && cpu ? text_in(worker, "devices") : "";
  }
  node.tracks = std::move(tracks);
  return true;
}

std::vector<std::string> TopModel::devices() const {
  std::set<std::string> all;
  for (const auto& [name, node] : nodes_)
    for (const auto& [pid, track] : node.tracks)
      if (!track.devices.empty()) all.insert(track.devices);
  return {all.begin(), all.end()};
}

TopRow TopModel::row_of(const Track& track, const Node& node, TopTime now) const {
  TopRow row = track.row;
  row.step_history.assign(track.history.begin(), track.history.end());
  if (row.age_seconds) {
    row.step_seconds = track.step_seconds(node.answered);
    *row.age_seconds += seconds_between(node.answered, now);
  }
  if (const auto use = device_uses_.find(track.devices); use != device_uses_.end())
    row.devices = use->second;
  return row;
}

TopView TopModel::view(TopTime now, TopOrder order) const {
  TopView view;
  for (const auto& [name, node] : nodes_) {
    if (view.nodes.empty() || node.job.round > view.round) {
      auto nodes = std::move(view.nodes);
      auto rows = std::move(view.rows);
      const auto silent = view.silent_seconds;
      view = node.job;
      view.nodes = std::move(nodes);
      view.rows = std::move(rows);
      view.silent_seconds = silent;
    }
    if (now - node.answered > interval_ + kAnswerDelay) {
      const double seconds = seconds_between(node.answered, now);
      view.silent_seconds = std::max(view.silent_seconds.value_or(0), seconds);
    }
    std::vector<TopRow> rows;
    for (const auto& [pid, track] : node.tracks) rows.push_back(row_of(track, node, now));
    TopNode of_node = node_of(rows);
    of_node.name = name;
    of_node.group_rank = node.group_rank;
    view.nodes.push_back(std::move(of_node));
    std::move(rows.begin(), rows.end(), std::back_inserter(view.rows));
  }
  std::sort(view.nodes.begin(), view.nodes.end(),
            [](const auto& a, const auto& b) { return a.group_rank < b.group_rank; });
  std::sort(view.rows.begin(), view.rows.end(), [order](const TopRow& a, const TopRow& b) {
    return order == TopOrder::slowest ? is_before(a, b) : a.rank < b.rank;
  });
  return view;
}

}  // namespace ddprun::ctl
