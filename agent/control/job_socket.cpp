#include "agent/control/job_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/no_descriptor.hpp"
#include "base/version.hpp"
#include "proto/error.hpp"
#include "proto/frame.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;
using Stream = asio::local::stream_protocol;

namespace {

constexpr std::chrono::seconds kIdleLimit{60};  // a connection that says nothing is closed
constexpr std::size_t kConnectionsMax = 64;     // beside one of each worker
constexpr std::chrono::milliseconds kNoDescriptorsRest{200};

proto::Hello our_hello() {
  return {"job", kProtocolVersionMin, kProtocolVersionMax, {"status", "elastic"}};
}

// One connection: hello, then requests, each answered in turn.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Stream::socket socket, pid_t peer, const JobSocket::Events& events,
          std::shared_ptr<std::size_t> open)
      : socket_(std::move(socket)),
        peer_(peer),
        idle_(socket_.get_executor()),
        events_(events),
        open_(std::move(open)) {
    ++*open_;
  }
  ~Session() { --*open_; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read() {
    idle_.expires_after(kIdleLimit);
    idle_.async_wait([self = shared_from_this()](ErrorCode ec) {
      if (!ec) self->socket_.close(ec);
    });
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](ErrorCode ec, std::size_t n) {
                              self->idle_.cancel();
                              if (ec) return;
                              self->parser_.append({self->buffer_.data(), n});
                              self->serve();
                            });
  }

 private:
  void serve() {
    std::string replies;
    while (true) {
      auto frame = parser_.next();
      if (!frame) return;
      if (!*frame) break;
      if (greeted_ && WorkerMessage::is_one(**frame)) {
        return events_.worker({std::move(socket_), peer_, std::move(parser_), std::move(**frame),
                               std::move(replies)});
      }
      if (greeted_) {
        replies += proto::encode_frame(events_.answer());
        continue;
      }
      const auto hello = proto::decode_hello(**frame);
      if (!hello) return;
      replies += proto::encode_frame(proto::encode_hello(our_hello()));
      greeted_ = proto::agree_on_version(our_hello(), *hello).has_value();
      if (!greeted_) break;  // our hello tells the peer which versions there are
    }
    outgoing_ = std::move(replies);
    asio::async_write(socket_, asio::buffer(outgoing_),
                      [self = shared_from_this()](ErrorCode ec, std::size_t) {
                        if (!ec && (self->greeted_ || self->outgoing_.empty())) self->read();
                      });
  }

  Stream::socket socket_;
  const pid_t peer_;
  asio::steady_timer idle_;
  const JobSocket::Events events_;
  std::shared_ptr<std::size_t> open_;
  proto::FrameParser parser_;
  std::array<char, 4096> buffer_{};
  std::string outgoing_;
  bool greeted_ = false;
};

/// The process at the other end, if its user may ask; -1: not.
pid_t permitted_peer(Stream::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  return peer.uid == getuid() || peer.uid == 0 ? peer.pid : -1;
}

}  // namespace

std::string job_status(const std::string& run_id, const NodeMachine& machine) {
  nlohmann::json workers = nlohmann::json::array();
  const NodeRound* round = machine.round();
  if (round != nullptr) {
    int local_rank = 0;
    for (const WorkerRecord& worker : round->group.workers()) {
      workers.push_back({{"rank", round->round.first_rank + local_rank++},
                         {"pid", worker.pid},
                         {"running", worker.running()}});
    }
  }
  return json_text(nlohmann::json{{"run_id", run_id},
                                  {"state", to_string(machine.state())},
                                  {"round", round != nullptr ? round->round.number : 0},
                                  {"restart_count", machine.restart_count()},
                                  {"workers", workers}});
}

class JobSocket::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, std::size_t workers, Events events)
      : acceptor_(context),
        later_(context),
        connections_max_(kConnectionsMax + workers),
        events_(std::move(events)) {}

  ErrorCode bind(const std::string& name) {
    ErrorCode ec;
    if (!acceptor_.is_open()) acceptor_.open(Stream(), ec);
    if (!ec) acceptor_.bind(Stream::endpoint(std::string(1, '\0') + name), ec);
    if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
    name_ = "@" + name;
    return ec;
  }

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](ErrorCode ec, Stream::socket socket) {
      if (ec == asio::error::operation_aborted) return;
      const pid_t peer = ec ? -1 : permitted_peer(socket);
      if (peer >= 0 && *self->open_ < self->connections_max_)
        std::make_shared<Session>(std::move(socket), peer, self->events_, self->open_)->read();
      if (no_descriptor(ec)) return self->accept_later(ec);
      self->accept();
    });
  }

  /// Where there is no descriptor, the connection waits in the kernel, and would be announced again
  /// at once.
  void accept_later(const ErrorCode& error) {
    if (!std::exchange(is_warned_, true))
      spdlog::warn("{} cannot be asked for the job's state now: {}", name_,
                   why_no_descriptor(error));
    later_.expires_after(kNoDescriptorsRest);
    later_.async_wait([self = shared_from_this()](ErrorCode ec) {
      if (!ec && self->acceptor_.is_open()) self->accept();
    });
  }

  void close() {
    ErrorCode ignored;
    acceptor_.close(ignored);
    later_.cancel();
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Stream::acceptor acceptor_;
  asio::steady_timer later_;
  const std::size_t connections_max_;
  const Events events_;
  std::string name_;
  bool is_warned_ = false;
  std::shared_ptr<std::size_t> open_ = std::make_shared<std::size_t>(0);
};

Result<JobSocket> JobSocket::open(asio::io_context& context, const std::string& run_id,
                                  std::size_t workers, Events events) {
  auto impl = std::make_shared<Impl>(context, workers, std::move(events));
  const std::string name = fmt::format("ddprun/{}/{}", getuid(), run_id.substr(0, 64));
  ErrorCode ec = impl->bind(name);
  if (ec == asio::error::address_in_use) ec = impl->bind(fmt::format("{}.{}", name, getpid()));
  if (ec) return ec;
  return JobSocket(std::move(impl));
}

JobSocket::JobSocket(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobSocket::JobSocket(JobSocket&&) noexcept = default;
JobSocket::~JobSocket() {
  if (impl_) impl_->close();
}
const std::string& JobSocket::name() const { return impl_->name(); }
void JobSocket::start() { impl_->accept(); }

}  // namespace ddprun::agent
