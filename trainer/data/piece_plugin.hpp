// What libtrain_sentencepiece.so gives to train: SentencePiece behind five C functions. It is
// opened at run time, so that train starts without that library where nobody asks for it.
#pragma once

#include <cstddef>

namespace ddprun::trainer {

/// Name of the file, beside train.
inline constexpr const char* kPiecePluginFile = "libtrain_sentencepiece.so";
/// Name of the exported function, a PiecePluginFunction.
inline constexpr const char* kPiecePluginSymbol = "ddprun_train_sentencepiece";
/// Rises when PieceFunctions changes.
inline constexpr int kPiecePluginVersion = 1;

/// None of them throws or prints.
struct PieceFunctions {
  int version = kPiecePluginVersion;
  /// A model of the bytes of its file; null: it is unusable, and `why`, of `why_bytes`, has the
  /// reason with a NUL behind it.
  void* (*open)(const char* model, std::size_t bytes, char* why, std::size_t why_bytes);
  void (*close)(void* model);
  /// How many pieces it has: their ids are below that.
  int (*size)(const void* model);
  /// The id of text that no piece covers.
  int (*unknown)(const void* model);
  /// Writes the ids of a sentence in UTF-8, at most `most`. Gives how many the sentence has; below
  /// 0: the library failed. May be called by several threads.
  long (*encode)(const void* model, const char* sentence, std::size_t bytes, int* ids,
                 std::size_t most);
};

using PiecePluginFunction = const PieceFunctions* (*)();

}  // namespace ddprun::trainer
