#include "launcher/ctl/screens.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/printable.hpp"
#include "launcher/ctl/answer_fields.hpp"
#include "proto/json_document.hpp"

namespace ddprun::ctl {
namespace {

using proto::JsonDocument;
using proto::JsonValue;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kProgramBytesMax = 60;

std::int64_t number_in(const JsonValue& json, const char* name) {
  return whole_in(json, name).value_or(0);
}

/// Seconds as text; empty: there is no such field.
std::string time_in(const JsonValue& json, const char* name) {
  const auto seconds = fraction_in(json, name);
  if (!seconds) return "";
  return describe(std::chrono::nanoseconds(static_cast<std::int64_t>(*seconds * 1e9)));
}

std::vector<JsonValue> elements_of(const JsonValue& json, const char* name) {
  std::vector<JsonValue> elements;
  const auto list = json.member(name);
  for (std::size_t i = 0; list && i < list->array_size().value_or(0); ++i)
    elements.push_back(list->element(i));
  return elements;
}

std::string program_of(const JsonValue& job) {
  std::string words;
  for (const JsonValue& word : elements_of(job, "program"))
    words += (words.empty() ? "" : " ") + printable(word.text().value_or(""));
  if (words.size() > kProgramBytesMax) words = words.substr(0, kProgramBytesMax) + "...";
  return words;
}

/// Columns as wide as their widest cell, without the empty ones. `indent` spaces before each row.
std::string table(Rows rows, std::size_t indent) {
  std::string text;
  std::vector<std::size_t> widths(rows.front().size());
  for (std::size_t column = 0; column < widths.size(); ++column) {
    const bool has_any = std::any_of(rows.begin() + 1, rows.end(),
                                     [column](const auto& row) { return !row[column].empty(); });
    for (const auto& row : rows)
      widths[column] = has_any ? std::max(widths[column], row[column].size()) : 0;
  }
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (std::size_t column = 0; column < widths.size(); ++column)
      if (widths[column] > 0) line += fmt::format("{:<{}}", row[column], widths[column] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string restarts_of(const JsonValue& job) {
  return fmt::format("{} of {}", number_in(job, "restart_count"), number_in(job, "max_restarts"));
}

/// How it has ended, or its state.
std::string state_of(const JsonValue& worker) {
  if (worker.member("signal"))
    return "killed by " + signal_name(static_cast<int>(number_in(worker, "signal")));
  if (worker.member("exit_code"))
    return fmt::format("exited with {}", number_in(worker, "exit_code"));
  const auto slow = worker.member("slow_factor");
  if (!slow) return text_in(worker, "state");
  return fmt::format("{}, slow ({:.2f}x)", text_in(worker, "state"), slow->number().value_or(1));
}

/// `time: 94.1 % training, 3.2 % starting`, the most first. Empty: an older agent does not say.
std::string ledger_line(const JsonValue& job) {
  const auto ledger = job.member("ledger");
  const auto seconds = ledger ? ledger->member("seconds") : std::nullopt;
  if (!seconds) return "";
  double sum = 0;
  std::vector<std::pair<double, std::string>> kinds;
  for (const auto& [name, value] : seconds->members()) {
    kinds.emplace_back(value.number().value_or(0), printable(name));
    sum += kinds.back().first;
  }
  std::sort(kinds.rbegin(), kinds.rend());
  std::string text;
  for (const auto& [time, name] : kinds)
    if (time >= sum / 1000)
      text += fmt::format("{}{:.1f} % {}", text.empty() ? "time: " : ", ", 100 * time / sum, name);
  if (const std::int64_t again = number_in(*ledger, "steps_again"); again > 0)
    text += fmt::format("; {} steps done again", again);
  return text.empty() ? "" : text + "\n";
}

std::vector<std::string> row_of(const JsonValue& worker) {
  const bool has_step = worker.member("step").has_value();
  const bool has_memory = worker.member("memory_bytes").has_value();
  return {std::to_string(number_in(worker, "rank")),
          std::to_string(number_in(worker, "pid")),
          state_of(worker),
          time_in(worker, "ran_for_seconds"),
          has_step ? std::to_string(number_in(worker, "step")) : "",
          text_in(worker, "phase"),
          has_step ? time_in(worker, "step_age_seconds") + " ago" : "",
          time_in(worker, "cpu_seconds"),
          has_memory ? describe_bytes(static_cast<std::uint64_t>(number_in(worker, "memory_bytes")))
                     : ""};
}

/// The value as it is typed in JSON, texts without quotes.
std::string shown(const JsonValue& value) {
  if (const auto text = value.text()) return printable(*text);
  if (const auto flag = value.boolean()) return *flag ? "yes" : "no";
  if (const auto number = value.signed_number()) return std::to_string(*number);
  if (const auto number = value.number()) return fmt::format("{:.3f}", *number);
  return "";
}

constexpr std::array<std::string_view, 5> kShownBefore{"time", "round", "event", "number", "node"};
constexpr std::array<std::string_view, 4> kFirstFields{"rank", "pid", "exit_code", "signal"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add_field(std::string& text, std::string_view name, const std::optional<JsonValue>& value) {
  const std::string word = value ? shown(*value) : "";
  if (!word.empty()) text += fmt::format(" {}={}", name, word);
}

}  // namespace

std::string list_text(const std::vector<ListedJob>& jobs) {
  Rows rows = {{"JOB", "STATE", "FOR", "ROUND", "RESTARTS", "WORKERS", "NODES", "PROGRAM"}};
  for (const ListedJob& one : jobs) {
    const auto document = JsonDocument::parse(one.status);
    if (!document) continue;
    const JsonValue job = document->root();
    const auto workers = elements_of(job, "workers");
    const auto running = std::count_if(workers.begin(), workers.end(), [](const JsonValue& worker) {
      return text_in(worker, "state") == "running";
    });
    const bool has_round = job.member("round").has_value();
    rows.push_back({printable(one.name), text_in(job, "state"), time_in(job, "age_seconds"),
                    has_round ? std::to_string(number_in(job, "round")) : "-", restarts_of(job),
                    fmt::format("{} of {}", running, workers.size()),
                    has_round ? std::to_string(number_in(job, "nodes")) : "-", program_of(job)});
  }
  return table(std::move(rows), 0);
}

std::string status_text(const std::string& status) {
  const auto document = JsonDocument::parse(status);
  if (!document) return "";
  const JsonValue job = document->root();
  std::string text = fmt::format("job {} on {}: {}, {} old; {} restarts\n", text_in(job, "run_id"),
                                 text_in(job, "node"), text_in(job, "state"),
                                 time_in(job, "age_seconds"), restarts_of(job));
  text += fmt::format("program: {} (ddprun {}, pid {})\n", program_of(job),
                      text_in(job, "ddprun_version"), number_in(job, "pid"));
  text += ledger_line(job);
  if (!job.member("round")) return text + "no round has begun\n";
  text += fmt::format("round {}: for {}, {} workers on {} node{}; this is node {}\n",
                      number_in(job, "round"), time_in(job, "round_age_seconds"),
                      number_in(job, "world_size"), number_in(job, "nodes"),
                      number_in(job, "nodes") == 1 ? "" : "s", number_in(job, "group_rank"));
  Rows rows = {{"RANK", "PID", "STATE", "FOR", "STEP", "PHASE", "REPORTED", "CPU", "MEMORY"}};
  for (const JsonValue& worker : elements_of(job, "workers")) rows.push_back(row_of(worker));
  return text + table(std::move(rows), 2);
}

std::string save_text(const std::string& answer) {
  const auto document = JsonDocument::parse(answer);
  const JsonValue json = document->root();
  const std::int64_t workers = number_in(json, "workers");
  std::string text =
      fmt::format("{} worker{} saved, by step {} ({})\n", workers, workers == 1 ? " has" : "s have",
                  number_in(json, "step"), time_in(json, "took_seconds"));
  if (const std::int64_t others = number_in(json, "others"); others > 0)
    text += fmt::format("{} other{} not save when asked, or ended\n", others,
                        others == 1 ? " does" : "s do");
  return text;
}

std::string event_text(const std::string& event) {
  const auto document = JsonDocument::parse(event);
  if (!document) return "";
  const JsonValue json = document->root();
  if (json.member("lost"))
    return fmt::format("({} events are not kept any more)\n", number_in(json, "lost"));
  std::string text = text_in(json, "time");
  if (json.member("round")) text += fmt::format("  round {}", number_in(json, "round"));
  text += fmt::format("  {} ", text_in(json, "event"));
  if (text_in(json, "event") == "line") return text + " " + text_in(json, "text") + "\n";
  for (const std::string_view name : kFirstFields) add_field(text, name, json.member(name));
  for (const auto& [name, value] : json.members())
    if (!is_one_of(kFirstFields, name) && !is_one_of(kShownBefore, name))
      add_field(text, name, value);
  return text + "\n";
}

}  // namespace ddprun::ctl
