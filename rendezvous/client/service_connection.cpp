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
      chooser_({.first = {place_.host, place_.port},
                .more_hosts = place_.more_hosts,
                .more_ports = place_.more_ports,
                .follows_standby = place_.follows_standby,
                .has_finder = place_.finder != nullptr}),
      reader_(place_.credentials),
      resolver_(context),
      hello_timer_(context),
      host_timer_(context) {}

ServiceConnection::~ServiceConnection() { reset(); }

/// Called without an error and only if the attempt is still the one of now.
template <class Handler>
auto ServiceConnection::while_current(Handler handler) {
  return [is = std::weak_ptr(attempt_), handler = std::move(handler)](ErrorCode ec) {
    if (!ec && !is.expired()) handler();
  };
}

/// In a later turn of the loop, and only if the attempt is still the one of now.
void ServiceConnection::later(std::function<void()> what) {
  asio::post(context_, [run = while_current(std::move(what))] { run(ErrorCode()); });
}

// ---- connecting ----

void ServiceConnection::connect() {
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  chooser_.begin_attempt();
  connects_at_heal_ = is_cut_;
  if (is_cut_) return;
  // A forwarder that is gone or refuses says nothing of the service.
  if (!place_.socket.empty()) return begin(connect_to_socket_file(place_.socket));
  if (place_.own != nullptr && place_.own->is_here()) return begin(place_.own->connect());
  if (place_.finder != nullptr) return ask_finder();
  chooser_.begin_hosts();
  try_host();
}

void ServiceConnection::ask_finder() {
  place_.finder->find([this, is = std::weak_ptr(attempt_)](const FoundService& found) {
    if (is.expired()) return;
    if (is_cut_) return static_cast<void>(connects_at_heal_ = true);
    if (found.place) {
      chooser_.lead_to(*found.place);
      return try_host();
    }
    later([this, reason = found.reason] { fail(false, reason); });
    if (found.is_hopeless && !chooser_.is_welcomed())
      events_.said(proto::Refused{proto::Refused::Why::broken, found.reason});
  });
}

void ServiceConnection::try_host() {
  if (chooser_.has_next()) {
    host_timer_.expires_after(chooser_.is_patient() ? kHelloTime : kHostTime);
    host_timer_.async_wait(
        while_current([this] { next_host(channel_ ? "no answer" : attempt_->why_unreached()); }));
  }
  look_up();
}

/// Within the same attempt.
void ServiceConnection::next_host(const std::string& reason) {
  if (!chooser_.go_on()) return fail(false, reason);
  reset();
  attempt_ = std::make_shared<Attempt>(context_);
  later([this] { try_host(); });
}

/// An answer serves the attempt of then.
void ServiceConnection::look_up() {
  if (resolver_.is_busy()) return;
  const Endpoint& host = chooser_.host();
  const ErrorCode failed =
      resolver_.look_up(host.host, *host.port, [this, host](Result<Addresses> found) {
        if (!attempt_ || attempt_->begun) return;
        if (is_cut_) return static_cast<void>(connects_at_heal_ = true);
        // An answer that came late may be that of the host before.
        host == chooser_.host() ? take_addresses(std::move(found)) : look_up();
      });
  if (failed) fail(false, why_no_thread(failed));
}

void ServiceConnection::take_addresses(Result<Addresses> addresses) {
  attempt_->begun = true;
  const Endpoint host = chooser_.host();
  if (!addresses)
    return next_host("cannot look up " + host.host + ": " + addresses.error().message());
  if (place_.own != nullptr && !chooser_.are_several() && !chooser_.is_welcomed()) {
    std::vector<std::string> numeric;
    for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next)
      numeric.push_back(numeric_host(*one));
    place_.own->look(numeric);
    if (place_.own->is_here()) return begin(place_.own->connect());
  }
  attempt_->addresses = std::move(*addresses);
  std::vector<const addrinfo*> found;
  for (const addrinfo* one = attempt_->addresses.get(); one != nullptr; one = one->ai_next)
    found.insert(found.begin(), one);
  std::rotate(found.begin(),
              found.end() - static_cast<std::ptrdiff_t>(chooser_.first_of(found.size())),
              found.end());
  hello_timer_.expires_after(kConnectTime);
  hello_timer_.async_wait(while_current([this] {
    if (!channel_) next_host(attempt_->why_unreached());
  }));
  const auto& ports = chooser_.ports();
  for (auto port = ports.rbegin(); port != ports.rend(); ++port) {
    for (const addrinfo* one : found) attempt_->left.push_back({one, *port});
  }
  try_next();
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
  attempt_->socket.async_wait(Wait::wait_write, while_current([this] { established(); }));
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
  attempt_->note_failure(error, chooser_.proves_absence(attempt_->trying));
  if (!attempt_->left.empty()) return try_next();
  // Another of them may have the jobs and start workers: so none of these is "not there".
  if (chooser_.are_several()) return next_host(std::strerror(error));
  fail(attempt_->is_refused(), attempt_->why_failed(error));
}

