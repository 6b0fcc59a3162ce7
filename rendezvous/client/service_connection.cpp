#include "rendezvous/client/service_connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "base/socket.hpp"
#include "base/start_thread.hpp"
#include "proto/error.hpp"
#include "proto/fit_frame.hpp"
#include "rendezvous/client/connection_attempt.hpp"
#include "rendezvous/client/service_refusal.hpp"
#include "rendezvous/client/socket_address.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;
using Wait = asio::posix::descriptor_base;

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

/// Until a connection is there: a first packet that was lost is sent again after 1 s and 3 s, and
/// the whole attempt may take 5 s.
constexpr std::chrono::seconds kConnectTime{4};
/// Until the service has answered: what listens there answers at once, or is no rendezvous.
constexpr std::chrono::seconds kHelloTime{3};
/// Until the channel to one of several hosts is open.
constexpr std::chrono::seconds kHostTime{1};

}  // namespace

ServiceConnection::ServiceConnection(asio::io_context& context, ServicePlace place, Events events)
    : context_(context),
      place_(std::move(place)),
      events_(std::move(events)),
      ports_{place_.port},
      hosts_({place_.host, place_.port}, place_.more_hosts),
      reader_(place_.credentials),
      resolver_(context),
      hello_timer_(context),
      host_timer_(context) {
  ports_.insert(ports_.end(), place_.more_ports.begin(), place_.more_ports.end());
}

ServiceConnection::~ServiceConnection() { reset(); }

/// In a later turn of the loop, and only if the attempt is still the one of now.
void ServiceConnection::later(std::function<void()> what) {
  asio::post(context_, [this, is = std::weak_ptr(attempt_), what = std::move(what)] {
    if (!is.expired()) what();
  });
}

// ---- connecting ----

void ServiceConnection::connect() {
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  ++attempts_;
  refusal_.clear();
  connects_at_heal_ = is_cut_;
  if (is_cut_) return;
  if (!place_.socket.empty()) return connect_to_socket();
  if (place_.own != nullptr && place_.own->is_here()) return connect_to_own();
  if (place_.finder != nullptr) return ask_finder();
  hosts_.begin();
  try_host();
}

void ServiceConnection::try_host() {
  if (hosts_.has_next()) {
    // A busy one has more time at every other attempt.
    host_timer_.expires_after(attempts_ % 2 == 0 ? kHelloTime : kHostTime);
    host_timer_.async_wait([this, is = std::weak_ptr(attempt_)](ErrorCode ec) {
      if (!ec && !is.expired()) next_host(why_silent());
    });
  }
  look_up();
}

/// A forwarder that is gone or refuses says nothing of the service.
void ServiceConnection::connect_to_socket() {
  auto fd = connect_to_socket_file(place_.socket);
  if (!fd) return fail(false, fd.error().message());
  begin(std::move(*fd));
}

void ServiceConnection::connect_to_own() {
  auto fd = place_.own->connect();
  if (!fd) return fail(false, fd.error().message());
  begin(std::move(*fd));
}

/// Within the same attempt.
void ServiceConnection::next_host(const std::string& reason) {
  if (!hosts_.go_on()) return fail(false, reason);
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  later([this] { try_host(); });
}

/// An answer serves the attempt of then.
void ServiceConnection::look_up() {
  if (resolver_.is_busy()) return;
  const Endpoint& host = hosts_.current();
  const ErrorCode failed =
      resolver_.look_up(host.host, *host.port, [this, host](Result<Addresses> found) {
        if (!attempt_ || attempt_->begun) return;
        if (is_cut_) return static_cast<void>(connects_at_heal_ = true);
        // An answer that came late may be that of the host before.
        host == hosts_.current() ? take_addresses(std::move(found)) : look_up();
      });
  if (failed) fail(false, why_no_thread(failed));
}

void ServiceConnection::take_addresses(Result<Addresses> addresses) {
  attempt_->begun = true;
  const Endpoint host = hosts_.current();
  if (!addresses)
    return next_host("cannot look up " + host.host + ": " + addresses.error().message());
  if (place_.own != nullptr && !hosts_.are_several() && !welcomed_) {
    std::vector<std::string> numeric;
    for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next)
      numeric.push_back(numeric_host(*one));
    place_.own->look(numeric);
    if (place_.own->is_here()) return connect_to_own();
  }
  attempt_->addresses = std::move(*addresses);
  std::vector<const addrinfo*> found;
  for (const addrinfo* one = attempt_->addresses.get(); one != nullptr; one = one->ai_next)
    found.insert(found.begin(), one);
  // One that does not answer must not hide the others from every attempt.
  std::rotate(found.begin(),
              found.end() - static_cast<std::ptrdiff_t>((attempts_ - 1) % found.size()),
              found.end());
  hello_timer_.expires_after(kConnectTime);
  hello_timer_.async_wait([this, is = std::weak_ptr(attempt_)](ErrorCode ec) {
    if (!ec && !is.expired() && !channel_) next_host(why_silent());
  });
  if (hosts_.are_several()) ports_ = {*host.port};
  for (auto port = ports_.rbegin(); port != ports_.rend(); ++port) {
    for (const addrinfo* one : found) attempt_->left.push_back({one, *port});
  }
  try_next();
}

