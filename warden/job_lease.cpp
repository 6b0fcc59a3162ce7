#include "warden/job_lease.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <new>
#include <utility>

#include "base/socket.hpp"

namespace ddprun::warden {

Result<LeasePage> LeasePage::make() {
  void* memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return last_system_error();
  return LeasePage(new (memory) Page(0));
}

LeasePage::LeasePage(LeasePage&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

LeasePage::~LeasePage() {
  if (page_ != nullptr) munmap(page_, sizeof(Page));
}

std::optional<LeasePage::TimePoint> LeasePage::until() const {
  const std::int64_t at = page_->load();
  if (at == 0) return std::nullopt;
  return TimePoint(TimePoint::duration(at));
}

void HeldConnection::hold(UniqueFd socket) {
  reset();
  socket_ = std::move(socket);
}

void HeldConnection::end_in_order() {
  // Not by close(): with unread bytes that sends a reset.
  if (socket_) shutdown(socket_.get(), SHUT_WR);
  socket_.reset();
}

void HeldConnection::reset() {
  if (socket_) reset_on_close(socket_.get());
  socket_.reset();
}

}  // namespace ddprun::warden
