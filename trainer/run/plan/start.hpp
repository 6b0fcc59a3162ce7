// How a run starts: from a checkpoint or fresh, and the same on every rank.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_directory.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/plan/run_memory.hpp"
#include "trainer/run/report/report.hpp"

namespace ddprun::trainer {

/// What rank 0 found in the directory of checkpoints.
struct StartingPoint {
  std::optional<Snapshot> snapshot;  ///< none: a fresh start
  std::string path;                  ///< of the newest checkpoint of this run; empty: there is none
  std::uint64_t sequence_next = 0;
  std::int64_t step_on_disk = -1;  ///< of that checkpoint; -1: there is none
  std::int64_t block_on_disk = 0;
};

/// Looks for the newest checkpoint of this run, computed on `compute` (a device's description), and
/// warns about newer ones that are skipped. Throws DataError with --resume=strict instead of
/// skipping, and where other versions of train wrote all that there is. Also removes what dead
/// writers left behind. `before_reading` gets the plan of a run that goes on from a checkpoint,
/// before that takes memory.
StartingPoint find_start(const Options& options, const WorkerEnvironment& environment,
                         const DataFacts& data, const std::filesystem::path& out,
                         const CheckpointLayout& layout, const std::string& compute,
                         const std::function<void(const TrainPlan&)>& before_reading,
                         Report& report);

/// The weights of a fresh start.
struct InitialWeights {
  std::string hash;  ///< hash_floats of the arena, as text; empty without --init-from
  std::string note;  ///< one line about --init-from: the file, the hash, what --init-skip left out
};

/// Fills `parameters` (arena layout, in host memory) with the seeded initialisation and, over it,
/// with the tensors of --init-from. Throws DataError where that file cannot be used.
InitialWeights initialize_weights(const Options& options, const Graph& graph,
                                  std::span<float> parameters);

/// The state of a run that starts now.
TrainingState fresh_state(const TrainPlan& plan);

/// Moves a checkpoint's arenas to where training uses them: the snapshot keeps its state alone.
void restore(Snapshot& snapshot, Learner& learner);

/// Who gives what to whom.
struct Giving {
  int root = 0;              ///< the rank that gives
  bool gives_arenas = true;  ///< the same on all ranks
  bool takes_arenas = true;  ///< false: this rank has the same ones already
};

/// Gives the root's state, parameters and moments to all. Waits `timeout` for each of them: that of
/// a large model takes a while, and the ranks have met. Throws DataError where this rank's options
/// make another run than the root's, or would make the ranks miss each other. What the
/// configuration has of --init-from is the root's.
CommResult distribute(Communicator& communicator, const TrainPlan& plan, TrainingState& state,
                      Learner& learner, std::chrono::nanoseconds timeout,
                      const Giving& giving = {});

/// Whether a worker could take part in another round. All ranks of a job answer alike.
bool may_go_on(const Options& options, const WorkerEnvironment& environment);

/// On a GPU a worker goes back to a copy of what it holds. False: there is no room for it beside
/// what training takes; a GPU that is full trains as well without. Null: the worker needs no copy.
bool make_room_to_go_back(cuda::Gpu* gpu, Learner& learner, const RunMemory& planned);

/// The directory of a run, made at its start: workers that are restarted find it even if the first
/// ones died before they wrote anything. Unless kept, the destructor removes again what was made
/// and is still empty.
class RunDirectory {
 public:
  /// Throws DataError when checkpoints could not be written to `path` (not a directory, no
  /// permission, read-only).
  explicit RunDirectory(const std::filesystem::path& path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  void keep() { made_.clear(); }
  /// False: it was there before, or could not be made yet.
  [[nodiscard]] bool is_new() const { return is_new_; }

 private:
  bool is_new_ = false;
  std::vector<std::filesystem::path> made_;  // innermost first
};

}  // namespace ddprun::trainer
