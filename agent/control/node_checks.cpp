#include "agent/control/node_checks.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/joined.hpp"
#include "base/printable.hpp"
#include "machine/devices/gpu_claims.hpp"

namespace ddprun::agent {
namespace {

// For the driver of the GPUs to be opened, and for a call that is late.
constexpr std::chrono::seconds kAnswerMargin{10};

}  // namespace

std::vector<std::string> PreflightLines::add(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::size_t room = kPreflightLineMax - line_.size();
    line_.append(bytes.substr(0, std::min(end, room)));
    if (end == bytes.size()) break;
    lines.push_back(rest());
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::string PreflightLines::rest() {
  std::string line = std::exchange(line_, "");
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

void Preflight::start() {
  lines_ = {};
  last_line_.clear();
  started_at_ = std::chrono::steady_clock::now();
  program_.start(
      {.argv = {"/bin/sh", "-c", settings_.command}, .limit = settings_.timeout},
      [this](const machine::HelperResult& result) { end(result); },
      [this](std::string_view bytes) {
        for (const std::string& line : lines_.add(bytes)) show(line);
      });
}

void Preflight::show(const std::string& line) {
  if (line.find_first_not_of(" \t\r") != std::string::npos) last_line_ = line;
  events_.say("[preflight] " + line);
}

void Preflight::end(const machine::HelperResult& result) {
  if (const std::string rest = lines_.rest(); !rest.empty()) show(rest);
  CheckEnded ended;
  ended.text = why_unsound(result, settings_.timeout, last_line_);
  ended.passed = ended.text.empty();
  ended.took = std::chrono::steady_clock::now() - started_at_;
  events_.ended(std::move(ended));
}

std::string why_unsound(const machine::HelperResult& result, std::chrono::nanoseconds timeout,
                        const std::string& last_line) {
  if (!result.problem.empty()) return "/bin/sh cannot be started: " + result.problem;
  if (result.in_time && result.exit && result.exit->success()) return "";
  std::string why = fmt::format("not finished within {} (--preflight-timeout)", describe(timeout));
  if (result.in_time) why = result.exit ? describe(*result.exit) : "its exit is not known";
  return last_line.empty() ? why : fmt::format("{}: {}", why, printable(last_line));
}

int await_gpus(std::string_view list) {
  std::vector<machine::GpuCandidate> gpus;
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    gpus.push_back({std::string(one.substr(0, equals)),
                    std::string(one.substr(std::min(equals + 1, one.size())))});
  }
  const auto say = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  return machine::await_free_gpus(gpus, GpuWait::kLimit, machine::look_by_nvml(), say) ? 0 : 1;
}

GpuWait::GpuWait(boost::asio::io_context& context, const machine::UserState& user,
                 const std::vector<std::string>& gpus, Events events)
    : list_(joined(gpus, ",")), events_(std::move(events)), program_(context, user) {}

void GpuWait::start() {
  lines_ = {};
  program_.start(
      {.argv = {"/proc/self/exe", std::string(kAwaitGpusArgument), list_},
       .limit = kLimit + kAnswerMargin},
      [this](const machine::HelperResult& result) { end(result); },
      [this](std::string_view bytes) {
        for (const std::string& line : lines_.add(bytes)) events_.say(line);
      });
}

void GpuWait::end(const machine::HelperResult& result) {
  if (!result.problem.empty()) {
    events_.say("whether the GPUs are free cannot be asked: " + result.problem);
  } else if (!result.in_time) {
    events_.say(
        "the driver does not tell whether the GPUs are free: the workers start all the same");
  }
  events_.ended();
}

}  // namespace ddprun::agent
