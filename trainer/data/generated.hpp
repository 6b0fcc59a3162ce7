// The sets that `--data generated` and `--data generated-cracks` ask for.
#pragma once

#include <cstdint>

#include "trainer/data/sentences.hpp"
#include "trainer/data/train_and_test.hpp"

namespace ddprun::trainer {

/// Cracks with masks.
TrainAndTest generate_cracks(ImageShape shape);

/// Bytes that they are going to take.
std::uint64_t generated_crack_bytes(ImageShape shape);

/// Shapes, told apart by labels or found by masks.
TrainAndTest generate_shapes(ImageShape shape, Target target);

/// Bytes that they are going to take.
std::uint64_t generated_shape_bytes(ImageShape shape, Target target);

/// What generated sentences are to be like.
struct SentenceSettings {
  int count = kSentences;        ///< for training; a quarter as many are held out
  int tokens = kSentenceTokens;  ///< the most of one
};

TrainAndTest generate_sentences(const SentenceSettings& settings);

/// Bytes that they are going to take, judged by the first thousand.
std::uint64_t generated_sentence_bytes(const SentenceSettings& settings);

}  // namespace ddprun::trainer
