#include "trainer/cuda/plugin/convolution_rows.hpp"

#include "base/rounded_up.hpp"
#include "trainer/cuda/kernels/element_kernels.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// Channels are filled up to a multiple of this: cuDNN has its algorithms for tensor cores for
/// such.
constexpr int kChannelMultiple = 8;

std::size_t size_of(ElementType type) {
  return type == ElementType::fp32 ? sizeof(float) : sizeof(std::uint16_t);
}

Rows activation_rows(const ConvolutionShape& shape, const ActivationShape& of) {
  return {static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(of.height) *
              static_cast<std::size_t>(of.width),
          static_cast<std::size_t>(of.channels)};
}
/// Calls `work` with a value of the type.
template <class Work>
void with_type(ElementType type, const Work& work) {
  switch (type) {
    case ElementType::fp32:
      return work(float{});
    case ElementType::fp16:
      return work(Half{});
    case ElementType::bf16:
      return work(BFloat16{});
  }
}

}  // namespace

Rows input_rows(const ConvolutionShape& shape) { return activation_rows(shape, shape.input); }
Rows output_rows(const ConvolutionShape& shape) { return activation_rows(shape, shape.output); }
Rows weight_rows(const ConvolutionShape& shape) {
  const auto size = static_cast<std::size_t>(shape.window.size);
  return {static_cast<std::size_t>(shape.output.channels) * size * size,
          static_cast<std::size_t>(shape.input.channels)};
}
std::size_t bytes_of(const Rows& rows, ElementType type) {
  return rounded_up(rows.count() * size_of(type), kAllocationAlignment);
}

ConvolutionShape padded(const ConvolutionShape& shape) {
  ConvolutionShape larger = shape;
  for (ActivationShape* one : {&larger.input, &larger.output})
    one->channels = rounded_up(one->channels, kChannelMultiple);
  return larger;
}

void pad(const LaunchFunction& launch, ElementType type, const void* from, const Rows& small,
         void* to, const Rows& large) {
  with_type(type, [&](auto value) {
    using T = decltype(value);
    launch_over(launch, large.count(),
                PadChannels<T>{static_cast<const T*>(from), static_cast<T*>(to), small.channels,
                               small.rows, large.channels, large.count()});
  });
}

void take_out(const LaunchFunction& launch, ElementType type, const void* from, const Rows& large,
              void* to, const Rows& small) {
  with_type(type, [&](auto value) {
    using T = decltype(value);
    launch_over(launch, small.count(),
                CopyChannels<T>{static_cast<const T*>(from), static_cast<T*>(to), large.channels, 0,
                                small.channels, 0, small.channels, small.count()});
  });
}

}  // namespace ddprun::trainer::cuda
