// Everything a checkpoint remembers beside the arenas: state.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/compute/counters.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

/// One setting of the run.
struct ConfigEntry {
  using Value = std::variant<std::int64_t, double, std::string>;
  std::string name;
  Value value;
  /// Whether a checkpoint with another value belongs to another run (model, V, b, ...). Otherwise
  /// it may be resumed, with a warning: the result is then no longer that of one undisturbed run.
  bool identity = false;
  /// What people call the value where that says little (the name of a data set that is known by a
  /// hash). For messages only: never compared.
  std::string title = {};
  friend bool operator==(const ConfigEntry&, const ConfigEntry&) = default;
};
using RunConfig = std::vector<ConfigEntry>;

std::string to_string(const ConfigEntry::Value& value);

/// Steps that no JSON line of an interval has reported yet.
struct OpenInterval {
  std::int64_t first_step = 0;  ///< it began after so many steps of the run
  Counters counters = {};
  double seconds = 0;          ///< spent in its steps
  double exposed_seconds = 0;  ///< of them, waiting for sums; where the reducer knows
  friend bool operator==(const OpenInterval&, const OpenInterval&) = default;
};

/// What one finished epoch came to, for the final table.
struct EpochSummary {
  std::int64_t epoch = 0;
  double train_loss = 0;
  double train_score = 0;
  double test_loss = 0;
  double test_score = 0;
  double seconds = 0;
  double samples_per_second = 0;
  friend bool operator==(const EpochSummary&, const EpochSummary&) = default;
};

/// An epoch that --max-steps cut off, as it was evaluated then. A later run may have gone on in it.
struct CutOffEpoch {
  std::int64_t step = 0;  ///< steps done then, of the run
  EpochSummary summary;
  friend bool operator==(const CutOffEpoch&, const CutOffEpoch&) = default;
};

/// Which run this is, and what computed it when the checkpoint was written.
struct RunOrigin {
  std::string run;              ///< run id, empty where there is none
  std::string lineage;          ///< random; made at a fresh start, kept through resumes
  std::string compute;          ///< Device::description(): the bits may differ on another
  std::int64_t world_size = 1;  ///< free to change
  std::int64_t round = 0;
  std::int64_t restarts = 0;
};

/// The best evaluation so far.
struct BestSoFar {
  double score = -1;  ///< held out; -1: not evaluated yet
  // What it goes by; empty where an older train wrote the checkpoint.
  std::string metric;  ///< its name in JSON: "test_accuracy"
  std::string is;      ///< which is the best one: "largest"
};

struct TrainingState {
  RunOrigin origin;
  RunConfig config;
  std::uint64_t sequence = 0;  ///< rises with every checkpoint written into a directory
  bool best = false;           ///< its held-out score was the best so far

  std::int64_t step = 0;   ///< steps done, counted over all epochs
  std::int64_t epoch = 0;  ///< the epoch under way
  std::int64_t block = 0;  ///< steps done within it
  StepState step_state;    ///< learning rate, loss scale, updates, skipped

  Counters epoch_counters;           ///< of the epoch under way
  double epoch_seconds = 0;          ///< spent in steps of the epoch under way
  double seconds = 0;                ///< spent in training so far, over all rounds
  OpenInterval interval;             ///< rank 0's
  std::vector<EpochSummary> epochs;  ///< those that were trained to their end
  std::vector<CutOffEpoch> cut_off;
  BestSoFar best_so_far;
};

/// A file of the checkpoint and what it must contain.
struct FileDigest {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

/// Hash over names and values of the identity entries: eight hexadecimal digits.
std::string config_hash(const RunConfig& config);

/// The text of state.json. It carries a checksum of itself.
std::string to_json(const TrainingState& state, const std::vector<FileDigest>& files);

/// A checkpoint of another version of train.
class OtherFormat : public DataError {
 public:
  using DataError::DataError;
};

/// The other way. Throws DataError naming `file`: not JSON, not ours, damaged, a field missing or
/// of the wrong type; OtherFormat where another version wrote it.
std::pair<TrainingState, std::vector<FileDigest>> parse_state(const std::string& text,
                                                              const std::string& file);

/// An entry that is not the same on both sides, or that only one of them has.
struct EntryDifference {
  std::optional<ConfigEntry> there;
  std::optional<ConfigEntry> here;
  [[nodiscard]] const ConfigEntry& entry() const { return here ? *here : *there; }
};
/// First those that `here` has, in its order.
std::vector<EntryDifference> differences_of(const RunConfig& there, const RunConfig& here);

/// The value; one with a title is "TITLE (VALUE)".
std::string shown(const ConfigEntry& entry);

/// In words, e.g. "batch 64 there, 32 here, lr absent there, 0.1 here".
struct ConfigDifference {
  std::string identity;  ///< empty: the checkpoint is of this run
  std::string settings;  ///< empty: nothing else differs
};
ConfigDifference compare(const RunConfig& there, const RunConfig& here);

}  // namespace ddprun::trainer
