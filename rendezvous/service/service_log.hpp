// The lines of the service for people: of jobs and agents all, of strangers only so many. Lives on
// the service's thread.
#pragma once

#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rendezvous/store/warning_limiter.hpp"

namespace ddprun::rdzv {

class ServiceLog {
 public:
  using Print = std::function<void(const std::string&)>;

  /// An empty one prints to spdlog.
  ServiceLog(boost::asio::io_context& context, Print on_warning, Print on_info);

  void warn(const std::string& line);
  /// Warns of what a peer may cause again and again: only so many lines in a time; the others are
  /// counted.
  void warn_of_peer(const std::string& line);
  void inform(const std::string& line);

 private:
  void await_warnings();

  const Print on_warning_;
  const Print on_info_;
  WarningLimiter limiter_{1};
  boost::asio::steady_timer timer_;
  bool awaited_ = false;
};

}  // namespace ddprun::rdzv
