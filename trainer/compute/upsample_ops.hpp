// Bilinear enlarging to twice the height and the width with half-pixel centres: PyTorch's
// interpolate(scale_factor=2, mode="bilinear", align_corners=False). Rows and columns one after the
// other, the rows first. The gradient is gathered by each input pixel, in a fixed order: no sum
// depends on threads.
#pragma once

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer {

/// The two input pixels of one direction that an output pixel is mixed from.
struct UpsampleSource {
  int near;
  int far;
};

/// Output pixel o lies at (o + 1/2) / 2 - 1/2 of the input: a quarter of a pixel beside the middle
/// of pixel o / 2. Beyond an edge stands the pixel at the edge.
DDPRUN_HOST_DEVICE inline UpsampleSource upsample_source(int output, int inputs) {
  const int near = output / 2;
  const int far = output % 2 == 0 ? near - 1 : near + 1;
  return {near, far < 0 ? 0 : (far >= inputs ? inputs - 1 : far)};
}

DDPRUN_HOST_DEVICE inline float upsample_mix(float near, float far) {
  return 0.75F * near + 0.25F * far;
}

/// The four output pixels of one direction that read an input pixel: the outer ones as their far
/// pixel, the inner ones as their near one. An output pixel at an edge reads the same pixel as
/// both, and so stands here twice.
struct UpsampleReaders {
  int pixel[4];
};

DDPRUN_HOST_DEVICE inline UpsampleReaders upsample_readers(int input, int inputs) {
  const int first = 2 * input - 1;
  const int last = 2 * input + 2;
  return {{first < 0 ? 0 : first, 2 * input, 2 * input + 1,
           last >= 2 * inputs ? 2 * inputs - 1 : last}};
}

/// An input's gradient, from the gradients of its four readers in order.
DDPRUN_HOST_DEVICE inline float upsample_gather(float a, float b, float c, float d) {
  return 0.75F * (b + c) + 0.25F * (a + d);
}

}  // namespace ddprun::trainer
