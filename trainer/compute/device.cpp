#include "trainer/compute/device.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/compute/numeric.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

template <class T>
void copy_widened(Device& device, const void* from, std::span<float> host) {
  std::vector<T> values(host.size());
  device.copy_out(from, std::as_writable_bytes(std::span(values)));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = load(values[i]);
}

constexpr std::uint64_t kMaskElementsMax = std::uint64_t{1} << 34;

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

void check_attention_mask(const layer::Attention& kind, int batch) {
  const auto positions = static_cast<std::uint64_t>(kind.positions);
  const auto pairs = static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(kind.heads);
  if (kind.dropout > 0 && pairs * positions * positions > kMaskElementsMax)
    throw DataError("a shard of " + std::to_string(batch) +
                    " texts has more attention probabilities than a dropout mask can number: "
                    "use a smaller --batch");
}

}  // namespace ddprun::trainer
