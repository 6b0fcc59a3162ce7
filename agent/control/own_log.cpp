#include "agent/control/own_log.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace ddprun::agent {
namespace {

class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string line(text.data(), text.size());
    while (!line.empty() && line.back() == '\n') line.pop_back();
    say_(line);
  }
  void flush_() override {}

  std::function<void(const std::string&)> say_;
};

}  // namespace

void log_through(std::function<void(const std::string& line)> say,
                 spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>("ddprun", std::make_shared<Sink>(std::move(say)));
  logger->set_pattern("%H:%M:%S.%e %l: %v");
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace ddprun::agent
