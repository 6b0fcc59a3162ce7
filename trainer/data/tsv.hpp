// Files of texts with labels, and a folder with train.tsv and dev.tsv or test.tsv as a pair of
// sets.
//
//   file := [header end] row (end row)* [end]     row := sentence tab label     end := [CR] LF
//
// A sentence is UTF-8 without tabs, a label a decimal number from 0 on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/text_set.hpp"
#include "trainer/data/train_and_test.hpp"
#include "trainer/model/model.hpp"

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

/// How texts of files become tokens.
struct TextSettings {
  TokenKind tokens = TokenKind::words;
  /// Words of a model that is there: those of this file (vocabulary.txt of a checkpoint), not of
  /// the training set. Pieces: the file of the SentencePiece model, which must be given.
  std::optional<std::filesystem::path> vocabulary = std::nullopt;
  bool is_kept = false;            ///< that file is in a checkpoint: for messages
  std::string plugin_folder = {};  ///< of SentencePiece's plugin
  int longest = kTextPositions;    ///< longer ones are cut; TrainAndTest::warning counts them
};

/// The held-out set is dev.tsv if it is there, else test.tsv. The vocabulary is the training set's.
/// Throws DataError that names the file and the line. `head` as of
/// agree_on_classes().
TrainAndTest load_tsv(const std::filesystem::path& folder, const TextSettings& settings,
                      std::optional<int> head);

/// Bytes of the files, which are held while they become tokens.
std::uint64_t known_tsv_bytes(const std::filesystem::path& folder);

}  // namespace ddprun::trainer
