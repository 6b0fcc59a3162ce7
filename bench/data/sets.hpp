// The generated sets of `train` as files: each sample that `--data=generated` has in memory.
#pragma once

#include <string>

#include "trainer/data/load.hpp"

namespace ddprun::bench {

/// Pictures of the side of CIFAR-10's, in colour.
inline constexpr const char* kPictureShape = "32x32x3";
/// Enough that an epoch does not end within a measurement.
inline constexpr trainer::SentenceSettings kSentences{.count = 16'000, .tokens = 64};

/// Each writes into `folder`, which it makes. Throws std::runtime_error.
void write_jpegs(const std::string& folder);  ///< train/CLASS and val/CLASS
void write_cifar(const std::string& folder);
void write_tsv(const std::string& folder);

}  // namespace ddprun::bench
