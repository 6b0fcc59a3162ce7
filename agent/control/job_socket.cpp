#include "agent/control/job_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/no_descriptor.hpp"
#include "base/version.hpp"
#include "proto/error.hpp"
#include "proto/frame.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;
using Stream = asio::local::stream_protocol;

namespace {

constexpr std::chrono::seconds kIdleLimit{60};   // a connection that says nothing is closed
constexpr std::size_t kConnectionsMax = 64;      // beside one of each worker
constexpr std::size_t kWaitingMax = 32;          // of these for events or for the end
constexpr std::size_t kRequestBytesMax = 4096;   // of a frame
constexpr std::size_t kUnsentBytesMax = 65'536;  // then the peer is to read first
constexpr std::chrono::milliseconds kNoDescriptorsRest{200};
constexpr std::chrono::milliseconds kEndLimit{100};  // for peers to read what they follow

proto::Hello our_hello() {
  return {"job", kProtocolVersionMin, kProtocolVersionMax, {"status", "elastic", "requests"}};
}

class Session;

/// What all connections share.
struct Served {
  Served(JobSocket::Settings of_job, const EventLog& events_log, JobSocket::Events handlers)
      : settings(std::move(of_job)), log(events_log), events(std::move(handlers)) {}

  const JobSocket::Settings settings;
  const EventLog& log;
  const JobSocket::Events events;
  std::set<Session*> sessions;
  std::size_t waiting = 0;       // for events or for the end, without a limit of time
  std::optional<int> exit_code;  // none: the job goes on
};

/// One connection: hello, then requests, each answered in turn; the last one may be for events or
/// for the end of the job.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Stream::socket socket, pid_t peer, std::shared_ptr<Served> served)
      : socket_(std::move(socket)),
        peer_(peer),
        idle_(socket_.get_executor()),
        served_(std::move(served)) {
    served_->sessions.insert(this);
  }
  ~Session() {
    served_->sessions.erase(this);
    if (is_waiting_) --served_->waiting;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start() {
    ErrorCode failed;
    socket_.non_blocking(true, failed);
    parser_.allow(kRequestBytesMax);
    if (!failed) read();
  }
  [[nodiscard]] bool has_unsent() const { return !outgoing_.empty(); }
  [[nodiscard]] int descriptor() { return socket_.native_handle(); }
  void on_news() {
    if (mode_ == Mode::follows && !waits_to_send_) go_on();
  }
  /// A request that has come and was not read yet counts. To be called again, once the peer has
  /// read, while there is something left to be sent.
  void on_job_end(int exit_code) {
    if (mode_ == Mode::asks && !read_now()) return;
    while (mode_ == Mode::follows && !has_end_) {
      add_news();
      if (outgoing_.empty()) break;
      if (!send()) return;
    }
    if (has_end_) {
      send();
      return;
    }
    if (mode_ == Mode::follows || mode_ == Mode::awaits_end) {
      add(fmt::format("{{\"end\":true,\"exit_code\":{}}}", exit_code));
      has_end_ = true;
    }
    send();
  }

 private:
  enum class Mode {
    asks,         ///< its next request is read, and answered
    is_answered,  ///< the answer to its last one is on its way
    follows,      ///< it gets events or logs, and no limit of time holds
    awaits_end,   ///< it gets the job's exit code
  };

  void go_on() {
    if (std::exchange(is_in_turn_, true)) return;
    bool is_sent = true;
    do {
      if (!take_frames()) return;  // nothing holds this connection any more
      if (mode_ == Mode::follows) add_news();
      if (outgoing_.empty()) break;
      is_sent = send();
    } while (is_sent);
    is_in_turn_ = false;
    if (is_sent && !closes_ && mode_ != Mode::is_answered) read();
  }

  /// False: the connection has broken the protocol, or is somebody else's now.
  bool take_frames() {
    while (mode_ == Mode::asks && outgoing_.size() < kUnsentBytesMax) {
      auto frame = parser_.next();
      if (!frame) return false;
      if (!*frame) break;
      if (greeted_ && WorkerMessage::is_one(**frame)) {
        served_->events.worker({std::move(socket_), peer_, std::move(parser_), std::move(**frame),
                                std::move(outgoing_)});
        return false;
      }
      take(**frame);
    }
    return true;
  }

  void take(const std::string& frame) {
    if (!greeted_) return take_hello(frame);
    auto request = parse_job_request(frame);
    if (!request) return add(error_json(request.error()));
    if (const auto* events = std::get_if<EventsWanted>(&*request))
      return follow(std::make_unique<EventFeed>(served_->log, served_->settings.node, *events),
                    events->follow);
    if (const auto* logs = std::get_if<LogsWanted>(&*request)) {
      auto feed = served_->events.logs(*logs);
      return feed ? follow(std::move(*feed), logs->follow) : add(error_json(feed.error()));
    }
    if (std::holds_alternative<EndWanted>(*request)) return wait_in(Mode::awaits_end);
    mode_ = Mode::is_answered;
    served_->events.request(*request, peer_, [self = shared_from_this()](const std::string& json) {
      if (std::exchange(self->mode_, Mode::asks) != Mode::is_answered) return;
      self->add(json);
      self->go_on();
    });
  }
  void take_hello(const std::string& frame) {
    const auto hello = proto::decode_hello(frame);
    if (hello) add(proto::encode_hello(our_hello()));
    greeted_ = hello && proto::agree_on_version(our_hello(), *hello).has_value();
    closes_ = !greeted_;  // our hello tells the peer which versions there are
    if (closes_) mode_ = Mode::awaits_end;
  }
  void follow(std::unique_ptr<Feed> feed, bool until_the_end) {
    feed_ = std::move(feed);
    if (until_the_end) return wait_in(Mode::follows);
    mode_ = Mode::follows;
  }
  void wait_in(Mode mode) {
    if (served_->waiting >= kWaitingMax)
      return add(error_json("too many wait for events, logs or the end of this job already"));
    is_waiting_ = true;
    ++served_->waiting;
    mode_ = mode;
    if (served_->exit_code) on_job_end(*served_->exit_code);
  }

  void add_news() {
    while (outgoing_.size() < kUnsentBytesMax) {
      const auto frame = feed_->next();
      if (!frame) break;
      add(*frame);
    }
    if (!feed_->is_over()) return;
    add("{\"end\":true}");
    feed_.reset();
    mode_ = Mode::asks;
  }
  void add(const std::string& json) {
    outgoing_ += proto::encode_frame(json.size() <= proto::kFrameBytesMax
                                         ? json
                                         : error_json("the answer is too long to be sent"));
  }

  /// False: not all of it; the rest is sent when the peer has read.
  bool send() {
    while (!outgoing_.empty()) {
      ErrorCode failed;
      outgoing_.erase(0, socket_.write_some(asio::buffer(outgoing_), failed));
      if (failed == asio::error::would_block) {
        wait_to_send();
        return false;
      }
      if (failed) {
        outgoing_.clear();
        return false;
      }
    }
    return true;
  }
  void wait_to_send() {
    if (std::exchange(waits_to_send_, true)) return;
    limit_idle_time();
    socket_.async_wait(Stream::socket::wait_write, [self = shared_from_this()](ErrorCode ec) {
      self->waits_to_send_ = false;
      self->idle_.cancel();
      if (!ec) self->go_on();
    });
  }

  /// One that waits for something says nothing more, and is not closed for that; also where it
  /// does not read.
  void limit_idle_time() {
    if (is_waiting_) return;
    idle_.expires_after(kIdleLimit);
    idle_.async_wait([self = shared_from_this()](ErrorCode ec) {
      if (!ec && !self->is_waiting_) self->close();
    });
  }
  /// What has come already. False: as take_frames().
  bool read_now() {
    ErrorCode nothing;
    const std::size_t n = socket_.read_some(asio::buffer(buffer_), nothing);
    if (!nothing) parser_.append({buffer_.data(), n});
    return take_frames();
  }
  void read() {
    if (std::exchange(is_reading_, true)) return;
    limit_idle_time();
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](ErrorCode ec, std::size_t n) {
                              self->is_reading_ = false;
                              self->idle_.cancel();
                              if (ec || self->mode_ != Mode::asks) return self->close();
                              self->parser_.append({self->buffer_.data(), n});
                              self->go_on();
                            });
  }
  void close() {
    ErrorCode ignored;
    socket_.close(ignored);
  }

  Stream::socket socket_;
  const pid_t peer_;
  asio::steady_timer idle_;
  const std::shared_ptr<Served> served_;
  proto::FrameParser parser_;
  std::array<char, 4096> buffer_{};
  std::string outgoing_;
  Mode mode_ = Mode::asks;
  std::unique_ptr<Feed> feed_;  // null: it follows nothing
  bool is_waiting_ = false;     // counted in Served::waiting
  bool has_end_ = false;        // the job's
  bool greeted_ = false;
  bool closes_ = false;      // once all is sent
  bool is_in_turn_ = false;  // in go_on()
  bool is_reading_ = false;
  bool waits_to_send_ = false;
};

