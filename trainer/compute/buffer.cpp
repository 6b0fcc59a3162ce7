#include "trainer/compute/buffer.hpp"

#include <algorithm>

namespace ddprun::trainer {

FloatBuffer::FloatBuffer(std::size_t size)
    : data_(size == 0 ? nullptr : new (std::align_val_t{64}) float[size]), size_(size) {
  std::fill_n(data_.get(), size, 0.0F);
}

}  // namespace ddprun::trainer
