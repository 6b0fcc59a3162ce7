// Which labels the files of a training set and of the set held out from it may have. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// The labels (0 or more) of a file.
struct FileLabels {
  std::string file;
  std::vector<std::int32_t> labels;
  std::function<std::string(std::size_t sample)> place;  ///< in the file, such as "line 7"
};

/// With more classes than that most of them must occur, where the number is not given.
inline constexpr int kClassesUnasked = 1'000;

/// How many classes both sets have. `head`: outputs of the classifier if they are given. Labels are
/// below it, in both sets; else those of the held-out set are in the range of the training set's,
/// which has two classes or more, and most of those up to its highest label if these are more than
/// kClassesUnasked. Throws DataError that names the file, the first label beyond and
/// its place.
int agree_on_classes(const FileLabels& train, const FileLabels& test, std::optional<int> head);

}  // namespace ddprun::trainer
