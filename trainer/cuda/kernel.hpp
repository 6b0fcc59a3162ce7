// How a kernel is written, so that nvcc compiles it for GPUs and g++ for the emulated one of the
// tests, from the same text.
//
// A kernel is a struct: its members are the arguments, trivially copyable; its call operator is
// what one thread does.
//
//     struct AddInto {
//       float* sum;
//       const float* addend;
//       std::size_t count;
//       DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
//         for (std::size_t i = at.element(); i < count; i += at.stride()) sum[i] += addend[i];
//       }
//     };
//
// The threads of a block work together in phases: all of them finish one before any begins the
// next. What a phase leaves for the next one is in the block's shared memory; variables of a thread
// do not live on.
//
//     struct Sum {
//       static constexpr int kPhases = ...;
//       struct Shared { ... };
//       DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const;
//     };
#pragma once

#include <cstddef>
#include <type_traits>

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer::cuda {

/// Threads of every block: a power of two, so that sums over a block are trees.
inline constexpr int kBlockThreads = 256;

/// Where a thread is in its launch.
struct ThreadPlace {
  unsigned block = 0;
  unsigned blocks = 1;
  unsigned thread = 0;  ///< in the block

  /// First element and stride of a loop that covers any count with any number of blocks.
  [[nodiscard]] DDPRUN_HOST_DEVICE std::size_t element() const {
    return std::size_t{block} * kBlockThreads + thread;
  }
  [[nodiscard]] DDPRUN_HOST_DEVICE std::size_t stride() const {
    return std::size_t{blocks} * kBlockThreads;
  }
};

struct NoShared {};

template <class Kernel, class = void>
struct KernelTraits {
  static constexpr int kPhases = 1;
  using Shared = NoShared;
  DDPRUN_HOST_DEVICE static void run(const Kernel& kernel, const ThreadPlace& at, int /*phase*/,
                                     Shared& /*shared*/) {
    kernel(at);
  }
};
template <class Kernel>
struct KernelTraits<Kernel, std::void_t<typename Kernel::Shared>> {
  static constexpr int kPhases = Kernel::kPhases;
  using Shared = typename Kernel::Shared;
  DDPRUN_HOST_DEVICE static void run(const Kernel& kernel, const ThreadPlace& at, int phase,
                                     Shared& shared) {
    kernel(at, phase, shared);
  }
};

/// The kernels of one subject. A kernel's number is its place in the list of all (AllKernels).
template <class... Kernels>
struct KernelList {
  static constexpr int kSize = sizeof...(Kernels);
};

template <class... Lists>
struct Concatenated;
template <class... A>
struct Concatenated<KernelList<A...>> {
  using type = KernelList<A...>;
};
template <class... A, class... B, class... Rest>
struct Concatenated<KernelList<A...>, KernelList<B...>, Rest...> {
  using type = typename Concatenated<KernelList<A..., B...>, Rest...>::type;
};

template <class Kernel, class List>
struct PlaceIn;
template <class Kernel, class... Rest>
struct PlaceIn<Kernel, KernelList<Kernel, Rest...>> {
  static constexpr int value = 0;
};
template <class Kernel, class First, class... Rest>
struct PlaceIn<Kernel, KernelList<First, Rest...>> {
  static constexpr int value = 1 + PlaceIn<Kernel, KernelList<Rest...>>::value;
};

/// The sum of a block's values, one of each thread, as a tree: the same bits for every launch. The
/// phases of it: the caller's own phase 0 puts a value in each place, `add(at.thread, phase)` of
/// phases 1 to kTreePhases does the rest, and then the sum stands in places[0].
inline constexpr int kTreePhases = 8;
static_assert(1 << kTreePhases == kBlockThreads);
template <class Value>
struct BlockTree {
  Value places[kBlockThreads];
  DDPRUN_HOST_DEVICE void add(unsigned thread, int phase) {
    const unsigned half = static_cast<unsigned>(kBlockThreads) >> phase;
    if (thread < half) places[thread] += places[thread + half];
  }
};

}  // namespace ddprun::trainer::cuda
