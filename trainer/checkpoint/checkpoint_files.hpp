// The files of one checkpoint directory: model.safetensors and optim.safetensors in PyTorch's names
// and layouts, vocabulary.txt or sentencepiece.model where the data has one, and state.json, which
// is written last and carries the checksums of the others.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optim.safetensors";
inline constexpr const char* kVocabularyFile = "vocabulary.txt";
inline constexpr const char* kPieceModelFile = "sentencepiece.model";
inline constexpr const char* kStateFile = "state.json";

/// What of the model a checkpoint needs to know.
struct CheckpointLayout {
  std::vector<Parameter> parameters;
  std::size_t arena_size = 0;
  std::vector<std::string> moments;             ///< names of the optimizer's arenas
  std::map<std::string, std::string> metadata;  ///< for model.safetensors
  std::string vocabulary = {};  ///< the bytes of its file; empty: the checkpoint has none
  std::string vocabulary_file = kVocabularyFile;  ///< or kPieceModelFile
};

/// A copy of everything that changes in training.
struct Snapshot {
  Snapshot() = default;
  explicit Snapshot(const CheckpointLayout& layout);

  TrainingState state;
  FloatBuffer parameters;
  std::vector<FloatBuffer> moments;  ///< in the order of CheckpointLayout::moments
};

/// Writes the files into an empty `directory` and flushes them. Throws std::system_error
/// naming the file.
void write_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout,
                      const Snapshot& snapshot);

/// Reads state.json alone. Throws DataError.
TrainingState read_state(const std::filesystem::path& directory);

/// Reads all, verifying every checksum, name and shape. Throws DataError that names the file and
/// what is wrong.
Snapshot read_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout);

/// Verifies the checksums of model.safetensors and, if it has one, the vocabulary's file. Throws
/// DataError that names the file and what is wrong.
void verify_model(const std::filesystem::path& directory);

}  // namespace ddprun::trainer
