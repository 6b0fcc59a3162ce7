#include "agent/control/elastic_workers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/write.hpp>

namespace ddprun::agent {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kMessageBytesMax = 4096;  // of a worker
constexpr std::size_t kReasonBytesMax = 512;    // so that a peek sees two interruptions
constexpr std::size_t kEarlyMax = 4096;         // connections of workers that are being started

WorkerMessage message_of_kind(std::string_view kind) {
  WorkerMessage message;
  message.add("message", kind);
  return message;
}

}  // namespace

WorkerMessage::WorkerMessage(std::string_view bytes) : bytes_(bytes) {
  if (bytes_.empty() || bytes_.back() != '\0') bytes_.push_back('\0');
}

void WorkerMessage::add(std::string_view name, std::string_view value) {
  bytes_.append(name).append("=").append(value);
  bytes_.push_back('\0');
}

std::optional<std::string_view> WorkerMessage::value(std::string_view name) const {
  for (std::string_view rest = bytes_; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(entry.size() + 1);
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::optional<WorkerWaits> parse_wait(const WorkerMessage& message) {
  if (message.value("message") != "wait") return std::nullopt;
  WorkerWaits waits;
  const auto text = message.value("step");
  if (!text) return waits;
  std::uint64_t step = 0;
  const char* const end = text->data() + text->size();
  const auto [after, failed] = std::from_chars(text->data(), end, step);
  if (failed != std::errc() || after != end) return std::nullopt;
  waits.step = step;
  return waits;
}

/// One worker's end, or that of a process which would like to be one.
class ElasticWorkers::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ElasticWorkers& owner, Greeted greeted)
      : owner_(&owner),
        socket_(std::move(greeted.socket)),
        parser_(std::move(greeted.parser)),
        outgoing_(std::move(greeted.unsent)),
        session_(getsid(greeted.peer)) {}

  [[nodiscard]] pid_t session() const { return session_; }
  [[nodiscard]] std::optional<int> local_rank() const { return local_rank_; }
  void set_local_rank(int local_rank) { local_rank_ = local_rank; }

  void start() {
    parser_.allow(kMessageBytesMax);
    write();
    serve();
  }
  void send(const WorkerMessage& message) {
    outgoing_ += proto::encode_frame(message.bytes());
    write();
  }
  void refuse(std::string_view reason) {
    WorkerMessage message = message_of_kind("refused");
    message.add("reason", reason);
    closes_ = true;
    send(message);
  }
  /// Nothing of it is reported any more.
  void close() {
    owner_ = nullptr;
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  void serve() {
    while (owner_ != nullptr) {
      const auto frame = parser_.next();
      if (!frame) return end();
      if (!*frame) return read();
      owner_->on_message(shared_from_this(), **frame);
    }
  }
  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](ErrorCode ec, std::size_t n) {
                              if (self->owner_ == nullptr) return;
                              if (ec) return self->end();
                              self->parser_.append({self->buffer_.data(), n});
                              self->serve();
                            });
  }
  void write() {
    if (!sending_.empty() || outgoing_.empty()) return;
    sending_.swap(outgoing_);
    asio::async_write(socket_, asio::buffer(sending_),
                      [self = shared_from_this()](ErrorCode ec, std::size_t) {
                        self->sending_.clear();
                        if (self->owner_ == nullptr) return;
                        if (ec || (self->closes_ && self->outgoing_.empty())) return self->end();
                        self->write();
                      });
  }
  void end() {
    if (owner_ != nullptr) owner_->on_end(shared_from_this());
  }

  ElasticWorkers* owner_;  // null: the connection is closed
  Socket socket_;
  proto::FrameParser parser_;
  std::array<char, 512> buffer_{};
  std::string sending_;
  std::string outgoing_;  // behind that
  const pid_t session_;
  std::optional<int> local_rank_;  // none: it has not joined
  bool closes_ = false;            // once all is sent
};

ElasticWorkers::ElasticWorkers(const NodeMachine& machine, std::function<void(NodeEvent)> handle)
    : machine_(machine), handle_(std::move(handle)) {}

ElasticWorkers::~ElasticWorkers() {
  for (const auto& [local_rank, connection] : joined_) connection->close();
  for (const ConnectionPtr& connection : early_) connection->close();
}

void ElasticWorkers::take(Greeted greeted) {
  const std::string first = std::move(greeted.first_message);
  const auto connection = std::make_shared<Connection>(*this, std::move(greeted));
  if (WorkerMessage(first).value("message") == "join") {
    join(connection);
  } else {
    connection->refuse("the first message is not `join`");
  }
  connection->start();
}

