#include "rendezvous/client/store_client.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "proto/c10d_write.hpp"
#include "proto/error.hpp"
#include "rendezvous/client/resolve.hpp"
#include "rendezvous/client/store_connection.hpp"

namespace ddprun::rdzv {

using proto::Errc;
using proto::c10d::Limits;
using proto::c10d::RequestWriter;

namespace {

using namespace std::chrono_literals;

constexpr auto kPingLimit = 2s;  ///< a store that is silent for longer does not know PING
/// For one address, so that a dead one does not use up the whole deadline.
constexpr auto kConnectLimit = 5s;
/// For the reply to CANCEL_WAIT, which comes after the caller's deadline.
constexpr auto kCancelLimit = 2s;
constexpr auto kFirstPause = 2ms;  ///< between two tries to connect; doubled each time
constexpr auto kLongestPause = 250ms;
constexpr std::size_t kKeptBytesMax = 64 * 1024;  ///< memory that a client keeps between calls
/// APPEND can make a value longer than one SET may.
constexpr std::uint64_t kReplyBytesMax = 1024ULL * 1024 * 1024;
constexpr std::string_view kKeyPrefix = "/";

bool within_limits(std::string_view key) {
  return key.size() + kKeyPrefix.size() <= Limits{}.key_bytes_max;
}
bool within_limits(std::span<const std::string> keys) {
  return keys.size() <= Limits{}.list_elements_max &&
         std::all_of(keys.begin(), keys.end(),
                     [](const std::string& key) { return within_limits(key); });
}
bool value_within_limits(std::string_view value) {
  return value.size() <= Limits{}.value_bytes_max;
}

/// Result<bool> takes no error implicitly, lest an error become `true`.
Result<bool> failed(const ErrorCode& failure) { return {boost::system::in_place_error, failure}; }

Result<StoreConnection> connect_once(const std::string& host, std::uint16_t port,
                                     Clock::time_point deadline) {
  Result<Addresses> addresses = resolve(host, port, deadline);
  if (!addresses) return addresses.error();
  ErrorCode failure = make_error_code(Errc::timed_out);
  for (const addrinfo* addr = addresses->get(); addr != nullptr; addr = addr->ai_next) {
    auto connection =
        StoreConnection::connect(*addr, std::min(deadline, Clock::now() + kConnectLimit));
    if (connection) return connection;
    failure = connection.error();
  }
  return failure;
}

/// VALIDATE and PING in one send, then the echo.
Result<void> greet(StoreConnection& connection, Clock::time_point deadline) {
  const auto nonce = static_cast<std::uint32_t>(getpid());
  std::string bytes;
  RequestWriter writer(bytes);
  writer.validate();
  writer.ping(nonce);
  const auto ping_deadline = Clock::now() + kPingLimit;
  if (const auto sent = connection.send(bytes, std::min(deadline, ping_deadline)); !sent)
    return sent;
  bytes.clear();
  const auto echoed = connection.receive(bytes, sizeof nonce, std::min(deadline, ping_deadline));
  if (!echoed) {
    const bool mute = echoed.error() == Errc::timed_out && ping_deadline <= deadline;
    return mute ? make_error_code(Errc::old_dialect) : echoed.error();
  }
  if (std::memcmp(bytes.data(), &nonce, sizeof nonce) != 0) return make_error_code(Errc::malformed);
  return {};
}

}  // namespace

class StoreClient::Impl {
 public:
  explicit Impl(StoreConnection connection) : connection_(std::move(connection)) {}

  /// A writer for the next request.
  RequestWriter request() {
    bytes_.clear();
    return RequestWriter(bytes_, kKeyPrefix);
  }
  Result<void> send(Clock::time_point deadline) {
    if (!connection_) return make_error_code(Errc::peer_closed);
    const auto sent = connection_->send(bytes_, deadline);
    if (bytes_.capacity() > kKeptBytesMax) std::string().swap(bytes_);
    return checked(sent);
  }
  template <class Number>
  Result<Number> receive_number(Clock::time_point deadline) {
    bytes_.clear();
    if (const auto received = checked(connection_->receive(bytes_, sizeof(Number), deadline));
        !received) {
      return received.error();
    }
    Number number{};
    std::memcpy(&number, bytes_.data(), sizeof number);
    return number;
  }
  Result<std::string> receive_bytes(Clock::time_point deadline) {
    const auto length = receive_number<std::uint64_t>(deadline);
    if (!length) return length.error();
    if (*length > kReplyBytesMax) return out_of_step(Errc::malformed);
    std::string bytes;
    if (const auto received = checked(connection_->receive(bytes, *length, deadline)); !received) {
      return received.error();
    }
    return bytes;
  }
  /// Sends the request; its reply is one number, or one value.
  template <class Number>
  Result<Number> ask_number(Clock::time_point deadline) {
    if (const auto sent = send(deadline); !sent)
      return {boost::system::in_place_error, sent.error()};
    return receive_number<Number>(deadline);
  }
  Result<std::string> ask_bytes(Clock::time_point deadline) {
    if (const auto sent = send(deadline); !sent) return sent.error();
    return receive_bytes(deadline);
  }
  /// The reply to a WAIT that has been sent. On timed_out the wait is cancelled.
  Result<void> receive_stop_waiting(Clock::time_point deadline) {
    bytes_.clear();
    const auto received = connection_->receive(bytes_, 1, deadline);
    if (received) return expect(proto::c10d::kStopWaiting);
    if (received.error() != Errc::timed_out) return checked(received);
    return cancel_wait();
  }
  ErrorCode out_of_step(Errc error) {
    connection_.reset();
    return make_error_code(error);
  }

