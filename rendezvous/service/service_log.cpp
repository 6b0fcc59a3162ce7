#include "rendezvous/service/service_log.hpp"

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "base/result.hpp"

namespace ddprun::rdzv {

ServiceLog::ServiceLog(boost::asio::io_context& context, Print on_warning, Print on_info)
    : on_warning_(std::move(on_warning)), on_info_(std::move(on_info)), timer_(context) {}

void ServiceLog::warn(const std::string& line) {
  if (on_warning_) {
    on_warning_("rendezvous: " + line);
  } else {
    spdlog::warn("rendezvous: {}", line);
  }
}

void ServiceLog::inform(const std::string& line) {
  if (on_info_) {
    on_info_("rendezvous: " + line);
  } else {
    spdlog::info("{}", line);
  }
}

void ServiceLog::warn_of_peer(const std::string& line) {
  if (limiter_.admit(0, std::chrono::steady_clock::now())) {
    limiter_.remember(0, line);
    warn(line);
  }
  await_warnings();
}

void ServiceLog::await_warnings() {
  const auto due = limiter_.due();
  if (!due || std::exchange(awaited_, true)) return;
  timer_.expires_at(*due);
  timer_.async_wait([this](ErrorCode ec) {
    awaited_ = false;
    if (ec) return;
    for (const std::string& line : limiter_.reports(std::chrono::steady_clock::now())) warn(line);
    await_warnings();
  });
}

}  // namespace ddprun::rdzv
