#include "trainer/data/data_set.hpp"

#include "base/assert.hpp"

namespace ddprun::trainer {

const Normalization& DataSet::normalization() const {
  static const Normalization none;
  return none;
}

void DataSet::read_image(std::size_t /*index*/, std::span<std::uint8_t> /*pixels*/,
                         std::span<std::uint8_t> /*mask*/) const {
  DDPRUN_ASSERT(false, "a set of texts has no images");
}

int DataSet::length(std::size_t /*index*/) const {
  DDPRUN_ASSERT(false, "a set of images has no texts");
  return 0;
}

std::int32_t DataSet::read_tokens(std::size_t /*index*/, std::span<std::int32_t> /*tokens*/) const {
  DDPRUN_ASSERT(false, "a set of images has no texts");
  return 0;
}

}  // namespace ddprun::trainer
