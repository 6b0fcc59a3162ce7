#include "tests/emulated_gpu/emulated_kernels.hpp"

#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <typeinfo>
#include <vector>

namespace ddprun::trainer::test {
namespace {

using cuda::ThreadPlace;

/// All threads finish a phase before any begins the next. Within a phase they run one after the
/// other, those of odd phases backwards: their order must not matter.
template <class Kernel>
void run_block(const Kernel& kernel, unsigned block, unsigned blocks) {
  using Traits = cuda::KernelTraits<Kernel>;
  using Shared = typename Traits::Shared;
  alignas(Shared) std::array<std::byte, sizeof(Shared)> place;
  place.fill(std::byte{0xff});  // a GPU's shared memory holds rubbish, too
  auto& shared = *std::launder(reinterpret_cast<Shared*>(place.data()));
  for (int phase = 0; phase < Traits::kPhases; ++phase) {
    for (int k = 0; k < cuda::kBlockThreads; ++k) {
      const int thread = phase % 2 == 0 ? k : cuda::kBlockThreads - 1 - k;
      Traits::run(kernel, ThreadPlace{block, blocks, static_cast<unsigned>(thread)}, phase, shared);
    }
  }
}

template <class Kernel>
std::vector<std::uintptr_t> words_of(const cuda::Launch& launch) {
  alignas(Kernel) std::array<std::byte, sizeof(Kernel)> place;
  std::memcpy(place.data(), launch.arguments, sizeof(Kernel));
  __builtin_clear_padding(std::launder(reinterpret_cast<Kernel*>(place.data())));
  std::vector<std::uintptr_t> words(sizeof(Kernel) / sizeof(std::uintptr_t));
  std::memcpy(words.data(), place.data(), words.size() * sizeof(std::uintptr_t));
  return words;
}

template <class Kernel>
EmulatedKernel make_kernel() {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(typeid(Kernel).name(), nullptr, nullptr, &failed), std::free);
  return {failed == 0 ? name.get() : typeid(Kernel).name(), words_of<Kernel>,
          [](const cuda::Launch& launch) {
            std::vector<std::byte> arguments(sizeof(Kernel));
            std::memcpy(arguments.data(), launch.arguments, sizeof(Kernel));
            return [arguments = std::move(arguments), blocks = launch.blocks] {
              alignas(Kernel) std::byte place[sizeof(Kernel)];
              std::memcpy(place, arguments.data(), sizeof(Kernel));
              const auto& kernel = *std::launder(reinterpret_cast<const Kernel*>(place));
              // The last block first: a GPU promises no order.
              for (unsigned block = blocks; block-- > 0;) run_block(kernel, block, blocks);
            };
          }};
}

template <class... Kernels>
std::vector<EmulatedKernel> make_kernels(cuda::KernelList<Kernels...> /*list*/) {
  return {make_kernel<Kernels>()...};
}

}  // namespace

const EmulatedKernel& emulated_kernel(int number) {
  static const std::vector<EmulatedKernel> kernels = make_kernels(cuda::AllKernels());
  return kernels.at(static_cast<std::size_t>(number));
}

}  // namespace ddprun::trainer::test