/// The process at the other end, if its user may ask; -1: not.
pid_t permitted_peer(Stream::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  return peer.uid == getuid() || peer.uid == 0 ? peer.pid : -1;
}

}  // namespace

class JobSocket::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, std::shared_ptr<Served> served)
      : acceptor_(context), later_(context), served_(std::move(served)) {}

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
      const auto& served = self->served_;
      if (peer >= 0 && served->sessions.size() < kConnectionsMax + served->settings.workers)
        std::make_shared<Session>(std::move(socket), peer, served)->start();
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
  /// Who asks from now on is told at once.
  void on_job_end(int exit_code) {
    served_->exit_code = exit_code;
    const auto limit = std::chrono::steady_clock::now() + kEndLimit;
    std::vector<Session*> left(served_->sessions.begin(), served_->sessions.end());
    while (true) {
      std::vector<pollfd> waited;
      for (Session* session : left) session->on_job_end(exit_code);
      std::erase_if(left, [](const Session* session) { return !session->has_unsent(); });
      for (Session* session : left) waited.push_back({session->descriptor(), POLLOUT, 0});
      const auto time =
          std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
      if (left.empty() || time.count() <= 0) return;
      poll(waited.data(), waited.size(), static_cast<int>(time.count()));
    }
  }
  [[nodiscard]] const std::set<Session*>& sessions() const { return served_->sessions; }

 private:
  Stream::acceptor acceptor_;
  asio::steady_timer later_;
  const std::shared_ptr<Served> served_;
  std::string name_;
  bool is_warned_ = false;
};

Result<JobSocket> JobSocket::open(asio::io_context& context, const Settings& settings,
                                  const EventLog& log, Events events) {
  auto impl =
      std::make_shared<Impl>(context, std::make_shared<Served>(settings, log, std::move(events)));
  const std::string name = fmt::format("ddprun/{}/{}", getuid(), settings.run_id.substr(0, 64));
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
void JobSocket::on_news() {
  for (Session* session : impl_->sessions()) session->on_news();
}
void JobSocket::on_job_end(int exit_code) { impl_->on_job_end(exit_code); }

}  // namespace ddprun::agent
