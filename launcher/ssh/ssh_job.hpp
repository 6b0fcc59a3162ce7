// A job on the hosts of --hosts as its launcher sees it: which connections are begun, what their
// ends mean, and how the job ends. Pure: events in, actions out.
//
// Rounds, losses and restarts are the rendezvous's. The launcher only knows whether enough hosts
// are left, because none comes back.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_status.hpp"
#include "launcher/ssh/node_messages.hpp"

namespace ddprun::launcher {

struct SshJobSettings {
  std::vector<std::string> hosts;
  std::string ssh = "ssh";  ///< --ssh, for messages
  std::string version;      ///< which ddprun must have there
  int min_nodes = 1;
  int connecting_max = 32;  ///< at a time
  /// From the start of ssh to the answer of ddprun there.
  std::chrono::milliseconds answer_limit{90'000};
  /// From a signal that ends the job until its connections have ended. Within it is the grace
  /// period, which a second signal skips.
  std::chrono::milliseconds end_limit{90'000};
  std::chrono::milliseconds grace_period{30'000};
  /// Two signals within it are one wish, as for the nodes: a scheduler may send several.
  std::chrono::milliseconds wish_gap{100};
};

// Events
// -------------------------------------------------------------------------

struct Begin {};
/// ddprun there has answered.
struct Greeted {
  std::size_t host = 0;
  std::string version;
};
struct Ended {
  std::size_t host = 0;
  NodeEnd end;
};
/// ssh has ended, and all that it printed has been read.
struct Exited {
  std::size_t host = 0;
  ExitStatus exit;
  std::string words;   ///< last_words of its stderr
  std::string banner;  ///< what was printed in front of the greeting
};
/// What it prints makes no sense.
struct Confused {
  std::size_t host = 0;
  std::string problem;
};
/// ssh could not be started, and so it is with the others.
struct CannotStart {
  std::size_t host = 0;
  std::string problem;
};
/// To the launcher, one that ends the job.
struct Signalled {
  int signal = 0;
};
struct Tick {};
using SshEvent =
    std::variant<Begin, Greeted, Ended, Exited, Confused, CannotStart, Signalled, Tick>;

// Actions
// -------------------------------------------------------------------------

struct StartHost {
  std::size_t host = 0;
};
struct SendPlan {
  std::size_t host = 0;
};
struct SendSignal {
  std::size_t host = 0;
  int signal = 0;
};
/// The end of its stdin, which ends the node.
struct CloseHost {
  std::size_t host = 0;
};
struct KillHost {
  std::size_t host = 0;
};
/// Nothing of the job is left there: its first process has seen it, so no lease is waited for.
struct NodeIsGone {
  std::size_t host = 0;
};
struct Tell {
  std::string line;
};
/// Nothing of the job is left that is known of.
struct Conclude {
  int exit_code = 0;
  std::optional<NodeEnd> report;  ///< its text is that of the job; none: all was told
  std::string json;               ///< as NodeEnd's
  std::string error_file;
};
using SshAction =
    std::variant<StartHost, SendPlan, SendSignal, CloseHost, KillHost, NodeIsGone, Tell, Conclude>;

class SshJob {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SshJob(SshJobSettings settings);

  std::vector<SshAction> on(const SshEvent& event, Clock::time_point now);
  /// When Tick is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

 private:
  enum class State {
    waiting,     ///< nothing was begun
    connecting,  ///< ssh runs; no answer yet
    running,     ///< it has the plan
    closing,     ///< it does not take part, and will end
    ended,
  };
  struct Host {
    State state = State::waiting;
    Clock::time_point answers_until{};
    std::optional<NodeEnd> end;
    bool was_told = false;  // why it does not take part
  };
  struct Context {
    Clock::time_point now;
    std::vector<SshAction>& actions;
  };

  void take(const Begin& begin, Context& context);
  void take(const Greeted& greeted, Context& context);
  void take(const Ended& ended, Context& context);
  void take(const Exited& exited, Context& context);
  void take(const Confused& confused, Context& context);
  void take(const CannotStart& cannot, Context& context);
  void take(const Signalled& signalled, Context& context);
  void take(const Tick& tick, Context& context);

  void start_more(Context& context);
  void give_up(std::size_t host, const std::string& why, Context& context);
  void look_at_numbers(Context& context);
  void end_all(int signal, Context& context);
  void close_all(const std::string& why, Context& context);
  void conclude_if_over(Context& context);
  [[nodiscard]] Conclude conclusion() const;
  [[nodiscard]] std::size_t count(State state) const;
  /// Hosts that take part, or may.
  [[nodiscard]] int hopeful() const;
  [[nodiscard]] bool has_end() const;

  const SshJobSettings settings_;
  std::vector<Host> hosts_;
  bool is_ending_ = false;   // nothing new is begun
  bool is_over_ = false;     // Conclude was given
  std::optional<int> code_;  // of a job that ends for a reason of the launcher's
  int signals_ = 0;          // that ended the job, as wishes
  int last_signal_ = 0;
  Clock::time_point signalled_at_{};  // the last wish
  std::optional<Clock::time_point> ends_until_;
};

}  // namespace ddprun::launcher