/// Another program has the port, or the service of another job.
void ServiceConnection::try_port_last() {
  const auto port = std::find(ports_.begin(), ports_.end(), attempt_->port);
  if (port != ports_.end()) std::rotate(port, port + 1, ports_.end());
}

void ServiceConnection::try_next() {
  const auto [addr, port] = attempt_->left.back();
  attempt_->left.pop_back();
  attempt_->trying = numeric_host(*addr);
  attempt_->port = port;
  std::memcpy(&attempt_->addr, addr->ai_addr, addr->ai_addrlen);
  set_port(attempt_->addr, port);
  attempt_->addr_length = addr->ai_addrlen;
  UniqueFd fd(socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return connect_failed(errno);
  set_control_options(fd.get());
  const int raw = fd.get();
  ErrorCode failed;
  attempt_->socket.close(failed);
  attempt_->socket.assign(raw, failed);
  if (failed) return fail(false, failed.message());
  static_cast<void>(fd.release());
  if (::connect(raw, reinterpret_cast<const sockaddr*>(&attempt_->addr), attempt_->addr_length) !=
          0 &&
      errno != EINPROGRESS) {
    const int error = errno;
    return later([this, error] { connect_failed(error); });
  }
  attempt_->socket.async_wait(Wait::wait_write, [this, is = std::weak_ptr(attempt_)](ErrorCode ec) {
    if (!ec && !is.expired()) established();
  });
}

/// Without an answer to the first packet nothing is known of the other side.
std::string ServiceConnection::why_silent() const {
  if (attempt_->trying.empty() || channel_) return "no answer";
  const std::string port = std::to_string(attempt_->port);
  return "no answer from " + to_string(Endpoint(attempt_->trying, attempt_->port)) +
         ": a firewall drops the packets, or the host is down; try nc -vz " + attempt_->trying +
         " " + port;
}

void ServiceConnection::established() {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(attempt_->socket.native_handle(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == ECONNREFUSED && is_refused_by_icmp(attempt_->socket.native_handle())) {
    attempt_->rejected = true;
    error = EHOSTUNREACH;  // the service may be there
  }
  if (error != 0) return connect_failed(error);
  begin_channel();
}

void ServiceConnection::connect_failed(int error) {
  // An address of a family that this machine does not have says nothing of the service.
  const bool no_way = error == EAFNOSUPPORT || error == ENETUNREACH || error == EADDRNOTAVAIL;
  if (error == ECONNREFUSED && (!welcomed_ || attempt_->trying == welcomed_from_))
    attempt_->refused = true;
  if (error != ECONNREFUSED && !no_way) attempt_->unreachable = true;
  if (!attempt_->left.empty()) return try_next();
  // Another of them may have the jobs and start workers: so none of these is "not there".
  if (hosts_.are_several()) return next_host(std::strerror(error));
  const bool refused = attempt_->refused && !attempt_->unreachable;
  const bool rejected = attempt_->rejected && error == EHOSTUNREACH;
  fail(refused,
       rejected ? "a firewall rejects connections" : std::strerror(refused ? ECONNREFUSED : error));
}

void ServiceConnection::begin(UniqueFd fd) {
  ErrorCode failed;
  attempt_->socket.assign(fd.get(), failed);
  if (failed) return fail(false, failed.message());
  static_cast<void>(fd.release());
  begin_channel();
}

// ---- connected ----

void ServiceConnection::begin_channel() {
  proto::ControlChannel::Settings settings;
  settings.side = proto::Side::client;
  settings.hello = proto::rendezvous_hello(place_.run_id);
  settings.secret = place_.secret;
  settings.needs_proof = place_.needs_proof;
  if (reader_)
    settings.secret_of = [this](const std::string& shown) { return reader_.secret_of(shown); };
  const bool is_through_network = attempt_->addr_length != 0;
  if (place_.encrypter && is_through_network)
    settings.encryption =
        place_.encrypter->client({hosts_.current().host, place_.secret, place_.run_id});
  channel_.emplace(std::move(settings));
  hello_timer_.expires_after(kHelloTime);
  hello_timer_.async_wait([this, is = std::weak_ptr(attempt_)](ErrorCode ec) {
    if (!ec && !is.expired()) fail_with_stranger("no answer to our hello");
  });
  flush();
  if (attempt_) await_bytes();
}

void ServiceConnection::await_bytes() {
  if (is_cut_) return;
  attempt_->socket.async_wait(Wait::wait_read, [this, is = std::weak_ptr(attempt_)](ErrorCode ec) {
    if (!ec && !is.expired()) read();
  });
}

void ServiceConnection::read() {
  if (is_cut_) return;
  // On the heap: every thread of the program writes all its thread-local bytes when it starts.
  static thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  const ssize_t count =
      recv(attempt_->socket.native_handle(), buffer.get(), kReadBytes, MSG_DONTWAIT);
  if (count < 0 && would_block(errno)) return await_bytes();
  if (count <= 0) {
    const std::string why =
        count == 0 ? "the rendezvous closed the connection" : std::strerror(errno);
    return channel_->is_open() ? fail(false, why) : fail_with_stranger(why);
  }
  channel_->append({buffer.get(), static_cast<std::size_t>(count)});
  const std::weak_ptr<Attempt> is = attempt_;
  while (!is.expired() && channel_) {
    const bool was_open = channel_->is_open();
    const auto body = channel_->next();
    if (!body) {
      flush();  // the other side may be told why
      const std::string why = channel_->why(body.error());
      const AttemptEnd end{body.error(), why, place_.secret.empty() && reader_, reader_.problem()};
      const auto refused = was_open ? std::nullopt : refusal_for(end);
      if (refused && may_pass(end)) return fail(false, refused->reason);
      if (refused && goes_on_after(*refused)) return;
      if (refused) events_.said(*refused);
      if (is.expired()) return;
      return was_open ? fail(false, why) : fail_with_stranger(why);
    }
    flush();
    if (is.expired()) return;
    if (!was_open && channel_->is_open()) {
      hello_timer_.cancel();
      host_timer_.cancel();
      events_.connected();
    }
    if (is.expired() || !*body) break;
    auto message = proto::decode_service_message(**body);
    if (message) {
      const auto* refused = std::get_if<proto::Refused>(&*message);
      const bool is_standby = refused != nullptr && refused->why == proto::Refused::Why::elsewhere;
      if (is_standby && place_.follows_standby) {
        hosts_.prefer(refused->place);
        hosts_.go_on();
        return fail(false, refused->reason);
      }
      if (refused != nullptr && goes_on_after(*refused)) return;
      if (const auto* welcome = std::get_if<proto::Welcome>(&*message)) {
        // It serves every job that asks, while this one's nodes are at another port.
        if (may_be_at_other_port() && !welcome->in_agent) {
          try_port_last();
          return fail(false, "an rdzvd has port " + std::to_string(attempt_->port));
        }
        welcomed_ = true;
        refusal_.clear();
        welcomed_from_ = attempt_->trying;
        if (attempt_->port != 0) ports_ = {attempt_->port};
      }
      events_.said(std::move(*message));
    } else if (message.error() != proto::Errc::unknown_kind || !channel_->peer_is_newer()) {
      return fail(false, message.error().message());
    }
  }
  if (!is.expired()) await_bytes();
}

void ServiceConnection::send(const proto::ClientMessage& message) {
  if (!channel_ || !channel_->is_open()) return;
  if (!channel_->send(proto::encode_to_fit(message))) return fail(false, "a message is too large");
  flush();
}

void ServiceConnection::flush() {
  if (attempt_->writing) return;
  unsent_ += channel_->take_output();
  if (is_cut_) return;
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t count = ::send(attempt_->socket.native_handle(), unsent_.data() + sent,
                                 unsent_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    // That it has ended is read, too; what the service said last is in front of that.
    if (count < 0) break;
    sent += static_cast<std::size_t>(count);
  }
  unsent_.erase(0, sent);
  if (unsent_.empty()) return;
  attempt_->writing = true;
  attempt_->socket.async_wait(Wait::wait_write, [this, is = std::weak_ptr(attempt_)](ErrorCode ec) {
    if (ec || is.expired()) return;
    attempt_->writing = false;
    flush();
  });
}

// ---- ends ----

void ServiceConnection::fail(bool refused, const std::string& reason) {
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  // A standby only names the leader, which may be the one that refuses.
  later([this, refused, told = refusal_.empty() ? reason : refusal_] {
    events_.failed(refused, told);
  });
}

void ServiceConnection::reset() {
  hello_timer_.cancel();
  host_timer_.cancel();
  channel_.reset();
  probe_.reset();
  unsent_.clear();
  connects_at_heal_ = false;
  if (!attempt_) return;
  if (attempt_->socket.is_open()) {
    reset_on_close(attempt_->socket.native_handle());
    if (is_cut_) cut_sockets_.push_back(std::move(attempt_->socket));
  }
  attempt_.reset();
}

int ServiceConnection::descriptor() const {
  return attempt_ && attempt_->socket.is_open() ? attempt_->socket.native_handle() : -1;
}

std::string ServiceConnection::path() const {
  return connection_path(descriptor(), ConnectionSide::connected);
}

std::string ServiceConnection::local_addr() const { return local_addr_of(descriptor()); }

}  // namespace ddprun::rdzv
