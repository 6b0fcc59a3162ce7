#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "agent/control/elastic_workers.hpp"
#include "agent/control/job_request.hpp"
#include "base/assert.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/error_line.hpp"

namespace ddprun::test {

void fuzz_worker_message(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  agent::WorkerMessage message(bytes);
  DDPRUN_ASSERT(message.bytes().back() == '\0', "each entry has its NUL");
  const auto first = message.value("message");
  const auto kind = first ? std::optional(std::string(*first)) : std::nullopt;
  DDPRUN_ASSERT(!kind || kind->find('\0') == std::string::npos, "a value is of one entry");
  DDPRUN_ASSERT(kind || !agent::WorkerMessage::is_one(bytes), "a message tells its kind");

  const auto waits = agent::parse_wait(message);
  DDPRUN_ASSERT(!waits || kind == "wait", "only one that waits is told so");
  if (waits && waits->step) {
    agent::WorkerMessage written;
    written.add("message", "wait");
    written.add("step", fmt::to_string(*waits->step));
    const auto read = agent::parse_wait(written);
    DDPRUN_ASSERT(read && read->step == waits->step, "what is written can be read");
  }

  message.add("added", "a=b");
  DDPRUN_ASSERT(message.value("added").has_value(), "what is added is found");
  DDPRUN_ASSERT(message.value("message") == kind, "what is added changes no other entry");
}

void fuzz_job_request(const std::uint8_t* data, std::size_t size) {
  const auto request = agent::parse_job_request({reinterpret_cast<const char*>(data), size});
  if (!request) return check_error_line(request.error());
  if (const auto* stacks = std::get_if<agent::StacksWanted>(&*request))
    DDPRUN_ASSERT(stacks->rank >= 0, "a rank is a rank");
  const auto* const wanted = std::get_if<agent::SignalWanted>(&*request);
  if (wanted == nullptr) return;
  DDPRUN_ASSERT(wanted->signal > 0 && wanted->signal <= SIGRTMAX, "a signal is one");
  DDPRUN_ASSERT(!wanted->rank || *wanted->rank >= 0, "a rank is a rank");
}

}  // namespace ddprun::test
