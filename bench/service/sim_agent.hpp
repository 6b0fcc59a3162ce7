// One agent of a job as the rendezvous service sees it, without a socket, workers or a clock: it
// joins, starts and stops at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/control_channel.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::bench {

struct SimJob {
  std::string run_id = "bench";
  int nodes = 1;  ///< --nnodes=nodes:nodes
  int workers = 8;
  std::string secret = {};                                      ///< empty: none
  std::shared_ptr<const proto::Encrypter> encrypter = nullptr;  ///< null: none
};

class SimAgent {
 public:
  /// `job` must outlive it. Its hello is in the output at once.
  SimAgent(const SimJob& job, std::uint32_t index);

  /// Bytes of the service. Throws std::runtime_error where it sends what it must not.
  void take(std::string_view bytes);
  std::string take_output() { return channel_.take_output(); }

  /// A worker of its round failed by itself.
  void fail_worker();
  /// All workers of its round have succeeded.
  void finish_workers();
  void keep_alive();

  [[nodiscard]] bool is_open() const { return channel_.is_open(); }
  [[nodiscard]] const std::optional<proto::Welcome>& welcome() const { return welcome_; }
  /// The newest one.
  [[nodiscard]] const std::optional<proto::Round>& round() const { return round_; }
  [[nodiscard]] const std::optional<proto::Finished>& finished() const { return finished_; }
  [[nodiscard]] std::uint64_t unanswered_keep_alives() const { return asked_ - answered_; }

 private:
  void hear(const proto::Prove& prove);
  void hear(const proto::Welcome& welcome);
  void hear(const proto::Alive& alive);
  void hear(const proto::Refused& refused);
  void hear(const proto::Status& status);
  void hear(const proto::MembershipMessage& message);
  void join();
  void say(proto::AgentMessage message);
  void send(const proto::ClientMessage& message);

  const SimJob& job_;
  std::string name_;
  proto::ControlChannel channel_;
  bool resumed_ = false;
  std::uint64_t next_seq_ = 1;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  std::optional<proto::Welcome> welcome_;
  std::optional<proto::Round> round_;
  std::optional<proto::Finished> finished_;
  std::optional<proto::WorkerFailure> failure_;  // of its round
};

}  // namespace ddprun::bench
