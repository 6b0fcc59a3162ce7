// A SentencePiece model: texts as ids of pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/piece_plugin.hpp"

namespace ddprun::trainer {

/// Why these bytes are no SentencePiece model, "it has no piece"; empty: they may be one. A look
/// at the messages (sentencepiece_model.proto), so that other files never reach the library. Pure.
std::string why_no_piece_model(std::string_view bytes);

/// How messages name a model, and what they tell to do.
struct PieceModelTexts {
  std::string option;     ///< "--tokens="; what the file follows
  std::string name;       ///< option and file
  std::string remedy;     ///< where the file cannot be used
  std::string otherwise;  ///< instead of the library; empty: nothing
};
/// Texts about the file of --tokens, or about the one that a checkpoint has.
PieceModelTexts texts_of_given(const std::filesystem::path& file);
PieceModelTexts texts_of_kept(const std::filesystem::path& file);

/// The library is behind a plugin (piece_plugin.hpp).
class PieceModel {
 public:
  /// `bytes`: of the model's file; `folder` has the plugin. Throws DataError where there is no
  /// plugin, or the file is no model.
  PieceModel(const std::string& bytes, const PieceModelTexts& texts, const std::string& folder);

  /// Ids are below it.
  [[nodiscard]] int size() const;
  /// Appends <s>, the pieces of a sentence in UTF-8 and </s> to `tokens`, as append_tokens() does:
  /// a piece is its id in the model + kSpecialTokens, and what no piece covers is kUnknownToken.
  /// True: the sentence has more than `longest`. Throws DataError.
  bool append(std::string_view sentence, int longest, std::vector<std::int32_t>& tokens) const;

 private:
  const PieceFunctions* functions_;
  std::shared_ptr<void> model_;
  std::string name_;
  int unknown_;
};

}  // namespace ddprun::trainer
