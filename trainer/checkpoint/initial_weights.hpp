// Initial weights from a safetensors file: which tensor gives which parameter its values.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {

/// What weights are read for. An evaluation needs all of them; a training can leave some out
/// (--init-skip).
enum class WeightsUse { training, evaluation };

/// What a file gives to a model. Pointers into the parameters and the table that were matched.
struct WeightMatch {
  struct Pair {
    const Parameter* parameter = nullptr;
    const TensorEntry* tensor = nullptr;
  };
  std::vector<Pair> pairs;          ///< same name, same shape, a type that converts to floats
  std::vector<std::string> kept;    ///< parameters that keep the values they have
  std::vector<std::string> unused;  ///< tensors
};

/// A file that is not of the model.
class WeightMismatch : public DataError {
 public:
  WeightMismatch(const std::string& message, std::vector<std::string> all)
      : DataError(message), all_(std::move(all)) {}
  /// A line for each parameter or tensor that does not match; empty where the message has the only
  /// one.
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

/// Finds each parameter's tensor by name. Whatever begins with one of the prefixes in `skip` is
/// left out, on both sides. The rest must match: throws WeightMismatch that names the first
/// parameter or tensor that has no partner, or one of another shape or type, with the shapes, and
/// what to skip: the layer's prefix, or the full name where the prefix would also leave out what
/// does match. Where less than half of the parameters have a partner it is another model: the
/// message says which one, if the file does. Throws DataError where `skip` leaves nothing, or has a
/// prefix that no name begins with, and where all names begin with a wrapper's prefix ("module.").
/// Pure.
///
/// PyTorch's batch norm counts its batches in a tensor `num_batches_tracked` (I64, no sides), and
/// transformers numbers positions in a tensor `position_ids` (I64). A model without such parameters
/// needs no prefix to leave them out, and `unused` does not list them. `source`: for messages,
/// "--init-from=FILE".
WeightMatch match_weights(const SafetensorsTable& table, const std::vector<Parameter>& parameters,
                          const std::vector<std::string>& skip, const std::string& source,
                          WeightsUse use = WeightsUse::training);

/// The parameters and the tensors that were left out.
struct LeftOut {
  std::vector<std::string> kept;
  std::vector<std::string> unused;
};

/// Reads into `arena` the parameters that `file` has, and of the file only these. Throws DataError
/// as match_weights does, and one that names the option (--init-from, or --resume-from of an
/// evaluation) where the file cannot be read, or a tensor that is used holds an inf or nan.
LeftOut load_weights(const std::filesystem::path& file, const std::vector<Parameter>& parameters,
                     const std::vector<std::string>& skip, std::span<float> arena,
                     WeightsUse use = WeightsUse::training);

/// Names for a message: at most 36 and a count of the others; "none".
std::string shown_names(const std::vector<std::string>& names);

}  // namespace ddprun::trainer
