// Stands in for an agent: starts workers, interrupts those that can go on when another one fails,
// and forms the next round with them (worker/ddprun_elastic.h). On one host, with one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

class FakeAgent {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Settings {
    int workers = 4;
    std::vector<std::string> arguments = {};
    std::string directory = {};  ///< for workers to run in; empty: ours
    std::string program = {};    ///< its path; empty: train
    bool is_replacing = true;    ///< false: the next round has the survivors alone
    bool turns_ranks = false;    ///< each round gives the first worker's rank to the second one
    int max_workers = 0;         ///< DDPRUN_MAX_WORLD_SIZE; 0: not set
    std::vector<std::pair<std::string, std::string>> environment = {};
  };

  /// Starts round 0.
  explicit FakeAgent(Settings settings);
  ~FakeAgent();
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  /// Does its work until `done` holds. False: the job has ended first, or 120 s have passed.
  bool run_until(const std::function<bool()>& done);
  void run_for(std::chrono::microseconds time);
  /// Until all workers have ended with 0. Fails the test otherwise.
  void finish();

  void signal(int rank, int number);
  /// The number of workers changes in order.
  void change_world(int workers);
  /// The first `workers` ranks are asked to end, as on a node that leaves, and the others go on.
  void leave(int workers);

  [[nodiscard]] int round() const { return round_; }
  [[nodiscard]] int world_size() const { return static_cast<int>(workers_.size()); }
  /// All workers of this round can be interrupted: they train.
  [[nodiscard]] bool all_joined() const;
  /// The furthest that a worker of this round has reported.
  [[nodiscard]] std::int64_t step() const;
  /// The phase of a rank, as its page has it.
  [[nodiscard]] std::string phase(int rank) const;
  /// The rank that gives its state in this round; none: no worker came to it with one.
  [[nodiscard]] std::optional<int> source_rank() const { return source_rank_; }
  [[nodiscard]] std::int64_t source_step() const { return source_step_; }
  /// When the newest round failed, when the next one formed, and when all its workers had joined.
  [[nodiscard]] Time failed_at() const { return failed_at_; }
  [[nodiscard]] Time formed_at() const { return formed_at_; }
  [[nodiscard]] Time joined_at() const { return joined_at_; }
  /// What all workers have printed that have ended.
  [[nodiscard]] const std::string& out() const { return out_; }
  [[nodiscard]] const std::string& err() const { return err_; }
  /// What has happened, a line each.
  [[nodiscard]] const std::string& events() const { return events_; }
  [[nodiscard]] pid_t pid(int rank) const;
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  struct Worker;
  void work(std::chrono::milliseconds wait);
  void start(Worker& worker);
  void form_round(bool is_failure);
  void advance();
  void accept();
  void read(Worker& worker);
  void handle(Worker& worker, const std::string& frame);
  void send(Worker& worker, const std::string& frame);
  void interrupt(Worker& worker, const char* when);
  void note_end(Worker& worker);
  void note(const std::string& event);
  std::vector<std::pair<std::string, std::string>> variables(const Worker& worker) const;

  Settings settings_;
  TempDir pages_;
  std::string socket_name_;
  UniqueFd listener_;
  std::unique_ptr<rdzv::StoreServer> store_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by rank
  int round_ = 0;
  int restarts_ = 0;
  bool is_stopping_ = false;
  bool is_changing_ = false;
  bool is_over_ = false;
  std::optional<int> source_rank_;
  std::int64_t source_step_ = -1;
  Time failed_at_, formed_at_, joined_at_, kill_at_;
  std::string out_, err_, events_;
  const Time began_ = std::chrono::steady_clock::now();
};

}  // namespace ddprun::test
