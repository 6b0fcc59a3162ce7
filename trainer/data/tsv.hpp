// Files of texts with labels.
//
//   file := [header end] row (end row)* [end]     row := sentence tab label     end := [CR] LF
//
// A sentence is UTF-8 without tabs, a label a decimal number from 0 on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

inline constexpr std::int32_t kTsvLabelMax = 999'999;

struct TsvRow {
  std::string_view sentence;  ///< a part of the parsed text
  std::int32_t label = 0;
  std::size_t line = 0;  ///< counted from 1
};

/// Throws DataError that names `file` and the line: no row, another number of columns than two, an
/// empty sentence, invalid UTF-8, a label that is no number up to kTsvLabelMax. Leaves out a
/// first line that calls its second column `label`. Pure.
std::vector<TsvRow> parse_tsv(std::string_view text, const std::string& file);

}  // namespace ddprun::trainer
