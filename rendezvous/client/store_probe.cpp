#include "rendezvous/client/store_probe.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/socket.hpp"
#include "base/unique_handle.hpp"
#include "proto/c10d_write.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;
using Wait = asio::posix::descriptor_base;

namespace {

/// A store answers at once.
constexpr std::chrono::milliseconds kAnswerTime{500};
constexpr std::uint32_t kNonce = 0x64647072;  // the answer of a store has the same bytes

std::string expected_answer() {
  std::string bytes;
  proto::c10d::append_u32(bytes, kNonce);
  return bytes;
}

}  // namespace

StoreProbe::StoreProbe(asio::io_context& context, std::function<void(bool)> answered)
    : socket_(context), timer_(context), answered_(std::move(answered)) {}

void StoreProbe::ask(const sockaddr_storage& addr, socklen_t length) {
  UniqueFd fd(socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ErrorCode failed;
  if (fd) socket_.assign(fd.get(), failed);
  const bool is_open = fd && !failed;
  timer_.expires_after(is_open ? kAnswerTime : std::chrono::milliseconds(0));
  timer_.async_wait([this, is = std::weak_ptr(is_)](ErrorCode ec) {
    if (!ec && !is.expired()) finish(false);
  });
  if (!is_open) return;
  const int raw = fd.release();
  reset_on_close(raw);
  static_cast<void>(connect(raw, reinterpret_cast<const sockaddr*>(&addr), length));
  socket_.async_wait(Wait::wait_write, [this, is = std::weak_ptr(is_)](ErrorCode ec) {
    if (!ec && !is.expired()) send();
  });
}

void StoreProbe::send() {
  std::string request;
  proto::c10d::RequestWriter writer(request);
  writer.validate();
  writer.ping(kNonce);
  if (::send(socket_.native_handle(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return finish(false);
  socket_.async_wait(Wait::wait_read, [this, is = std::weak_ptr(is_)](ErrorCode ec) {
    if (!ec && !is.expired()) read();
  });
}

void StoreProbe::read() {
  const std::string expected = expected_answer();
  std::array<char, 16> bytes{};
  const ssize_t count = recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) answer_.append(bytes.data(), static_cast<std::size_t>(count));
  const bool may_be = count > 0 ? expected.starts_with(answer_) : count < 0 && would_block(errno);
  if (!may_be || answer_ == expected) return finish(answer_ == expected);
  socket_.async_wait(Wait::wait_read, [this, is = std::weak_ptr(is_)](ErrorCode ec) {
    if (!ec && !is.expired()) read();
  });
}

void StoreProbe::finish(bool is_store) {
  if (const auto answered = std::exchange(answered_, nullptr)) answered(is_store);
}

}  // namespace ddprun::rdzv
