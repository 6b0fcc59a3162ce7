#include "agent/control/gpu_wait.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/joined.hpp"
#include "machine/devices/gpu_claims.hpp"

namespace ddprun::agent {
namespace {

// For the driver to be opened, and for a call that is late.
constexpr std::chrono::seconds kMargin{10};

}  // namespace

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
      {"/proc/self/exe", std::string(kAwaitGpusArgument), list_}, kLimit + kMargin,
      [this](const HelperResult& result) { end(result); },
      [this](std::string_view bytes) {
        for (const std::string& line : lines_.add(bytes)) events_.say(line);
      });
}

void GpuWait::end(const HelperResult& result) {
  if (!result.problem.empty()) {
    events_.say("whether the GPUs are free cannot be asked: " + result.problem);
  } else if (!result.in_time) {
    events_.say(
        "the driver does not tell whether the GPUs are free: the workers start all the same");
  }
  events_.ended();
}

}  // namespace ddprun::agent
