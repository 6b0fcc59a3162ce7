// Real `train` processes for tests: a small data set on disk, a group of ranks with a store, their
// results.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/store/store_server.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// A folder with MNIST-like files: 250 training pictures and 64 held-out ones of 28x28, drawn in no
/// time. 250 is not a multiple of anything that tests use: padding and short last batches take
/// part.
class SmallData {
 public:
  /// 250 pictures for training and 64 held out, grey, `side` x `side` pixels.
  explicit SmallData(int side = 28);
  [[nodiscard]] std::string path() const { return directory_.path().string(); }

 private:
  TempDir directory_;
};

/// A folder with a small set for models that learn masks: 10 pictures for training and 5 held out,
/// grey.
class SmallMasks {
 public:
  explicit SmallMasks(int side);
  [[nodiscard]] std::string path() const { return directory_.path().string(); }

 private:
  TempDir directory_;
};

struct GroupOptions {
  int world_size = 1;
  std::vector<std::string> arguments = {};
  std::vector<std::string> prefix = {};  ///< before the program, e.g. taskset
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string directory = {};  ///< to run in; empty: ours
  std::string program = {};    ///< its path; empty: train
  int restart_count = 0;
  bool json = true;  ///< adds --json --quiet
  std::chrono::minutes limit{5};
};

/// One round: a store of its own and a process for each rank. Kills what is left when it dies.
class WorkerGroup {
 public:
  explicit WorkerGroup(const GroupOptions& options);

  Child& rank(int number) { return *children_.at(static_cast<std::size_t>(number)); }
  /// Waits for all, in rank order.
  std::vector<ChildResult> wait();

 private:
  std::unique_ptr<rdzv::StoreServer> store_;
  std::vector<std::unique_ptr<Child>> children_;
};

/// What a launcher tells a rank, of which all are on this machine and meet in `store`.
std::vector<std::pair<std::string, std::string>> rank_variables(int rank, int world_size,
                                                                const rdzv::StoreServer& store,
                                                                int restarts);

/// Runs a group to its end; every rank must succeed. Gives rank 0's final JSON line as text.
std::string train(const GroupOptions& options);

/// A field of a JSON line; "" where it is absent.
std::string field(const std::string& json_line, const std::string& name);

/// The last line of `out`.
std::string last_line(const std::string& out);

/// The hash of the weights that a group ends with.
std::string weights(const GroupOptions& options);

/// A run of 24 steps over the small set, with V=4 and b=8; `more` is appended.
std::vector<std::string> three_epochs(const SmallData& data,
                                      const std::vector<std::string>& more = {});

/// The weights that it ends with when nothing happens.
std::string undisturbed(const SmallData& data);

/// Trains three_epochs() on two ranks, with one random rank killed at a random step, and restarts
/// as a launcher would. Fails unless the victim really died by the kill, the other rank left as a
/// victim that names it, and the weights at the end are `base`.
void kill_and_restart(const SmallData& data, const std::string& base, unsigned seed);

/// Trains with a checkpoint after each step on two ranks, kills rank 1 after the second one, and
/// goes on with three. Gives rank 0's final JSON line.
std::string train_through_kill(std::vector<std::string> arguments);

/// V=4: the same weights and metrics (`score`: the name of the held-out one) for world sizes 1
/// to 4. `arguments`: of the run, without checkpoints. Gives the JSON line that all have in common.
std::string check_world_sizes(std::vector<std::string> arguments, const std::string& score);

/// All bytes of a file.
std::string text_of(const std::filesystem::path& path);

/// Writes the safetensors file `source` to `target` with `value` in all of the tensor `name` (F32).
void fill_tensor(const std::filesystem::path& source, const std::filesystem::path& target,
                 const std::string& name, float value);

/// Whether two JSON lines tell of the same weights and metrics.
void check_same_result(const std::string& one, const std::string& other, const std::string& score);

/// The step of the newest checkpoint that DIR/latest points at; -1: none.
int latest_step(const std::filesystem::path& directory);

}  // namespace ddprun::test
