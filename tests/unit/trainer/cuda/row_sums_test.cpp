// Sums over the rows of a matrix, in pieces, of one term or of two.
#include "trainer/cuda/row_sums.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "tests/unit/trainer/cuda/one_gpu.hpp"

namespace ddprun::trainer {
namespace {

using cuda::Stream;

struct Matrix {
  std::size_t rows, columns;
  std::vector<float> values = {};
  [[nodiscard]] float at(std::size_t row, std::size_t column) const {
    return values[row * columns + column];
  }
};
/// Small integers, so that sums of floats are exact in any order.
Matrix integers(std::size_t rows, std::size_t columns, std::size_t seed) {
  Matrix matrix{rows, columns};
  for (std::size_t i = 0; i < rows * columns; ++i)
    matrix.values.push_back(static_cast<float>((i * 31 + seed) % 17) - 8);
  return matrix;
}

class Sums {
 public:
  template <class Value>
  Value* put(const std::vector<Value>& host) {
    const std::size_t bytes = host.size() * sizeof(Value);
    std::byte* const memory = one_.gpu.allocate(bytes);
    std::byte* const pinned = one_.gpu.allocate_pinned(bytes);
    std::memcpy(pinned, host.data(), bytes);
    one_.gpu.copy_in(Stream::compute, pinned, memory, bytes);
    return reinterpret_cast<Value*>(memory);
  }
  std::vector<float> get(const float* there, std::size_t count) {
    std::byte* const pinned = one_.gpu.allocate_pinned(count * sizeof(float));
    one_.gpu.copy_out(Stream::compute, there, pinned, count * sizeof(float));
    one_.gpu.synchronize(Stream::compute);
    std::vector<float> host(count);
    std::memcpy(host.data(), pinned, count * sizeof(float));
    return host;
  }
  template <class Term>
  void run(const Matrix& shape, const Term& term, const cuda::RowSums::Result& result) {
    const cuda::RowSums sums(one_.gpu, shape.rows, shape.columns);
    sums.run(term, result, one_.gpu.allocate(sums.workspace_bytes(cuda::ColumnSums<Term>::kSums)));
  }

 private:
  test::OneGpu one_;
};

TEST_CASE("sums over rows are those of all pieces, times a factor, or added to what is there") {
  // One piece and several; fewer columns than a block sums, and more.
  const std::size_t rows = GENERATE(std::size_t{1}, std::size_t{100}, std::size_t{1500});
  const std::size_t columns = GENERATE(std::size_t{3}, std::size_t{70});
  const bool adds = GENERATE(false, true);
  const Matrix matrix = integers(rows, columns, 5);
  std::vector<float> expected(columns, adds ? 2.0F : 0.0F);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t r = 0; r < rows; ++r) expected[c] += 0.5F * matrix.at(r, c);
  Sums sums;
  float* const to = sums.put(std::vector<float>(columns, 2.0F));
  sums.run(matrix, cuda::ValueTerm<float>{sums.put(matrix.values), columns},
           {.to = to, .factor = 0.5F, .adds = adds});
  CHECK(sums.get(to, columns) == expected);
}

TEST_CASE("two sums over the same rows go to a place each") {
  const std::size_t rows = GENERATE(std::size_t{1}, std::size_t{1500});
  const std::size_t columns = GENERATE(std::size_t{3}, std::size_t{70});
  const Matrix slopes = integers(rows, columns, 5);
  const Matrix input = integers(rows, columns, 11);
  std::vector<float> products(columns, 1.0F);
  std::vector<float> alone(columns, 3.0F);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t r = 0; r < rows; ++r) {
      products[c] += slopes.at(r, c) * input.at(r, c);
      alone[c] += slopes.at(r, c);
    }
  Sums sums;
  float* const first = sums.put(std::vector<float>(columns, 1.0F));
  float* const second = sums.put(std::vector<float>(columns, 3.0F));
  // Moments that leave the values as they are.
  const std::vector<RowMoments> moments(rows, RowMoments{0, 1});
  sums.run(slopes,
           cuda::LayerNormTerm<float>{sums.put(slopes.values), sums.put(input.values),
                                      sums.put(moments), columns},
           {.to = first, .second = second, .adds = true});
  CHECK(sums.get(first, columns) == products);
  CHECK(sums.get(second, columns) == alone);
}

}  // namespace
}  // namespace ddprun::trainer
