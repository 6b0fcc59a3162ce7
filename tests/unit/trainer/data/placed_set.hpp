// A set of images for tests of what depends on where it is.
#pragma once

#include <string>
#include <utility>

#include "trainer/data/shapes.hpp"

namespace ddprun::trainer {

/// Shapes that are said to be in memory or to be decoded whenever they are read.
class PlacedSet final : public ImageSet {
 public:
  PlacedSet(ByteImages images, bool is_in_memory)
      : PlacedSet(ByteImageSet("shapes", std::move(images), shapes_normalization(1)),
                  is_in_memory) {}
  [[nodiscard]] std::int32_t label(std::size_t index) const override { return inner_.label(index); }
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override {
    inner_.read_image(index, pixels, mask);
  }

 private:
  PlacedSet(ByteImageSet inner, bool is_in_memory)
      : ImageSet(facts_of(inner, is_in_memory), {.shape = inner.shape(),
                                                 .target = inner.target(),
                                                 .reading_bytes = is_in_memory ? 0U : 1000U}),
        inner_(std::move(inner)) {}
  static SetFacts facts_of(const ImageSet& inner, bool is_in_memory) {
    return {.name = inner.name(),
            .classes = inner.classes(),
            .size = inner.size(),
            .content_hash = inner.content_hash(),
            .bytes = inner.bytes(),
            .is_in_memory = is_in_memory};
  }

  ByteImageSet inner_;
};

}  // namespace ddprun::trainer