/// A worker's session has its process's number. None: no worker that runs has this one.
std::optional<int> ElasticWorkers::rank_of(pid_t session) const {
  const auto found = std::find_if(workers().begin(), workers().end(), [&](const auto& worker) {
    return worker.running() && worker.pid == session;
  });
  if (found == workers().end()) return std::nullopt;
  return static_cast<int>(found - workers().begin());
}

void ElasticWorkers::join(const ConnectionPtr& connection) {
  const auto local_rank = rank_of(connection->session());
  const bool are_starting = machine_.state() == NodeState::starting;
  if (!local_rank && are_starting && early_.size() < kEarlyMax) {
    early_.push_back(connection);
    return;
  }
  if (!local_rank) return connection->refuse("this process belongs to no worker of this job");
  if (joined_.contains(*local_rank))
    return connection->refuse("another process of this worker has joined");
  connection->set_local_rank(*local_rank);
  joined_[*local_rank] = connection;
  connection->send(message_of_kind("joined"));
  handle_(WorkerCanWait{*local_rank, true});
}

void ElasticWorkers::workers_started() {
  for (const ConnectionPtr& connection : std::exchange(early_, {})) join(connection);
}

void ElasticWorkers::on_message(const ConnectionPtr& connection, std::string_view bytes) {
  const auto local_rank = connection->local_rank();
  auto waits = parse_wait(WorkerMessage(bytes));
  if (!local_rank || !waits) return on_end(connection);
  waits->local_rank = *local_rank;
  handle_(*waits);
}

/// A worker without a connection learns of no interruption and of no round.
void ElasticWorkers::on_end(const ConnectionPtr& connection) {
  connection->close();
  std::erase(early_, connection);
  const auto local_rank = connection->local_rank();
  if (!local_rank) return;
  joined_.erase(*local_rank);
  const WorkerRecord& worker = workers()[static_cast<std::size_t>(*local_rank)];
  const bool is_stopping = machine_.round()->group.stopping();
  if (worker.running() && worker.keeping == Keeping::asked) kill(-worker.pid, SIGTERM);
  if (worker.waits() && is_stopping) kill(-worker.pid, SIGKILL);
  handle_(WorkerCanWait{*local_rank, false});
}

void ElasticWorkers::interrupt(int local_rank, bool now, const std::string& reason) {
  const auto found = joined_.find(local_rank);
  if (found == joined_.end()) return;
  WorkerMessage message = message_of_kind("interrupt");
  message.add("when", now ? "now" : "step");
  message.add("reason", std::string_view(reason).substr(0, kReasonBytesMax));
  found->second->send(message);
}

void ElasticWorkers::begin_round(const std::function<EnvironmentPairs(int local_rank)>& variables) {
  for (const int local_rank : machine_.round()->round.keep) {
    const WorkerRecord& worker = workers()[static_cast<std::size_t>(local_rank)];
    const auto found = joined_.find(local_rank);
    if (found == joined_.end()) {  // it would wait for ever
      if (worker.running()) kill(-worker.pid, SIGKILL);
      continue;
    }
    WorkerMessage message = message_of_kind("round");
    for (const auto& [name, value] : variables(local_rank)) message.add(name, value);
    found->second->send(message);
  }
}

void ElasticWorkers::forget(int local_rank) {
  const auto found = joined_.extract(local_rank);
  if (!found.empty()) found.mapped()->close();
}

// ---- processes of workers that wait ----

/// Between two rounds it waits; while others are started, it is one that goes on.
bool ElasticWorkers::stays(const WorkerRecord& worker) const {
  return worker.waits() || (machine_.state() == NodeState::starting && worker.running());
}

void ElasticWorkers::note_reaped(pid_t pid) {
  for (std::size_t i = 0; i < workers().size(); ++i) {
    if (!stays(workers()[i]) || workers()[i].pid != pid) continue;
    const int local_rank = static_cast<int>(i);
    forget(local_rank);
    handle_(
        WorkerExited{.local_rank = local_rank, .exit = {true, SIGKILL, false}, .at = Clock::now()});
  }
}

std::set<pid_t> ElasticWorkers::sessions() const {
  std::set<pid_t> sessions;
  if (!keeps_ || machine_.state() == NodeState::over) return sessions;
  for (const WorkerRecord& worker : workers())
    if (stays(worker)) sessions.insert(worker.pid);
  return sessions;
}

KeptWorkers ElasticWorkers::streams() const {
  KeptWorkers kept;
  for (std::size_t i = 0; i < workers().size(); ++i)
    if (workers()[i].waits()) kept.emplace(workers()[i].start.number, static_cast<int>(i));
  return kept;
}

}  // namespace ddprun::agent
