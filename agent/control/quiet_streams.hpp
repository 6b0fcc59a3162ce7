// Streams of workers from which nothing has come yet. Many programs print nothing for long, and the
// thread that reads streams costs a start as much as a worker's own process: it gets them with
// their first byte.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/streams/output_source.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {

class QuietStreams {
 public:
  /// `take` gets all of them when one has something to read, from within `look` or the context.
  QuietStreams(boost::asio::io_context& context,
               std::function<void(std::vector<OutputSource>)> take)
      : context_(context), take_(std::move(take)) {}

  /// In place of those of an earlier round, which are closed. Errors: the system cannot watch them;
  /// then they are closed.
  [[nodiscard]] ErrorCode watch(std::vector<OutputSource> sources);

  /// Whether one has something to read now, and not only its end.
  void look();

  /// As if one had.
  void hand_over();

  /// Their workers have ended: those from which still nothing has come are closed.
  void end();

 private:
  void await_event();

  boost::asio::io_context& context_;
  const std::function<void(std::vector<OutputSource>)> take_;
  std::vector<OutputSource> sources_;
  std::optional<boost::asio::posix::stream_descriptor> events_;  // epoll's; none: no sources
};

}  // namespace ddprun::agent
