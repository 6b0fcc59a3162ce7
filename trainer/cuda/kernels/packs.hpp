// Values side by side that a thread reads and writes at once. A GPU moves 16 bytes in one go as it
// does 2, so values of two bytes would else take several times as long.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

inline constexpr std::size_t kPackBytes = 16;

/// How many values of the smallest of these types fill kPackBytes: of two bytes, or of four.
template <class... T>
inline constexpr std::size_t kPackValues = ((sizeof(T) == 2) || ...) ? kPackBytes / 2
                                                                     : kPackBytes / 4;

template <class T, std::size_t kCount>
struct alignas(kCount * sizeof(T) < kPackBytes ? kCount * sizeof(T) : kPackBytes) Pack {
  T values[kCount];
};

// As one word: nvcc makes four loads of a memcpy, for which it knows no alignment.

/// `from` lies as a pack does.
template <std::size_t kCount, class T>
DDPRUN_HOST_DEVICE Pack<T, kCount> read_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <std::size_t kCount, class T>
DDPRUN_HOST_DEVICE void write_pack(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

/// Reads a pack of floats that lie in memory as T.
template <std::size_t kCount, class T>
DDPRUN_HOST_DEVICE Pack<float, kCount> read_floats(const T* from) {
  const Pack<T, kCount> pack = read_pack<kCount>(from);
  Pack<float, kCount> floats;
  for (std::size_t k = 0; k < kCount; ++k) floats.values[k] = load(pack.values[k]);
  return floats;
}
template <std::size_t kCount, class T>
DDPRUN_HOST_DEVICE void write_floats(T* to, const Pack<float, kCount>& floats) {
  Pack<T, kCount> pack;
  for (std::size_t k = 0; k < kCount; ++k) store(pack.values[k], floats.values[k]);
  write_pack(to, pack);
}
/// sums += factor * more
template <std::size_t kCount>
DDPRUN_HOST_DEVICE void add_floats(Pack<float, kCount>& sums, const Pack<float, kCount>& more,
                                   float factor = 1) {
  for (std::size_t k = 0; k < kCount; ++k) sums.values[k] += factor * more.values[k];
}

/// Whether packs can begin at all of these addresses. A null pointer is one.
template <std::size_t kCount, class... T>
DDPRUN_HOST_DEVICE bool lie_as_packs(const T*... places) {
  return ((reinterpret_cast<std::uintptr_t>(places) % alignof(Pack<T, kCount>) == 0) && ...);
}

/// Calls work(i) with the first element of each pack that is this thread's. `count` is a multiple
/// of kCount.
template <std::size_t kCount, class Work>
DDPRUN_HOST_DEVICE void each_pack(const ThreadPlace& at, std::size_t count, const Work& work) {
  for (std::size_t i = at.element() * kCount; i < count; i += at.stride() * kCount) work(i);
}

template <std::size_t kCount, class To, class Function, class... From>
DDPRUN_HOST_DEVICE void map_pack(To* to, const Function& function,
                                 const Pack<From, kCount>&... from) {
  Pack<To, kCount> result;
  for (std::size_t k = 0; k < kCount; ++k) function(result.values[k], from.values[k]...);
  write_pack(to, result);
}

/// function(to[i], from[i]...) for each i. `to` may be one of `from`: an element is read before it
/// is written. One by one where packs do not fit. Launch it with kValues of kPackValues.
template <class To, class Function, class... From>
DDPRUN_HOST_DEVICE void map_values(const ThreadPlace& at, std::size_t count, To* to,
                                   const Function& function, const From*... from) {
  constexpr std::size_t kWhole = kPackValues<To, From...>;
  if (count % kWhole == 0 && lie_as_packs<kWhole>(to, from...)) {
    each_pack<kWhole>(at, count, [&](std::size_t i) {
      map_pack<kWhole>(to + i, function, read_pack<kWhole>(from + i)...);
    });
  } else {
    each_pack<1>(at, count,
                 [&](std::size_t i) { map_pack<1>(to + i, function, read_pack<1>(from + i)...); });
  }
}

}  // namespace ddprun::trainer::cuda
