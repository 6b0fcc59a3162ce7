// A worker's run, step by step, and what it holds meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint_keeper.hpp"
#include "trainer/checkpoint/directory_claim.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/data/load.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/options.hpp"
#include "trainer/run/loop/elastic.hpp"
#include "trainer/run/loop/lanes.hpp"
#include "trainer/run/loop/stop_signals.hpp"
#include "trainer/run/loop/stored_sets.hpp"
#include "trainer/run/loop/train_loop.hpp"
#include "trainer/run/plan/gpus.hpp"
#include "trainer/run/plan/handover.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/plan/rendezvous.hpp"
#include "trainer/run/plan/run_memory.hpp"
#include "trainer/run/plan/start.hpp"
#include "trainer/run/report/report.hpp"

namespace ddprun::trainer {

/// All that it has in its device's memory is a member. So nothing of that is freed before the run
/// itself is destroyed, also after an exception: on a GPU that hangs, freeing would wait for ever.
class WorkerRun {
 public:
  /// What it is given outlives it. `environment`: of the first round.
  WorkerRun(const ChosenDevice& chosen, const Options& options,
            const WorkerEnvironment& environment, StopSignals& stop);
  ~WorkerRun();

  /// Loads data, finds the checkpoint, meets the other ranks, trains. Once. Gives the exit code.
  /// Whatever it throws goes to failed(). Where another rank dies in training, and the launcher
  /// forms another round with this worker, it goes on there with what it holds.
  int run();
  /// Reports the error, tells the other ranks, and gives the exit code.
  int failed(const std::exception& error);
  /// Before a process leaves without destroying the run: removes the directory that it made, if
  /// nothing is in it.
  void give_up_directory();

 private:
  enum class Phase { loading, before_training, training };
  struct Memory {
    MachineMemory there;                 ///< before this worker loaded its data
    RunMemory planned;                   ///< what it is going to take, once that is known
    std::map<int, std::uint64_t> lanes;  ///< as MemoryParts has them
  };
  /// What is learned or evaluated, and by which model.
  struct Input {
    TrainAndTest sets;
    DataFacts facts;
    std::optional<Preparation> preparation;
    std::map<std::string, std::string> evaluated;  ///< --eval: metadata of the weights
    std::optional<Graph> graph;
  };
  /// The run's directory and what rank 0 has found and holds there.
  struct Folder {
    std::filesystem::path out;
    std::optional<RunDirectory> made;   ///< changed under the lock of StopSignals::hold_ends()
    std::optional<DirectoryLock> lock;  ///< until the process ends
    StartingPoint start;
    std::optional<DirectoryClaim> claim;
  };
  struct FirstWeights {
    InitialWeights initial;
    FloatBuffer parameters;  ///< until the learner has them
  };
  /// The way to the other ranks.
  struct Ranks {
    std::optional<Rendezvous> rendezvous;
    std::unique_ptr<Communicator> communicator;
    std::string sums_text;  ///< of the start line, behind the device: " (NCCL 2.28.9)"
  };
  /// How it comes from one round to the next.
  struct Rounds {
    /// Whether waits for other ranks make no sense any more. Empty: there is nobody who says so. In
    /// training a signal (`asked`) asks for an end after a step, for which the ranks meet.
    [[nodiscard]] std::function<bool()> given_up(const std::atomic<int>& asked) const {
      if (!connection) return {};
      return [this, &asked] {
        return connection->is_interrupted() || (is_entering.load() && asked.load() != 0);
      };
    }

    std::unique_ptr<Elastic> connection;     ///< null: this worker cannot
    HeldState held;                          ///< between two rounds
    bool has_lost_peer = false;              ///< before this round was under way
    std::atomic<bool> is_entering{false};    ///< a later round than the first
    std::chrono::nanoseconds start_took{0};  ///< of this worker, until it was ready for others
    Handover handover;                       ///< of this round
  };

  void load();
  void find_folder();
  void find_starting_point();
  void make_report();
  void make_directory();
  void lock_directory();
  bool agree_on_plan();
  bool meet();
  bool begin();
  bool begin_as_stored();
  bool begin_as_handed_over();
  void begin_as_rank();
  bool give_up(const CommResult& why, const std::string& text);
  bool go_on();
  void leave_round();
  void enter_round();
  TrainParts parts();
  std::optional<int> train();
  int evaluate();
  [[nodiscard]] bool is_first() const { return environment_.rank == 0; }
  [[nodiscard]] bool keeps_checkpoints() const {
    return options_.checkpoints.every.kind != CheckpointEvery::Kind::off;
  }
  [[nodiscard]] bool writes() const {
    return is_first() && (keeps_checkpoints() || !options_.checkpoints.out.empty());
  }
  [[nodiscard]] MemoryParts memory_parts();
  [[nodiscard]] std::string text_of(const std::exception& error) const;
  [[nodiscard]] std::string start_text() const;

  const ChosenDevice& chosen_;
  const Options& options_;
  WorkerEnvironment environment_;  // of this round
  StopSignals& stop_;
  Phase phase_ = Phase::loading;
  Memory memory_;
  Input input_;
  Folder folder_;
  std::optional<Report> report_;
  FirstWeights weights_;
  Ranks ranks_;
  TrainPlan plan_;
  std::optional<Learner> learner_;
  TrainingState state_;
  std::unique_ptr<CheckpointKeeper> keeper_;
  StoredSets stored_;
  std::optional<Lanes> lanes_;
  Rounds rounds_;
  std::optional<TrainLoop> loop_;
};

/// Loads data, finds the checkpoint, meets the other ranks, trains. Gives the exit code
/// (exit_codes.hpp), after the line of a failure. On a GPU a run that fails leaves the process.
/// Throws DataError and DeviceError where the device of the options cannot be used.
int run_worker(const Options& options, const WorkerEnvironment& environment, GpuSource& gpus,
               StopSignals& stop);

}  // namespace ddprun::trainer
