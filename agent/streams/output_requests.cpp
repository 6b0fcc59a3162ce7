#include "agent/streams/output_requests.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace ddprun::agent {

StreamWatch::StreamWatch()
    : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      usable_(wake_ && epoll_ && !add(wake_.get())) {}

void StreamWatch::wake() const { eventfd_write(wake_.get(), 1); }

void StreamWatch::note_woken() const {
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
}

ErrorCode StreamWatch::add(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? ErrorCode()
                                                                 : last_system_error();
}

ErrorCode StreamWatch::add(const std::vector<OutputSource>& sources) const {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const ErrorCode refused = add(sources[i].fd.get());
    if (!refused) continue;
    // Explicitly, because a worker that is being forked at this moment holds the streams, too.
    for (std::size_t watched = 0; watched < i; ++watched) remove(sources[watched].fd.get());
    return refused;
  }
  return {};
}

void StreamWatch::remove(int fd) const { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

}  // namespace ddprun::agent
