// The special functions of layers and losses in float, the same bits under g++ and nvcc: no libm,
// only exactly rounded operations (see numeric.hpp) and no branches, so that loops over them
// vectorise. The polynomials are our own: minimax fits by Remez' exchange, their coefficients
// rounded to float one after the other and the rest fitted again after each. Errors are the largest
// over all floats, measured against double; an ulp is the spacing of floats at the exact result.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/compute/host_device.hpp"
#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {

/// |x| in bits, nan included.
DDPRUN_HOST_DEVICE inline float magnitude(float x) {
  return bits_float(float_bits(x) & 0x7fffffffU);
}

/// `value`, not negative, with the sign of `x`: what makes a function odd to the last bit.
DDPRUN_HOST_DEVICE inline float with_sign_of(float x, float value) {
  return bits_float(float_bits(value) | (float_bits(x) & 0x80000000U));
}

/// tanh x within 1.6 ulp. Odd, +-1 from |x| = 9.02 on, nan for nan.
DDPRUN_HOST_DEVICE inline float hyperbolic_tangent(float x) {
  const float a = magnitude(x);
  const float a2 = a * a;
  float p = -0.00616961392F;  // (tanh a / a - 1) / a^2 up to a = 0.5625, error 2^-29
  p = fused_multiply_add(p, a2, 0.021000376F);
  p = fused_multiply_add(p, a2, -0.0538357571F);
  p = fused_multiply_add(p, a2, 0.13332437F);
  p = fused_multiply_add(p, a2, -0.333333135F);
  const float near = fused_multiply_add(p * a2, a, a);
  const float far = 1.0F - 2.0F / (exponential(a + a) + 1.0F);
  return with_sign_of(x, a < 0.5625F ? near : far);
}

/// erf x within 1.1 ulp. Odd, +-1 from |x| = 3.92 on, nan for nan.
DDPRUN_HOST_DEVICE inline float error_function(float x) {
  const float a = magnitude(x);
  const float a2 = a * a;
  float p = 7.80690389e-05F;  // erf a / a - 1 up to a = 1, error 2^-29
  p = fused_multiply_add(p, a2, -0.00079978531F);
  p = fused_multiply_add(p, a2, 0.0051871622F);
  p = fused_multiply_add(p, a2, -0.0268533472F);
  p = fused_multiply_add(p, a2, 0.112835787F);
  p = fused_multiply_add(p, a2, -0.37612626F);
  p = fused_multiply_add(p, a2, 0.128379166F);
  const float near = fused_multiply_add(p, a, a);
  const float b = a > 4.0F ? 4.0F : a;  // a nan stays
  float q = -0.00018637738F;            // -ln erfc b from 1 to 4, error 2^-29 of erf b
  q = fused_multiply_add(q, b, 0.00294763898F);
  q = fused_multiply_add(q, b, -0.0218379851F);
  q = fused_multiply_add(q, b, 0.103106603F);
  q = fused_multiply_add(q, b, 0.63814497F);
  q = fused_multiply_add(q, b, 1.12708914F);
  q = fused_multiply_add(q, b, 0.000341523264F);
  const float far = 1.0F - exponential(-q);
  return with_sign_of(x, a < 1.0F ? near : far);
}

/// 1 / (1 + e^-x) within 2.5 ulp from x = -87 on, 0 below, nan for nan. The exponent is never
/// positive, so nothing overflows.
DDPRUN_HOST_DEVICE inline float sigmoid(float x) {
  const float e = exponential(-magnitude(x));
  return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

/// ln(1 + e^-|x|), the part of softplus that is not linear: within 1.7 ulp up to |x| = 87, 0
/// beyond, nan for nan.
DDPRUN_HOST_DEVICE inline float softplus_tail(float x) {
  const float e = exponential(-magnitude(x));
  float p = 0.00208459073F;  // (ln(1 + e) - e) / e^2 from 0 to 1, error 2^-29
  p = fused_multiply_add(p, e, -0.0136918779F);
  p = fused_multiply_add(p, e, 0.0421151556F);
  p = fused_multiply_add(p, e, -0.0832392052F);
  p = fused_multiply_add(p, e, 0.124795392F);
  p = fused_multiply_add(p, e, -0.161351725F);
  p = fused_multiply_add(p, e, 0.198996231F);
  p = fused_multiply_add(p, e, -0.249888644F);
  p = fused_multiply_add(p, e, 0.333327144F);
  p = fused_multiply_add(p, e, -0.499999881F);
  return fused_multiply_add(p * e, e, e);
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|) within 2 ulp from x = -87 on, 0 below: never overflows;
/// inf for inf, nan for nan.
DDPRUN_HOST_DEVICE inline float softplus(float x) {
  return (x > 0.0F ? x : 0.0F) + softplus_tail(x);
}

/// 1 / sqrt(x), each of the two exactly rounded, unlike the rsqrt instructions, which differ from
/// one machine to the next. inf for 0, nan below.
DDPRUN_HOST_DEVICE inline float reciprocal_square_root(float x) { return 1.0F / std::sqrt(x); }

}  // namespace ddprun::trainer
