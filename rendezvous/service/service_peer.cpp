#include "rendezvous/service/service_peer.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/socket.hpp"
#include "proto/error.hpp"
#include "proto/fit_frame.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/store/peer_name.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;
using Wait = asio::posix::descriptor_base;

namespace {

/// How much is read from one peer before it is the others' turn.
constexpr std::size_t kReadBytes = 64 * 1024;

/// A peer that is being told why it is refused reads that within so long.
constexpr std::chrono::milliseconds kCloseWithin{2'000};

/// How many bytes must be there before the socket counts as readable.
void wake_at(int fd, int bytes) { setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes); }

}  // namespace

ServicePeer::ServicePeer(asio::io_context& context, ConnectionId id, std::string addr,
                         std::shared_ptr<const Events> events)
    : id_(id),
      addr_(std::move(addr)),
      events_(std::move(events)),
      socket_(context),
      timer_(context) {}

ErrorCode ServicePeer::begin(UniqueFd fd, proto::ControlChannel::Settings settings) {
  if (!addr_.empty()) name_ = peer_name(fd.get());
  ErrorCode failed;
  socket_.assign(fd.get(), failed);
  if (failed) return failed;
  static_cast<void>(fd.release());
  settings_ = std::make_unique<proto::ControlChannel::Settings>(std::move(settings));
  wake_at(socket_.native_handle(), proto::kControlSignBytes);
  look_at_first_bytes();
  return {};
}

std::string ServicePeer::path() {
  return connection_path(socket_.native_handle(), ConnectionSide::accepted);
}

