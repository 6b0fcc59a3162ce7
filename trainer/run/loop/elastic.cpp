#include "trainer/run/loop/elastic.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::trainer {

std::unique_ptr<Elastic> Elastic::open() {
  ddprun_elastic connection;
  if (ddprun_elastic_open(&connection) != 0) return nullptr;
  std::unique_ptr<Elastic> elastic(new Elastic(connection));
  if (!elastic->start()) return nullptr;
  return elastic;
}

Elastic::~Elastic() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(end_.get(), &one, sizeof one));
    thread_.join();
  }
  ddprun_elastic_close(&connection_);
}

bool Elastic::start() {
  poll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!poll_ || !end_) return false;
  epoll_event message{.events = EPOLLIN | EPOLLET, .data = {.fd = connection_.fd}};
  epoll_event end{.events = EPOLLIN, .data = {.fd = end_.get()}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, connection_.fd, &message) != 0) return false;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, end_.get(), &end) != 0) return false;
  auto thread = start_thread("elastic", [this] { wait_for_interruptions(); });
  if (!thread) return false;
  thread_ = std::move(*thread);
  return true;
}

void Elastic::wait_for_interruptions() {
  while (true) {
    epoll_event event{};
    const int count = ::epoll_wait(poll_.get(), &event, 1, -1);
    if (count < 0 && errno != EINTR) return;
    if (count <= 0) continue;
    if (event.data.fd == end_.get()) return;
    const std::lock_guard lock(mutex_);
    look();
  }
}

void Elastic::look() {
  if (!is_in_round_) return;
  const int found = ddprun_elastic_interrupted(&connection_);
  if (found == DDPRUN_INTERRUPT_NONE) return;
  world_changes_ = true;
  if (found != DDPRUN_INTERRUPT_NOW) return;
  // First: a rank that ends an evaluation for the flag must not have its part of it counted.
  if (communicator_ != nullptr) communicator_->abort("another rank is gone");
  is_interrupted_ = true;
}

void Elastic::watch(Communicator* communicator) {
  const std::lock_guard lock(mutex_);
  communicator_ = communicator;
  look();
}

int Elastic::next_round(std::optional<std::uint64_t> steps) {
  {
    const std::lock_guard lock(mutex_);
    communicator_ = nullptr;
    is_in_round_ = false;
  }
  const int error = ddprun_elastic_next_round(&connection_, steps ? &*steps : nullptr);
  if (error != 0) return error;
  const std::lock_guard lock(mutex_);
  is_interrupted_ = false;
  world_changes_ = false;
  is_in_round_ = true;
  look();  // what came while the thread did not look
  return 0;
}

}  // namespace ddprun::trainer