/// To a service that needs no network.
void ServiceConnection::begin(Result<UniqueFd> connected) {
  ErrorCode failed = connected ? ErrorCode() : connected.error();
  if (!failed) attempt_->socket.assign(connected->get(), failed);
  if (failed) return fail(false, failed.message());
  static_cast<void>(connected->release());
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
        place_.encrypter->client({chooser_.host().host, place_.secret, place_.run_id});
  channel_.emplace(std::move(settings));
  hello_timer_.expires_after(kHelloTime);
  hello_timer_.async_wait(while_current([this] { fail_with_stranger("no answer to our hello"); }));
  flush();
  await_bytes();
}

void ServiceConnection::await_bytes() {
  if (is_cut_) return;
  attempt_->socket.async_wait(Wait::wait_read, while_current([this] { read(); }));
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
  // What the agent is told may end the attempt.
  const std::weak_ptr<Attempt> is = attempt_;
  while (!is.expired()) {
    auto step = channel_->next();
    flush();  // the other side may be told why this one ends
    if (!step) return await_bytes();
    std::visit([this](auto& one) { take(one); }, *step);
  }
}

void ServiceConnection::take(ServiceChannel::Opened&) {
  hello_timer_.cancel();
  host_timer_.cancel();
  events_.connected();
}

void ServiceConnection::take(ServiceChannel::Broken& broken) {
  if (broken.was_open) return fail(false, broken.why);
  const AttemptEnd end{broken.error, broken.why, place_.secret.empty() && reader_,
                       reader_.problem()};
  const auto refused = refusal_for(end);
  if (!refused) return fail_with_stranger(broken.why);
  if (may_pass(end)) return fail(false, refused->reason);
  if (goes_on_after(*refused)) return;
  later([this, why = broken.why] { fail_with_stranger(why); });
  events_.said(*refused);
}

void ServiceConnection::take(proto::ServiceMessage& message) {
  if (const auto* refused = std::get_if<proto::Refused>(&message)) {
    if (goes_on_after(*refused)) return;
  } else if (const auto* welcome = std::get_if<proto::Welcome>(&message)) {
    if (!chooser_.welcome(*welcome, attempt_->trying, attempt_->port))
      return fail(false, "an rdzvd has port " + std::to_string(attempt_->port));
  }
  events_.said(std::move(message));
}

/// True: the attempt goes on elsewhere, or has failed as others do. False: the refusal counts.
bool ServiceConnection::goes_on_after(const proto::Refused& refused) {
  switch (chooser_.refuse(refused, attempt_->port)) {
    case ServiceChooser::Next::fails:
      fail(false, refused.reason);
      return true;
    case ServiceChooser::Next::next_host:
      next_host(refused.reason);
      return true;
    case ServiceChooser::Next::counts:
      break;
  }
  return false;
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
  attempt_->socket.async_wait(Wait::wait_write, while_current([this] {
                                attempt_->writing = false;
                                flush();
                              }));
}

// ---- facts ----

int ServiceConnection::descriptor() const {
  return attempt_ && attempt_->socket.is_open() ? attempt_->socket.native_handle() : -1;
}

std::string ServiceConnection::path() const {
  return connection_path(descriptor(), ConnectionSide::connected);
}

std::string ServiceConnection::local_addr() const { return local_addr_of(descriptor()); }

}  // namespace ddprun::rdzv