void ServicePeer::look_at_first_bytes() {
  socket_.async_wait(Wait::wait_read, [self = shared_from_this()](ErrorCode ec) {
    if (ec || self->ended_) return;
    std::array<char, proto::kControlSignBytes> first{};
    const ssize_t count =
        recv(self->socket_.native_handle(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && would_block(errno)) return self->look_at_first_bytes();
    if (count <= 0) return self->end(false, "");
    const auto opening = proto::opening_of({first.data(), static_cast<std::size_t>(count)});
    // Fewer bytes than that were no reason to wake us, so the other side has sent its last.
    if (!opening) return self->end(false, "it ended in the middle of its first bytes");
    if (*opening == proto::Opening::other) return self->hand_over();
    self->begin_channel(*opening == proto::Opening::encrypted_control);
  });
}

void ServicePeer::begin_channel(bool encrypted) {
  wake_at(socket_.native_handle(), 1);
  // Not before: a store's client may leave its replies unread for any time.
  set_control_options(socket_.native_handle());
  const bool must_encrypt = events_->encrypter && !addr_.empty();
  if (encrypted && must_encrypt) {
    proto::SecretFor secret_for = settings_->secret_for;
    if (!secret_for)
      secret_for = [secret = settings_->secret](const std::string&) { return secret; };
    settings_->encryption = events_->encrypter->service(std::move(secret_for));
  }
  channel_.emplace(std::move(*settings_));
  settings_.reset();
  events_->controls(*this);
  if (must_encrypt && !encrypted) {
    send(proto::Refused{proto::Refused::Why::encryption,
                        "it encrypts its connections; add --rdzv-tls (rdzvd: --tls)"});
    why_closing_ = "it does not encrypt: it needs --rdzv-tls (rdzvd: --tls)";
    lack_ = Lack::encryption;
  } else if (encrypted && !must_encrypt) {
    why_closing_ = "it encrypts (--rdzv-tls), and this rendezvous does not";  // our hello tells it
  }
  flush();
  if (!why_closing_.empty()) close_in_order();
  if (!ended_) await_bytes();
}

void ServicePeer::hand_over() {
  ended_ = true;
  timer_.cancel();
  wake_at(socket_.native_handle(), 1);
  events_->speaks_c10d(*this, UniqueFd(socket_.release()));
}

void ServicePeer::expect_within(std::chrono::milliseconds within) {
  timer_.expires_after(within);
  timer_.async_wait([self = shared_from_this()](ErrorCode ec) {
    if (!ec && !self->ended_) self->give_up();
  });
}

/// So many of those that tell what it is have arrived.
std::size_t ServicePeer::first_bytes() {
  std::array<char, proto::kControlSignBytes> first{};
  const ssize_t count =
      recv(socket_.native_handle(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void ServicePeer::give_up() {
  if (!channel_ && first_bytes() == 0 && events_->is_silent(*this)) return hand_over();
  end(false, closing_ ? why_closing_ : "no messages in time");
}

void ServicePeer::make_way_for_place() {
  if (ended_) return;
  if (!channel_ && first_bytes() == 0 && events_->is_silent(*this)) return hand_over();
  make_way_for_descriptor();
}

void ServicePeer::make_way_for_descriptor() {
  end(false, closing_ ? why_closing_ : "it had not joined yet, and others needed its place");
}

void ServicePeer::await_bytes() {
  socket_.async_wait(Wait::wait_read, [self = shared_from_this()](ErrorCode ec) {
    if (!ec && !self->ended_) self->read();
  });
}

void ServicePeer::read() {
  // On the heap: every thread of the program writes all its thread-local bytes when it starts.
  static thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  const ssize_t count = recv(socket_.native_handle(), buffer.get(), kReadBytes, MSG_DONTWAIT);
  if (count < 0 && would_block(errno)) return await_bytes();
  if (count <= 0) {
    // It was asked for a proof, and left.
    if (lack_ == Lack::nothing && hello() != nullptr && !is_open()) lack_ = Lack::proof;
    return end(count == 0, why_closing_);
  }
  const std::string_view bytes(buffer.get(), static_cast<std::size_t>(count));
  if (!closing_) {
    take(bytes);
  } else if (lack_ == Lack::encryption) {
    read_claim(bytes);
  }
  if (!ended_) await_bytes();
}

void ServicePeer::take(std::string_view bytes) {
  channel_->append(bytes);
  while (!ended_ && !closing_) {
    const bool was_open = is_open();
    const auto body = channel_->next();
    if (!body) {
      // A peer that has no valid proof is told so: the remedy is on its side.
      if (body.error() == proto::Errc::not_authentic && !was_open) {
        lack_ = Lack::proof;
        send(proto::Refused{proto::Refused::Why::wrong_secret,
                            "it has another secret than the rendezvous; all need the same file "
                            "(--rdzv-secret-file)"});
      }
      why_closing_ = channel_->why(body.error());
      // The alert must not be lost: what the peer sent behind its certificate would reset the
      // connection.
      if (body.error() == proto::Errc::certificate_refused) return close_in_order();
      flush();
      return end(false, why_closing_);
    }
    if (!was_open && is_open()) {
      flush();
      events_->opened(*this);
    }
    if (!*body) break;
    auto message = proto::decode_client_message(**body);
    if (message) {
      events_->said(*this, std::move(*message));
    } else if (message.error() != proto::Errc::unknown_kind || !channel_->peer_is_newer()) {
      send(proto::Refused{proto::Refused::Why::broken, message.error().message()});
      flush();
      return end(false, message.error().message());
    }
  }
  flush();
}

/// Its hello names the job to which it was to belong. No more is kept, nor answered.
void ServicePeer::read_claim(std::string_view bytes) {
  if (is_claim_read_) return;
  channel_->append(bytes);
  is_claim_read_ = !channel_->next() || hello() != nullptr;
}

void ServicePeer::send(proto::ServiceMessage message) {
  if (!ended_ && channel_ && !channel_->send(proto::encode_to_fit(std::move(message))))
    end(false, "a message to it was too large");
}

void ServicePeer::flush() {
  if (ended_ || !channel_ || writing_) return;
  unsent_ += channel_->take_output();
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t count = ::send(socket_.native_handle(), unsent_.data() + sent,
                                 unsent_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && !would_block(errno)) {
      // How the other side ended is known when all that it sent has been read.
      unsent_.clear();
      return;
    }
    if (count < 0) break;
    sent += static_cast<std::size_t>(count);
  }
  unsent_.erase(0, sent);
  if (unsent_.size() > kOutputBytesMax) return end(false, "it does not read what it is sent");
  if (unsent_.empty()) {
    unsent_.shrink_to_fit();
    if (closing_) shutdown(socket_.native_handle(), SHUT_WR);
    return;
  }
  writing_ = true;
  socket_.async_wait(Wait::wait_write, [self = shared_from_this()](ErrorCode ec) {
    self->writing_ = false;
    if (!ec) self->flush();
  });
}

void ServicePeer::close_in_order() {
  closing_ = true;
  expect_within(kCloseWithin);
  flush();
}

void ServicePeer::reset() {
  if (ended_) return;
  ended_ = true;
  timer_.cancel();
  reset_on_close(socket_.native_handle());
  ErrorCode ignored;
  socket_.close(ignored);
}

void ServicePeer::end(bool cleanly, const std::string& why) {
  if (ended_) return;
  ended_ = true;
  timer_.cancel();
  ErrorCode ignored;
  socket_.close(ignored);
  events_->ended(*this, cleanly && !addr_.empty(), why);
}

}  // namespace ddprun::rdzv
