#include "agent/control/quiet_streams.hpp"

#include <sys/epoll.h>

#include <array>
#include <span>
#include <utility>

namespace ddprun::agent {

ErrorCode QuietStreams::watch(std::vector<OutputSource> sources) {
  end();
  UniqueFd set(epoll_create1(EPOLL_CLOEXEC));
  if (!set) return last_system_error();
  for (const OutputSource& source : sources) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = source.fd.get();
    if (epoll_ctl(set.get(), EPOLL_CTL_ADD, event.data.fd, &event) != 0) return last_system_error();
  }
  ErrorCode failed;
  events_.emplace(context_).assign(set.get(), failed);
  if (failed) {
    events_.reset();
    return failed;
  }
  static_cast<void>(set.release());  // Asio closes it
  sources_ = std::move(sources);
  await_event();
  return {};
}

void QuietStreams::await_event() {
  events_->async_wait(boost::asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    if (ec || !events_) return;
    look();
    if (events_) await_event();
  });
}

void QuietStreams::look() {
  std::array<epoll_event, 64> found{};
  while (events_) {
    const int set = events_->native_handle();
    const int count = epoll_wait(set, found.data(), static_cast<int>(found.size()), 0);
    if (count <= 0) return;
    for (const epoll_event& event : std::span(found).first(static_cast<std::size_t>(count))) {
      if ((event.events & EPOLLIN) != 0) return hand_over();
      epoll_ctl(set, EPOLL_CTL_DEL, event.data.fd, nullptr);  // it has ended, and is heard no more
    }
  }
}

void QuietStreams::hand_over() {
  if (sources_.empty()) return;
  events_.reset();
  take_(std::exchange(sources_, {}));
}

void QuietStreams::end() {
  look();
  events_.reset();
  sources_.clear();
}

}  // namespace ddprun::agent
