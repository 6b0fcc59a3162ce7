// A set of images for tests of what depends on where it is.
#pragma once

#include <string>
#include <utility>

#include "trainer/data/shapes.hpp"

namespace ddprun::trainer {

/// Shapes that are said to be in memory or to be decoded whenever they are read.
class PlacedSet final : public DataSet {
 public:
  PlacedSet(ByteImages images, bool is_in_memory)
      : inner_("shapes", std::move(images), shapes_normalization(1)), in_memory_(is_in_memory) {}
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] Target target() const override { return inner_.target(); }
  [[nodiscard]] int classes() const override { return inner_.classes(); }
  [[nodiscard]] std::size_t size() const override { return inner_.size(); }
  [[nodiscard]] std::uint64_t content_hash() const override { return inner_.content_hash(); }
  [[nodiscard]] std::uint64_t bytes() const override { return inner_.bytes(); }
  [[nodiscard]] ImageShape shape() const override { return inner_.shape(); }
  [[nodiscard]] bool is_in_memory() const override { return in_memory_; }
  [[nodiscard]] std::uint64_t reading_bytes() const override { return in_memory_ ? 0 : 1000; }
  [[nodiscard]] std::int32_t label(std::size_t index) const override { return inner_.label(index); }
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override {
    inner_.read_image(index, pixels, mask);
  }

 private:
  ByteImageSet inner_;
  bool in_memory_;
};

}  // namespace ddprun::trainer
