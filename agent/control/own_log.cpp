#include "agent/control/own_log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

#include "base/printable.hpp"

namespace ddprun::agent {
namespace {

class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    (message.level < spdlog::level::warn ? with_time_ : plain_).format(message, text);
    std::string line(text.data(), text.size());
    while (!line.empty() && line.back() == '\n') line.pop_back();
    say_(printable(line));
  }
  void flush_() override {}

  std::function<void(const std::string&)> say_;
  // A formatter must not run twice at a time: base_sink holds its mutex meanwhile.
  spdlog::pattern_formatter plain_{"%l: %v", spdlog::pattern_time_type::local, ""};
  spdlog::pattern_formatter with_time_{"%H:%M:%S.%e %l: %v", spdlog::pattern_time_type::local, ""};
};

}  // namespace

void log_through(std::function<void(const std::string& line)> say,
                 spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>("ddprun", std::make_shared<Sink>(std::move(say)));
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace ddprun::agent
