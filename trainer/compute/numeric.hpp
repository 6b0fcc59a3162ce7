// Storage types: how values are kept between layers, and the float arithmetic that must give the
// same bits under g++ and nvcc. Compile with contraction off (-ffp-contract=off, --fmad=false):
// then +, -, *, /, sqrt and the fma written out here are all exactly rounded.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer {

/// What a run asks for: the storage type of activations, of their gradients and of the parameters
/// that the layers read. Arithmetic, master weights and gradient arenas are always fp32. With tf32
/// all is stored as fp32, and a GPU may round the factors of matrix products and convolutions to 10
/// bits behind the first one; CPUs do not have it.
enum class Precision { fp32, tf32, bf16, fp16 };

/// What a device makes of it. The rounded ones are floats that hold only values of the other type:
/// overflow and precision are those of real storage, but they are no faster than fp32. Their
/// results may differ from real ones in the last bit of the type: sums are rounded elsewhere.
enum class Storage { fp32, bf16, fp16, rounded_to_bf16, rounded_to_fp16 };

/// Bytes of one value.
constexpr std::size_t bytes_of(Storage storage) {
  return storage == Storage::bf16 || storage == Storage::fp16 ? 2 : 4;
}

DDPRUN_HOST_DEVICE inline std::uint32_t float_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

DDPRUN_HOST_DEVICE inline float bits_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

DDPRUN_HOST_DEVICE inline bool is_non_finite(float value) {
  return (float_bits(value) & 0x7f800000U) == 0x7f800000U;
}

/// `value` rounded to the nearest IEEE half (ties to even), as a float: beyond 65519 an inf, below
/// 2^-25 a zero. Written in bits so that loops over it vectorise on any CPU; equal to
/// float(_Float16(value)) but for nan payloads.
DDPRUN_HOST_DEVICE inline float round_to_half(float value) {
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t sign = bits & 0x80000000U;
  const std::uint32_t magnitude = bits ^ sign;
  // Normal range: keep 10 of 23 fraction bits. A carry into the exponent is the right answer.
  std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U)) & ~0x1fffU;
  normal = normal > 0x477fe000U ? 0x7f800000U : normal;  // above 65504
  // Subnormal range: 0.5 has an ulp of 2^-24, the spacing of subnormal halves, so the addition does
  // the rounding.
  const std::uint32_t subnormal = float_bits((bits_float(magnitude) + 0.5F) - 0.5F);
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;  // 2^-14
  result = magnitude > 0x7f800000U ? 0x7fc00000U : result;              // nan
  return bits_float(result | sign);
}

/// The bits of `value` rounded to the nearest bfloat16 (ties to even) in the high half, zeros in
/// the low half.
DDPRUN_HOST_DEVICE inline float round_to_bfloat16(float value) {
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return bits_float(nan ? (bits | 0x400000U) & 0xffff0000U : rounded);
}

#ifdef __CUDACC__
using Half = __half;
using BFloat16 = __nv_bfloat16;
#else
using Half = _Float16;
struct BFloat16 {
  std::uint16_t bits;
};
#endif

// load and store are the only places where a storage type is seen: everything between them is
// float.
DDPRUN_HOST_DEVICE inline float load(float value) { return value; }
DDPRUN_HOST_DEVICE inline void store(float& to, float value) { to = value; }
#ifdef __CUDACC__
DDPRUN_HOST_DEVICE inline float load(Half value) { return __half2float(value); }
DDPRUN_HOST_DEVICE inline float load(BFloat16 value) { return __bfloat162float(value); }
DDPRUN_HOST_DEVICE inline void store(Half& to, float value) { to = __float2half_rn(value); }
DDPRUN_HOST_DEVICE inline void store(BFloat16& to, float value) { to = __float2bfloat16_rn(value); }
#else
inline float load(Half value) { return static_cast<float>(value); }
inline float load(BFloat16 value) { return bits_float(std::uint32_t{value.bits} << 16); }
inline void store(Half& to, float value) { to = static_cast<Half>(value); }
inline void store(BFloat16& to, float value) {
  to.bits = static_cast<std::uint16_t>(float_bits(round_to_bfloat16(value)) >> 16);
}
#endif

DDPRUN_HOST_DEVICE inline float fused_multiply_add(float a, float b, float c) {
  return std::fma(a, b, c);
}

/// e^x within 1 ulp or so for x <= 88, 0 below -87 (no subnormal results), nan for nan. Meant for x
/// <= 0 (softmax).
DDPRUN_HOST_DEVICE inline float exponential(float x) {
  const float clamped = x > 88.0F ? 88.0F : x;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  const float shifted = fused_multiply_add(clamped, 1.44269504F, 12582912.0F);
  const float n = shifted - 12582912.0F;
  // ln 2 in two parts, the first short enough for n * high to be exact.
  float r = fused_multiply_add(n, -0.693359375F, clamped);
  r = fused_multiply_add(n, 2.12194440e-4F, r);
  float p = 1.0F / 5040;  // the series: |r| <= 0.35 leaves r^8 / 8! = 6e-9
  p = fused_multiply_add(p, r, 1.0F / 720);
  p = fused_multiply_add(p, r, 1.0F / 120);
  p = fused_multiply_add(p, r, 1.0F / 24);
  p = fused_multiply_add(p, r, 1.0F / 6);
  p = fused_multiply_add(p, r, 0.5F);
  p = fused_multiply_add(p, r, 1.0F);
  p = fused_multiply_add(p, r, 1.0F);
  const float power =
      bits_float((float_bits(shifted) + 127U) << 23);  // 2^n: the sum's low bits are n
  return x < -87.0F ? 0.0F : p * power;
}

/// ln x within 2 ulp or so for normal positive x; x otherwise unspecified but inf and nan stay
/// non-finite.
DDPRUN_HOST_DEVICE inline float natural_logarithm(float x) {
  if (is_non_finite(x)) return x;
  const std::uint32_t bits = float_bits(x);
  // x = 2^e * m with m in [0.707, 1.414)
  const std::uint32_t biased = bits + (0x3f800000U - 0x3f3504f3U);
  const auto e = static_cast<float>(static_cast<std::int32_t>(biased >> 23) - 127);
  const float m = bits_float((biased & 0x007fffffU) + 0x3f3504f3U);
  // ln m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| <= 0.172
  const float s = (m - 1.0F) / (m + 1.0F);
  const float s2 = s * s;
  float p = 2.0F / 9;
  p = fused_multiply_add(p, s2, 2.0F / 7);
  p = fused_multiply_add(p, s2, 2.0F / 5);
  p = fused_multiply_add(p, s2, 2.0F / 3);
  p = fused_multiply_add(p, s2, 2.0F);
  return fused_multiply_add(e, 0.693359375F, fused_multiply_add(e, -2.12194440e-4F, p * s));
}

}  // namespace ddprun::trainer
