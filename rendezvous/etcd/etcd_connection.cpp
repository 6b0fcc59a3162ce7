#include "rendezvous/etcd/etcd_connection.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "base/socket.hpp"
#include "proto/error.hpp"
#include "rendezvous/client/resolve.hpp"
#include "rendezvous/etcd/etcd_json.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using SteadyClock = std::chrono::steady_clock;

namespace {

/// How soon a call notices that it is cancelled.
constexpr std::chrono::milliseconds kSlice{50};
constexpr std::size_t kReadBytes = 64 * 1024;

/// Whether the member has sent something that is no HTTP. One that has ended has not.
bool is_other_protocol(const ErrorCode& error) {
  static const auto* const category = &http::make_error_code(http::error::bad_version).category();
  return error.category() == *category && error != http::error::end_of_stream &&
         error != http::error::partial_message;
}

bool is_closed(const ErrorCode& error) {
  return error == http::error::end_of_stream || error == asio::error::connection_reset ||
         error == asio::error::broken_pipe;
}

}  // namespace

struct EtcdConnection::Socket {
  asio::io_context context{1};
  asio::ip::tcp::socket socket{context};
  std::array<char, kReadBytes> buffer{};
};

EtcdConnection::EtcdConnection(const std::function<bool()>& is_cancelled, const EtcdAccess& access)
    : is_cancelled_(is_cancelled), access_(access), socket_(std::make_unique<Socket>()) {}
EtcdConnection::~EtcdConnection() = default;

/// Runs what `begin` begins, until it is done or the time is over.
template <class Begin>
ErrorCode EtcdConnection::wait(SteadyTime deadline, Begin begin) {
  std::optional<ErrorCode> result;
  begin([&result](ErrorCode ec) { result = ec; });
  asio::io_context& context = socket_->context;
  context.restart();
  while (!result) {
    const auto now = SteadyClock::now();
    if (now >= deadline || is_cancelled_()) break;
    context.run_one_until(std::min(deadline, now + kSlice));
  }
  if (result) return *result;
  ErrorCode ignored;
  socket_->socket.close(ignored);  // what was begun ends
  context.run();
  return asio::error::timed_out;
}

std::string EtcdConnection::local_addr() const {
  ErrorCode failed;
  const auto end = socket_->socket.local_endpoint(failed);
  return failed ? "" : end.address().to_string();
}

ErrorCode EtcdConnection::open(const Endpoint& member, SteadyTime deadline) {
  member_ = to_string(member);
  const auto found = resolve(member.host, *member.port, deadline);
  if (!found) return found.error();
  auto& socket = socket_->socket;
  ErrorCode failed = asio::error::timed_out;
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    ErrorCode ignored;
    socket.close(ignored);
    asio::ip::tcp::endpoint addr;
    if (one->ai_addrlen > addr.capacity()) continue;
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen,
                reinterpret_cast<char*>(addr.data()));
    addr.resize(one->ai_addrlen);
    failed = wait(deadline, [&](auto done) { socket.async_connect(addr, done); });
    if (!failed) break;
  }
  if (failed) return failed;
  send_at_once(socket.native_handle());
  // Its first bytes go with the first request, which waits for the end of the handshake.
  if (access_.encrypter) encryption_ = access_.encrypter->client({member.host, "", ""});
  return {};
}

ErrorCode EtcdConnection::send(std::string bytes, SteadyTime deadline) {
  if (encryption_) {
    if (!bytes.empty()) encryption_->encrypt(bytes);
    bytes = encryption_->take_output();
  }
  if (bytes.empty()) return {};
  return wait(deadline, [&](auto done) {
    asio::async_write(socket_->socket, asio::buffer(bytes),
                      [done](ErrorCode ec, std::size_t) { done(ec); });
  });
}

/// Some bytes of the other side, which may be of the handshake only.
ErrorCode EtcdConnection::receive(SteadyTime deadline) {
  std::size_t count = 0;
  const ErrorCode ended = wait(deadline, [&](auto done) {
    socket_->socket.async_read_some(asio::buffer(socket_->buffer),
                                    [&count, done](ErrorCode ec, std::size_t bytes) {
                                      count = bytes;
                                      done(ec);
                                    });
  });
  if (ended) return ended;
  has_received_ = true;
  const std::string_view bytes(socket_->buffer.data(), count);
  if (!encryption_) {
    received_ += bytes;
    return {};
  }
  const ErrorCode failed = encryption_->decrypt(bytes, received_);
  const ErrorCode unsent = send({}, deadline);
  return failed ? failed : unsent;
}

Result<EtcdConnection::Answer> EtcdConnection::post(const Request& request, SteadyTime deadline) {
  http::request<http::string_body> message(http::verb::post, request.path, 11);
  message.set(http::field::host, member_);
  message.set(http::field::content_type, "application/json");
  if (!request.token.empty()) message.set(http::field::authorization, request.token);
  message.body() = request.body;
  message.prepare_payload();
  std::ostringstream text;
  text << message;
  if (const ErrorCode failed = send(text.str(), deadline)) return failed;

  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(kEtcdAnswerBytesMax);
  bool needs_more = received_.empty();
  while (!parser.is_done()) {
    const std::size_t held = received_.size();
    ErrorCode ended;
    while (needs_more && !ended && received_.size() == held) ended = receive(deadline);
    if (ended == asio::error::eof) {
      if (!parser.got_some()) return make_error_code(http::error::end_of_stream);
      ErrorCode failed;
      parser.put_eof(failed);
      if (failed) return failed;
      is_reusable_ = false;
      break;
    }
    if (ended) return ended;
    ErrorCode failed;
    const std::size_t taken = parser.put(asio::buffer(received_), failed);
    received_.erase(0, taken);
    if (failed && failed != http::error::need_more) return failed;
    needs_more = failed == http::error::need_more || received_.empty();
  }
  if (!parser.get().keep_alive()) is_reusable_ = false;
  return Answer{parser.get().result_int(), std::move(parser.get().body())};
}

EtcdFault EtcdConnection::fault_of(const ErrorCode& error) const {
  using Kind = EtcdFault::Kind;
  if (error == http::error::body_limit) return {Kind::too_large, "the answer is too large"};
  if (encryption_ && !encryption_->problem().empty())
    return {Kind::not_trusted,
            fmt::format("etcd at {} cannot be used: {}", member_, encryption_->problem())};
  // etcd closes the connection when one side speaks TLS and the other does not.
  const bool is_no_tls = encryption_ && error == proto::Errc::malformed;
  if (is_no_tls || (!has_received_ && is_closed(error)))
    return {Kind::unreachable,
            fmt::format("etcd at {} cannot be reached: {}; it may be another program, or if it has "
                        "{}, {}",
                        member_, error.message(), encryption_ ? "no TLS" : "TLS",
                        encryption_ ? access_.words.use_no_tls : access_.words.use_tls)};
  if (is_other_protocol(error))
    return {Kind::unreachable,
            fmt::format("the program at {} is no etcd (it does not answer in HTTP): check the host "
                        "and the port",
                        member_)};
  return {Kind::unreachable,
          fmt::format("etcd at {} cannot be reached: {}", member_, error.message())};
}

}  // namespace ddprun::rdzv
