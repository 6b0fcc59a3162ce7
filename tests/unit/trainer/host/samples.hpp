// Small labelled image sets that are a pure function of a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/compute/batch.hpp"
#include "trainer/compute/philox.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer::test {

struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  [[nodiscard]] Batch batch() const { return {images, labels}; }
};

/// Pixels uniform in [-1, 1); sample i has the label i mod classes.
inline Samples noise(int count, ImageShape shape, int classes, std::uint32_t seed) {
  Samples samples;
  samples.images.resize(
      static_cast<std::size_t>(count * shape.height * shape.width * shape.channels));
  for (std::size_t i = 0; i < samples.images.size(); ++i) {
    const auto word = philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, seed, 0).word[0];
    samples.images[i] = 2.0F * unit_uniform(word) - 1.0F;
  }
  for (int i = 0; i < count; ++i) samples.labels.push_back(i % classes);
  return samples;
}

/// Noise in which class c brightens a square of its own: easy to learn, not trivial.
inline Samples squares(int count, ImageShape shape, int classes, std::uint32_t seed) {
  Samples samples = noise(count, shape, classes, seed);
  const int side = shape.height / 4;
  for (int i = 0; i < count; ++i) {
    const int label = samples.labels[static_cast<std::size_t>(i)];
    const int top = (label / 4) * side;
    const int left = (label % 4) * side;
    for (int y = top; y < top + side; ++y) {
      for (int x = left; x < left + side; ++x) {
        for (int c = 0; c < shape.channels; ++c) {
          const int at = ((i * shape.height + y) * shape.width + x) * shape.channels + c;
          samples.images[static_cast<std::size_t>(at)] += 0.7F;
        }
      }
    }
  }
  return samples;
}

}  // namespace ddprun::trainer::test
