#include "trainer/host/float_sum.hpp"

#include <cstring>

namespace ddprun::trainer {
namespace {

// Written with explicit vectors: outputs are often inputs as well, and there the compiler would
// give up on its own.
constexpr std::size_t kLane = 16;  // floats; one AVX-512 register, or two or four smaller ones
// Outputs are fetched for writing, sixteen cache lines ahead: they were last written by another
// processor, and one transfer then brings both their values and the right to change them (about 5
// %).
constexpr std::size_t kAhead = 16 * kLane;
using Lane = float __attribute__((vector_size(kLane * sizeof(float))));

[[gnu::always_inline]] inline void sum(float* first, float* second, const float* left,
                                       const float* right, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLane <= count; i += kLane) {
    if (second != nullptr) {
      __builtin_prefetch(first + i + kAhead, 1);
      __builtin_prefetch(second + i + kAhead, 1);
    }
    Lane a;
    Lane b;
    std::memcpy(&a, left + i, sizeof a);
    std::memcpy(&b, right + i, sizeof b);
    a += b;
    std::memcpy(first + i, &a, sizeof a);
    if (second != nullptr) std::memcpy(second + i, &a, sizeof a);
  }
  for (; i < count; ++i) {
    const float value = left[i] + right[i];
    first[i] = value;
    if (second != nullptr) second[i] = value;
  }
}

using Sum = void (*)(float*, float*, const float*, const float*, std::size_t);

void sum_baseline(float* first, float* second, const float* left, const float* right,
                  std::size_t count) {
  if (second == nullptr) {
    sum(first, nullptr, left, right, count);
  } else {
    sum(first, second, left, right, count);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2,prfchw")]] void sum_avx2(float* first, float* second, const float* left,
                                             const float* right, std::size_t count) {
  if (second == nullptr) {
    sum(first, nullptr, left, right, count);
  } else {
    sum(first, second, left, right, count);
  }
}

[[gnu::target("avx512f,prfchw")]] void sum_avx512(float* first, float* second, const float* left,
                                                  const float* right, std::size_t count) {
  if (second == nullptr) {
    sum(first, nullptr, left, right, count);
  } else {
    sum(first, second, left, right, count);
  }
}

Sum choose_sum() {
  if (__builtin_cpu_supports("avx512f")) return sum_avx512;
  if (__builtin_cpu_supports("avx2")) return sum_avx2;
  return sum_baseline;
}
#else
Sum choose_sum() { return sum_baseline; }
#endif

const Sum chosen_sum = choose_sum();

}  // namespace

void add_into(float* left, const float* right, std::size_t count) {
  chosen_sum(left, nullptr, left, right, count);
}

void add_to(float* out, const float* left, const float* right, std::size_t count) {
  chosen_sum(out, nullptr, left, right, count);
}

void add_to_both(float* first, float* second, const float* left, const float* right,
                 std::size_t count) {
  chosen_sum(first, second, left, right, count);
}

}  // namespace ddprun::trainer
