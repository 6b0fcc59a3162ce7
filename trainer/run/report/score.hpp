// What a run is judged by beside its loss, and which of its epochs is the best one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/compute/counters.hpp"
#include "trainer/model/layer.hpp"

namespace ddprun::trainer {

/// --best: of held-out samples. Of masks, f1 has the order of iou: it is 2 iou / (1 + iou).
enum class BestBy { accuracy, iou, f1, loss };

/// A share of samples, or of pixels; 0 to 1.
struct Score {
  const char* text;  ///< what people call it
  const char* key;   ///< in JSON, behind the name of the set
  double (*of)(const Counters&);
  BestBy best_by;
  Target target;

  /// In JSON: "test_accuracy".
  [[nodiscard]] std::string held_out_key() const { return std::string("test_") + key; }
  /// Whether epochs also have an F1.
  [[nodiscard]] bool is_of_masks() const { return target == Target::mask; }

  // What `best` goes by.

  /// In JSON: "test_accuracy", "test_f1", "test_loss".
  [[nodiscard]] std::string best_key() const;
  /// Which of several values is the best one: "largest".
  [[nodiscard]] const char* best_is() const;
  /// At least 0.
  [[nodiscard]] double best_value(const EpochSummary& epoch) const;
  /// `other` below 0: there is none.
  [[nodiscard]] bool is_better(double one, double other) const;
  /// "largest held-out accuracy 95.00 %".
  [[nodiscard]] std::string best_text(const EpochSummary& epoch) const;
};

/// `best_by`: none: accuracy of labels, IoU of masks.
Score score_of(Target target, std::optional<BestBy> best_by = std::nullopt);

/// "the held-out loss is not finite after step 3 (sample 5 of the held-out set, the first of 2)".
/// `counters`: of an evaluation that has such samples. `when`: " after step 3", or nothing.
std::string held_out_not_finite(const Counters& counters, std::string_view when);

/// The F1 from the same counts as an IoU over a whole set.
double f1_of(double iou);

/// An evaluation of the held-out samples, in training.
struct Evaluation {
  EpochSummary epoch;
  std::int64_t step = 0;    ///< steps done then, of the run
  bool is_cut_off = false;  ///< the epoch was, by --max-steps
  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

/// All of a run so far, in their order.
std::vector<Evaluation> evaluations_of(const TrainingState& state, std::int64_t steps_per_epoch);

/// The best of them, the first of equal ones. None: there are none.
std::optional<Evaluation> best_of(const std::vector<Evaluation>& evaluations, const Score& score);

/// Samples, or pixels of masks. Integers, so that they add up alike in any order.
struct ClassCount {
  std::int64_t wanted = 0;     ///< that are of the class
  std::int64_t predicted = 0;  ///< for which the class was predicted
  std::int64_t correct = 0;    ///< both
  friend bool operator==(const ClassCount&, const ClassCount&) = default;
};

/// The share of the samples that were predicted that is of the class; 0 where there are none.
double precision_of(const ClassCount& count);
/// The share of the samples of the class that was predicted; 0 where there are none.
double recall_of(const ClassCount& count);
/// The harmonic mean of the two; 0 where both are.
double f1_of(const ClassCount& count);
/// The share of all that are of the class or were predicted that is both; 0 where there are none.
double iou_of(const ClassCount& count);

/// Adds samples: `logits` has counts.size() in a row for each label. The class with the largest one
/// is predicted, of equal ones the first, as the accuracy has it; where one is nan, none is.
void count_classes(std::span<const std::int32_t> labels, std::span<const float> logits,
                   std::span<ClassCount> counts);

/// Counts of masks of `pixels` each: those outside and those inside.
std::vector<ClassCount> mask_counts(const Counters& counters, std::int64_t pixels);

}  // namespace ddprun::trainer
