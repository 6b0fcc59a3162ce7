// Where the elements of a batch of images lie, channels-last, and the windows of pooling over them.
#pragma once

#include <cstddef>

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer::cuda {

/// From begin up to end, in one direction.
struct WindowRange {
  int begin, end;
};

/// How all images of a batch are pooled.
struct PoolShape {
  int in_height, in_width;
  int out_height, out_width;
  int channels;
  int size, stride, padding;

  template <std::size_t kCount>
  [[nodiscard]] DDPRUN_HOST_DEVICE bool fills_packs() const {
    return static_cast<std::size_t>(channels) % kCount == 0;
  }

  /// The windows that lie on a row or column of the input.
  [[nodiscard]] DDPRUN_HOST_DEVICE WindowRange windows_on(int position, int outputs) const {
    const int behind = position + padding - size + 1;
    const int begin = behind <= 0 ? 0 : (behind + stride - 1) / stride;
    const int end = (position + padding) / stride + 1;
    return {begin, end < outputs ? end : outputs};
  }
};

/// An element of a batch of images.
struct ImagePlace {
  std::size_t image;
  int y, x, channel;
};
DDPRUN_HOST_DEVICE inline ImagePlace image_place(std::size_t element, int height, int width,
                                                 int channels) {
  const auto channel = static_cast<int>(element % static_cast<std::size_t>(channels));
  const std::size_t pixel = element / static_cast<std::size_t>(channels);
  const auto x = static_cast<int>(pixel % static_cast<std::size_t>(width));
  const std::size_t row = pixel / static_cast<std::size_t>(width);
  return {row / static_cast<std::size_t>(height),
          static_cast<int>(row % static_cast<std::size_t>(height)), x, channel};
}
DDPRUN_HOST_DEVICE inline std::size_t image_element(std::size_t image, int y, int x, int channel,
                                                    int height, int width, int channels) {
  const std::size_t row = image * static_cast<std::size_t>(height) + static_cast<std::size_t>(y);
  const std::size_t pixel = row * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
  return pixel * static_cast<std::size_t>(channels) + static_cast<std::size_t>(channel);
}

}  // namespace ddprun::trainer::cuda
