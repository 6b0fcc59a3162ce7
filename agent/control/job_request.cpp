#include "agent/control/job_request.hpp"

#include <csignal>
#include <limits>

#include <fmt/format.h>

#include "base/printable.hpp"
#include "proto/json_document.hpp"

namespace ddprun::agent {
namespace {

using proto::JsonValue;

constexpr std::size_t kShownBytesMax = 64;
constexpr std::size_t kErrorBytesMax = 512;

/// None: there is no such field, or it is no rank.
std::optional<int> rank_in(const JsonValue& json) {
  const auto field = json.member("rank");
  const auto value = field ? field->unsigned_number() : std::nullopt;
  if (!value || *value > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
    return std::nullopt;
  return static_cast<int>(*value);
}

std::uint64_t number_in(const JsonValue& json, const char* name) {
  const auto field = json.member(name);
  return field ? field->unsigned_number().value_or(0) : 0;
}

bool flag_in(const JsonValue& json, const char* name) {
  const auto field = json.member(name);
  return field && field->boolean().value_or(false);
}

}  // namespace

boost::system::result<JobRequest, std::string> parse_job_request(std::string_view body) {
  const auto document = proto::JsonDocument::parse(body);
  if (!document || !document->root().is_object()) return std::string("a request is a JSON object");
  const JsonValue json = document->root();
  const auto kind = json.member("request");
  if (!kind) return JobRequest(StatusWanted{});
  const std::string_view name = kind->text().value_or("");
  if (name == "status") return JobRequest(StatusWanted{flag_in(json, "last_lines")});
  if (name == "events")
    return JobRequest(EventsWanted{number_in(json, "from"), flag_in(json, "follow")});
  if (name == "logs") {
    if (json.member("rank") && !rank_in(json)) return std::string("logs: the rank is no number");
    return JobRequest(LogsWanted{rank_in(json), flag_in(json, "follow")});
  }
  if (name == "restart") return JobRequest(RestartWanted{});
  if (name == "wait") return JobRequest(EndWanted{});
  if (name == "stop") return JobRequest(StopWanted{flag_in(json, "now")});
  if (name == "stacks") {
    const auto rank = rank_in(json);
    if (!rank) return std::string("stacks: the rank is missing");
    return JobRequest(StacksWanted{*rank});
  }
  if (name == "save") {
    const std::uint64_t seconds = number_in(json, "timeout_seconds");
    const std::chrono::seconds most = kSaveLimitMax;
    if (seconds == 0 || seconds > static_cast<std::uint64_t>(most.count()))
      return fmt::format("save: timeout_seconds is from 1 to {}", most.count());
    return JobRequest(SaveWanted{std::chrono::seconds(seconds)});
  }
  if (name == "signal") {
    const std::uint64_t signal = number_in(json, "signal");
    if (signal == 0 || signal > static_cast<std::uint64_t>(SIGRTMAX))
      return std::string("signal: there is no such signal");
    if (json.member("rank") && !rank_in(json)) return std::string("signal: the rank is no number");
    return JobRequest(SignalWanted{static_cast<int>(signal), rank_in(json)});
  }
  return fmt::format("this ddprun does not know the request '{}'",
                     printable(name.substr(0, kShownBytesMax)));
}

std::string error_json(std::string_view problem) {
  std::string json = "{\"error\":";
  proto::append_json_text(json, problem, kErrorBytesMax);
  return json + "}";
}

}  // namespace ddprun::agent
