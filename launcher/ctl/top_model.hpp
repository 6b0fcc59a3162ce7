// What `ddpctl top` knows of a job: the statuses that its nodes have answered, one after the other,
// become rows. Pure; times are given.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::ctl {

using TopTime = std::chrono::steady_clock::time_point;

/// How busy the devices of one worker are.
struct DeviceUse {
  std::optional<double> percent;  ///< the mean of several
  std::optional<std::uint64_t> used_bytes;
};

/// By the value of the devices variable.
using DeviceUses = std::map<std::string, DeviceUse>;

/// A worker. What is not known is none or empty. Texts are printable.
struct TopRow {
  std::int64_t rank = 0;
  std::string state;  ///< `running`, `exit 3`, `SIGKILL`
  bool has_failed = false;
  std::optional<std::int64_t> step;
  /// Time for a step: the mean of the last ones, or the one that takes longer now.
  std::optional<double> step_seconds;
  std::vector<double> step_history;  ///< seconds of each step, or stretch of steps; newest last
  std::string phase;
  std::optional<double> age_seconds;  ///< since its last sign of progress
  std::optional<double> cpu_percent;  ///< 100: one CPU
  std::optional<std::uint64_t> memory_bytes;
  DeviceUse devices;
  std::string last_line;
};

/// The workers of a node together.
struct TopNode {
  std::string name;
  std::int64_t group_rank = 0;
  std::size_t workers = 0;
  std::size_t failed = 0;
  std::optional<std::int64_t> step;    ///< the lowest
  std::optional<double> step_seconds;  ///< the longest
  std::optional<double> cpu_percent;
  std::optional<std::uint64_t> memory_bytes;
};

struct TopView {
  std::string job;
  std::string state;
  double age_seconds = 0;
  std::optional<std::int64_t> round;  ///< none: none has begun
  std::int64_t restart_count = 0;
  std::int64_t max_restarts = 0;
  std::int64_t world_size = 0;
  std::int64_t nodes_in_round = 0;
  std::optional<double> silent_seconds;  ///< since a node has answered last; none: as it should
  std::vector<TopNode> nodes;            ///< those that answer
  std::vector<TopRow> rows;
};

enum class TopOrder { slowest, rank };

class TopModel {
 public:
  /// `interval`: how often nodes are asked.
  explicit TopModel(std::chrono::nanoseconds interval) : interval_(interval) {}

  /// The answer of a node, which came at `at`. False: it is no status, and has no effect.
  bool take(const std::string& status, TopTime at);

  /// Replaces those from before.
  void set_device_uses(DeviceUses uses) { device_uses_ = std::move(uses); }
  /// The devices of workers that run, each value of CUDA_VISIBLE_DEVICES once.
  [[nodiscard]] std::vector<std::string> devices() const;

  /// `slowest`: by the step that they have reached, then by the time that a step takes, then those
  /// without progress; equal ones by rank.
  [[nodiscard]] TopView view(TopTime now, TopOrder order) const;

 private:
  /// The first answer with a step.
  struct Mark {
    std::int64_t step = 0;
    TopTime reported;  // by the worker
    TopTime seen;
  };
  /// A worker process.
  struct Track {
    void note_step(std::int64_t step, TopTime reported, TopTime at);
    void note_cpu(double seconds, TopTime at);
    [[nodiscard]] std::optional<double> step_seconds(TopTime at) const;

    TopRow row;
    std::string devices;
    std::deque<Mark> marks;
    bool is_first_whole = false;  // the first mark is the beginning of its step
    std::deque<double> history;
    std::optional<double> cpu_seconds;
    TopTime cpu_at;
  };
  struct Node {
    TopTime answered;
    TopView job;  // without rows and nodes
    std::int64_t group_rank = 0;
    std::map<std::int64_t, Track> tracks;  // by pid; below 0: it has none
  };

  static double seconds_of(const Mark& from, const Mark& to);
  [[nodiscard]] TopRow row_of(const Track& track, const Node& node, TopTime now) const;

  const std::chrono::nanoseconds interval_;
  std::map<std::string, Node> nodes_;
  DeviceUses device_uses_;
};

}  // namespace ddprun::ctl