 private:
  /// After an error it is unknown which reply comes next.
  Result<void> checked(const Result<void>& result) {
    if (!result) connection_.reset();
    return result;
  }
  Result<void> expect(std::uint8_t code) {
    if (static_cast<std::uint8_t>(bytes_.back()) == code) return {};
    return out_of_step(Errc::malformed);
  }
  /// The store answers "canceled"; if the keys came at this very moment, "stop waiting" stands
  /// before it.
  Result<void> cancel_wait() {
    const auto deadline = Clock::now() + kCancelLimit;
    request().cancel_wait();
    if (const auto sent = send(deadline); !sent) return sent;
    bytes_.clear();
    if (const auto received = checked(connection_->receive(bytes_, 1, deadline)); !received)
      return received;
    if (static_cast<std::uint8_t>(bytes_.back()) == proto::c10d::kWaitCanceled) {
      return make_error_code(Errc::timed_out);
    }
    if (const auto stopped = expect(proto::c10d::kStopWaiting); !stopped) return stopped;
    if (const auto received = checked(connection_->receive(bytes_, 1, deadline)); !received)
      return received;
    return expect(proto::c10d::kWaitCanceled);
  }

  std::optional<StoreConnection> connection_;
  std::string bytes_;  ///< the request or reply at hand
};

StoreClient::StoreClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreClient::StoreClient(StoreClient&&) noexcept = default;
StoreClient& StoreClient::operator=(StoreClient&&) noexcept = default;
StoreClient::~StoreClient() = default;

Result<StoreClient> StoreClient::connect(const std::string& host, std::uint16_t port,
                                         Clock::time_point deadline, ErrorCode* last_failure) {
  Clock::duration pause = kFirstPause;
  while (true) {
    ErrorCode failure;
    Result<StoreConnection> connection = connect_once(host, port, deadline);
    if (connection) {
      const auto greeted = greet(*connection, deadline);
      if (greeted) return StoreClient(std::make_unique<Impl>(std::move(*connection)));
      failure = greeted.error();
      if (failure == Errc::old_dialect || failure == Errc::malformed) return failure;
    } else {
      failure = connection.error();
    }
    if (last_failure != nullptr && (failure != Errc::timed_out || !*last_failure))
      *last_failure = failure;
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) return make_error_code(Errc::timed_out);
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min<Clock::duration>(2 * pause, kLongestPause);
  }
}

Result<void> StoreClient::set(std::string_view key, std::string_view value,
                              Clock::time_point deadline) {
  if (!within_limits(key) || !value_within_limits(value)) return make_error_code(Errc::too_large);
  impl_->request().set(key, value);
  return impl_->send(deadline);
}

Result<std::string> StoreClient::get(std::string_view key, Clock::time_point deadline) {
  const std::string name(key);
  if (const auto waited = wait({&name, 1}, deadline); !waited) return waited.error();
  impl_->request().get(key);
  return impl_->ask_bytes(deadline);
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta,
                                      Clock::time_point deadline) {
  if (!within_limits(key)) return make_error_code(Errc::too_large);
  impl_->request().add(key, delta);
  return impl_->ask_number<std::int64_t>(deadline);
}

Result<bool> StoreClient::check(std::span<const std::string> keys, Clock::time_point deadline) {
  if (!within_limits(keys)) return failed(make_error_code(Errc::too_large));
  impl_->request().check(keys);
  const auto reply = impl_->ask_number<std::uint8_t>(deadline);
  if (!reply) return failed(reply.error());
  if (*reply > proto::c10d::kNotReady) return failed(impl_->out_of_step(Errc::malformed));
  return *reply == proto::c10d::kReady;
}

Result<void> StoreClient::wait(std::span<const std::string> keys, Clock::time_point deadline) {
  if (!within_limits(keys)) return make_error_code(Errc::too_large);
  impl_->request().wait(keys);
  if (const auto sent = impl_->send(deadline); !sent) return sent;
  return impl_->receive_stop_waiting(deadline);
}

Result<std::int64_t> StoreClient::key_count(Clock::time_point deadline) {
  impl_->request().key_count();
  return impl_->ask_number<std::int64_t>(deadline);
}

}  // namespace ddprun::rdzv
