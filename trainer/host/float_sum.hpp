// The inner loops of all gradient sums. Plain IEEE additions, one for each element: the width of
// the vectors never changes a bit.
#pragma once

#include <cstddef>

namespace ddprun::trainer {

/// left[i] += right[i]. The two do not overlap.
void add_into(float* left, const float* right, std::size_t count);

/// out[i] = left[i] + right[i]. `out` may be `left` or `right`, but overlaps neither otherwise.
void add_to(float* out, const float* left, const float* right, std::size_t count);

/// first[i] = second[i] = left[i] + right[i]. Each output may be one of the inputs, but overlaps
/// them in no other way.
void add_to_both(float* first, float* second, const float* left, const float* right,
                 std::size_t count);

}  // namespace ddprun::trainer
