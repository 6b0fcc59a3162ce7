// Workers that can take part in another round: their connections, by which they are interrupted and
// learn of the next round. The messages are those of worker/ddprun_elastic.h.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>

#include "agent/node/node_machine.hpp"
#include "agent/streams/output_source.hpp"
#include "agent/workers/worker_environment.hpp"
#include "proto/frame.hpp"

namespace ddprun::agent {

/// Entries NAME=VALUE of one message.
class WorkerMessage {
 public:
  WorkerMessage() = default;
  /// The bytes of a frame, which a worker may have sent.
  explicit WorkerMessage(std::string_view bytes);

  void add(std::string_view name, std::string_view value);
  /// None: there is no such entry.
  [[nodiscard]] std::optional<std::string_view> value(std::string_view name) const;
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

  /// Whether a frame is one of these messages and no JSON.
  static bool is_one(std::string_view bytes) { return bytes.starts_with("message="); }

 private:
  std::string bytes_;  // each entry with a NUL behind it
};

/// None: it is not `wait`, or its step is no number.
std::optional<WorkerWaits> parse_wait(const WorkerMessage& message);

class ElasticWorkers {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  /// A connection that has said its hello.
  struct Greeted {
    Socket socket;
    pid_t peer = -1;            ///< the process at the other end
    proto::FrameParser parser;  ///< with the bytes that have come
    std::string first_message;
    std::string unsent;  ///< bytes for the worker that come before all others
  };
  /// The machine is borrowed; `handle` takes events for it.
  ElasticWorkers(const NodeMachine& machine, std::function<void(NodeEvent)> handle);
  ~ElasticWorkers();
  ElasticWorkers(const ElasticWorkers&) = delete;
  ElasticWorkers& operator=(const ElasticWorkers&) = delete;

  // ---- connections ----

  void take(Greeted greeted);
  /// The worker is asked to leave its round. `now`: another one has failed; else it may end its
  /// step.
  void interrupt(int local_rank, bool now, const std::string& reason);
  /// The workers of a round are known, though the machine does not know all of them yet. Those that
  /// go on learn of it. `variables`: what the round is for one of them, by local rank.
  void begin_round(const std::function<EnvironmentPairs(int local_rank)>& variables);
  /// The machine knows all workers of the round.
  void workers_started();
  /// The worker has ended.
  void forget(int local_rank);

  // ---- processes of workers that wait ----

  /// While all that is left of a round was killed.
  void note_reaped(pid_t pid);
  /// From here on none stays.
  void end_all() { keeps_ = false; }
  /// Those that stay when a round ends, and when the next one clears what is left of others; by
  /// their sessions.
  [[nodiscard]] std::set<pid_t> sessions() const;
  /// Those whose streams stay open then.
  [[nodiscard]] KeptWorkers streams() const;

 private:
  class Connection;
  using ConnectionPtr = std::shared_ptr<Connection>;

  void on_message(const ConnectionPtr& connection, std::string_view bytes);
  void on_end(const ConnectionPtr& connection);
  void join(const ConnectionPtr& connection);
  [[nodiscard]] const std::vector<WorkerRecord>& workers() const { return machine_.workers(); }
  [[nodiscard]] std::optional<int> rank_of(pid_t session) const;
  [[nodiscard]] bool stays(const WorkerRecord& worker) const;

  const NodeMachine& machine_;
  const std::function<void(NodeEvent)> handle_;
  std::map<int, ConnectionPtr> joined_;  // by local rank
  std::vector<ConnectionPtr> early_;     // of workers that are being started
  bool keeps_ = true;
};

}  // namespace ddprun::agent
