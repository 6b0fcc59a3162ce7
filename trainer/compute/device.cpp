#include "trainer/compute/device.hpp"

#include <vector>

#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {
namespace {

template <class T>
void copy_widened(Device& device, const void* from, std::span<float> host) {
  std::vector<T> values(host.size());
  device.copy_out(from, std::as_writable_bytes(std::span(values)));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = load(values[i]);
}

}  // namespace

void copy_floats_out(Device& device, Storage storage, const void* from, std::span<float> host) {
  switch (storage) {
    case Storage::bf16:
      return copy_widened<BFloat16>(device, from, host);
    case Storage::fp16:
      return copy_widened<Half>(device, from, host);
    case Storage::fp32:
    case Storage::rounded_to_bf16:
    case Storage::rounded_to_fp16:
      return device.copy_out(from, std::as_writable_bytes(host));
  }
}

}  // namespace ddprun::trainer
