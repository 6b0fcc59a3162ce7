#include "trainer/nccl/narrow_sum.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::nccl {
namespace {

/// Buckets are smaller unless --bucket-mb is above 32.
constexpr std::size_t kPartFloats = std::size_t{8} << 20;

std::size_t part_floats(const CommOptions& options) {
  return std::min(options.arena_floats, kPartFloats);
}

/// work(T{}): Half or BFloat16.
template <class Work>
void in_type(Precision precision, const Work& work) {
  if (precision == Precision::fp16) {
    work(Half{});
  } else {
    work(BFloat16{});
  }
}

}  // namespace

std::vector<Range> within(Range range, const std::vector<Range>& kept) {
  std::vector<Range> parts;
  for (const Range& one : kept) {
    const Range part{std::max(range.begin, one.begin), std::min(range.end, one.end)};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

std::vector<Range> without(Range range, const std::vector<Range>& kept) {
  std::vector<Range> parts;
  std::size_t at = range.begin;
  for (const Range& one : within(range, kept)) {
    if (at < one.begin) parts.push_back({at, one.begin});
    at = one.end;
  }
  if (at < range.end) parts.push_back({at, range.end});
  return parts;
}

NarrowSum::NarrowSum(Device& device, cuda::Gpu& gpu, const CommOptions& options)
    : gpu_(gpu),
      precision_(options.grad_comm),
      kept_(options.statistics),
      part_floats_(nccl::part_floats(options)),
      values_(device.allocate(bytes(options))) {
  DDPRUN_ASSERT(precision_ != Precision::fp32, "there is something to convert");
}

std::size_t NarrowSum::bytes(const CommOptions& options) {
  return nccl::part_floats(options) * sizeof(std::uint16_t);
}

DataType NarrowSum::type() const {
  return precision_ == Precision::fp16 ? DataType::fp16 : DataType::bf16;
}

void NarrowSum::narrow(const float* arena, Range part) {
  const std::size_t count = part.end - part.begin;
  in_type(precision_, [&]<class T>(T) {
    cuda::launch_over(gpu_, count,
                      cuda::StoreFloats<T>{arena + part.begin, values_.as<T>().data(), count},
                      cuda::Stream::communication);
  });
}

void NarrowSum::widen(float* arena, Range part) {
  in_type(precision_, [&]<class T>(T) {
    for (const Range& one : without(part, kept_)) {
      const std::size_t count = one.end - one.begin;
      cuda::launch_over(gpu_, count,
                        cuda::WidenValues<T>{values_.as<T>().data() + (one.begin - part.begin),
                                             arena + one.begin, false, count},
                        cuda::Stream::communication);
    }
  });
}

}  // namespace ddprun::trainer::nccl
