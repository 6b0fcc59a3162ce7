// Self-attention against its formula in double precision and that formula's finite differences.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/unit/trainer/layers/finite_differences.hpp"
#include "tests/unit/trainer/layers/layer_device.hpp"
#include "trainer/compute/dropout_ops.hpp"

namespace ddprun::trainer {
namespace {

using test::Doubles;

struct AttentionCase {
  std::vector<std::int32_t> lengths;
  int width;  // of the batch
  int heads;
  int channels;
  double dropout = 0;
  bool first_only = false;
};

constexpr int kPositions = 192;
constexpr std::uint64_t kSeed = 42;
constexpr int kShard = 3;
constexpr std::uint64_t kMaskStep = 9;

OperationShape shape_of(const AttentionCase& one) {
  return {.batch = static_cast<int>(one.lengths.size()),
          .inputs = {{{1, one.width, 3 * one.channels}, GradientUse::overwrite}},
          .output = {1, one.first_only ? 1 : one.width, one.channels},
          .parameter_counts = {}};
}

/// softmax(q k' / sqrt(d)) v of each head, in which a dropout may have a part.
Doubles formula(const AttentionCase& one, const Doubles& input) {
  const auto shape = shape_of(one);
  const auto channels = static_cast<std::size_t>(one.channels);
  const auto heads = static_cast<std::size_t>(one.heads);
  const auto width = static_cast<std::size_t>(one.width);
  const auto queries = static_cast<std::size_t>(shape.output.width);
  const std::size_t size = channels / heads;
  const DropoutMask mask(dropout_rate(one.dropout),
                         {.seed = kSeed, .step = kMaskStep, .layer = 5, .shard = kShard});
  Doubles output(one.lengths.size() * queries * channels, 0.0);
  for (std::size_t s = 0; s < one.lengths.size(); ++s) {
    const auto length = static_cast<std::size_t>(one.lengths[s]);
    for (std::size_t h = 0; h < heads; ++h) {
      const auto at = [&](std::size_t token, std::size_t kind, std::size_t c) {
        return input[(s * width + token) * 3 * channels + kind * channels + h * size + c];
      };
      for (std::size_t q = 0; q < std::min(length, queries); ++q) {
        Doubles p(length);
        double sum = 0;
        for (std::size_t k = 0; k < length; ++k) {
          double score = 0;
          for (std::size_t c = 0; c < size; ++c) score += at(q, 0, c) * at(k, 1, c);
          sum += p[k] = std::exp(score / std::sqrt(static_cast<double>(size)));
        }
        for (std::size_t k = 0; k < length; ++k) {
          const std::size_t element = ((s * heads + h) * kPositions + q) * kPositions + k;
          const double factor = one.dropout > 0 ? static_cast<double>(mask.factor(element)) : 1.0;
          for (std::size_t c = 0; c < size; ++c)
            output[(s * queries + q) * channels + h * size + c] +=
                p[k] / sum * factor * at(k, 2, c);
        }
      }
    }
  }
  return output;
}

struct AttentionRun {
  explicit AttentionRun(const AttentionCase& one)
      : lengths(one.lengths),
        layer(layer::Attention{.heads = one.heads,
                               .dropout = one.dropout,
                               .dropout_number = 5,
                               .positions = kPositions,
                               .first_only = one.first_only},
              shape_of(one)) {
    state.updates = kMaskStep - 2;
    state.skipped = 2;
    const OperationShape shape = shape_of(one);
    const auto samples = static_cast<std::size_t>(shape.batch);
    layer.inputs = {test::uniform_values(samples * shape.inputs[0].shape.count(), 1)};
    for (float& value : layer.inputs[0]) value *= 2;
    layer.output_gradient = test::uniform_values(samples * shape.output.count(), 2);
    layer.pass = {.count = shape.batch,
                  .lengths = lengths.data(),
                  .shard = &kShard,
                  .state = &state,
                  .seed = kSeed};
  }
  std::vector<std::int32_t> lengths;
  StepState state;
  test::LayerRun layer;
};

TEST_CASE("attention and its gradient agree with the formula, with lengths and with dropout") {
  const std::vector<AttentionCase> cases{
      {.lengths = {5, 8}, .width = 8, .heads = 2, .channels = 8},
      {.lengths = {1, 32, 17}, .width = 32, .heads = 1, .channels = 16},
      {.lengths = {21, 3}, .width = 32, .heads = 3, .channels = 12, .dropout = 0.3},
      {.lengths = {6, 0, 8},
       .width = 8,
       .heads = 2,
       .channels = 8,
       .dropout = 0.3,
       .first_only = true},
  };
  for (const AttentionCase& one : cases) {
    INFO("width " << one.width << ", dropout " << one.dropout << ", first " << one.first_only);
    AttentionRun run(one);
    test::check_against(
        run.layer, [&](const std::vector<Doubles>& values) { return formula(one, values[0]); });
  }
}

TEST_CASE("attention over several blocks of queries agrees with the formula") {
  const AttentionCase one{
      .lengths = {150}, .width = 160, .heads = 1, .channels = 4, .dropout = 0.2};
  AttentionRun run(one);
  test::check_against(
      run.layer, [&](const std::vector<Doubles>& values) { return formula(one, values[0]); }, 2e-6,
      31);
}

/// The first `tokens` of each sample of `width` tokens.
std::vector<float> tokens_of(const std::vector<float>& values, std::size_t samples,
                             std::size_t width, std::size_t tokens) {
  const std::size_t token = values.size() / samples / width;
  std::vector<float> some;
  for (std::size_t s = 0; s < samples; ++s) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(s * width * token);
    some.insert(some.end(), first, first + static_cast<std::ptrdiff_t>(tokens * token));
  }
  return some;
}

/// Bit by bit; of libraries that sum up in an order of each shape's own, about the same.
void check_same(const std::vector<float>& got, const std::vector<float>& want) {
  if (test::libraries().choose_by_shape) {
    CHECK(test::distance(got, {want.begin(), want.end()}) < 1e-5);
  } else {
    CHECK(got == want);
  }
}

TEST_CASE("padding changes no bit of attention but by a library's choice, and gets zeros") {
  const AttentionCase narrow{
      .lengths = {20, 32}, .width = 32, .heads = 2, .channels = 16, .dropout = 0.3};
  AttentionCase wide = narrow;
  wide.width = 96;
  AttentionRun a(narrow);
  AttentionRun b(wide);
  // Both get these tokens, and the wide one rubbish behind them.
  for (std::size_t s = 0; s < 2; ++s)
    std::copy_n(a.layer.inputs[0].begin() + static_cast<std::ptrdiff_t>(s * 32 * 48), 32 * 48,
                b.layer.inputs[0].begin() + static_cast<std::ptrdiff_t>(s * 96 * 48));
  for (std::size_t s = 0; s < 2; ++s)
    std::copy_n(a.layer.output_gradient.begin() + static_cast<std::ptrdiff_t>(s * 32 * 16), 32 * 16,
                b.layer.output_gradient.begin() + static_cast<std::ptrdiff_t>(s * 96 * 16));
  a.layer.run();
  b.layer.run();
  check_same(tokens_of(b.layer.output, 2, 96, 32), a.layer.output);
  check_same(tokens_of(b.layer.input_gradients[0], 2, 96, 32), a.layer.input_gradients[0]);
  for (std::size_t i = 0; i < std::size_t{12} * 48; ++i)
    REQUIRE(a.layer.input_gradients[0][20 * 48 + i] == 0.0F);
  for (std::size_t i = 0; i < std::size_t{12} * 16; ++i)
    REQUIRE(a.layer.output[20 * 16 + i] == 0.0F);
}

TEST_CASE("the bits of attention do not depend on the number of threads") {
  const AttentionCase one{
      .lengths = {150, 20, 64}, .width = 160, .heads = 2, .channels = 32, .dropout = 0.1};
  AttentionRun alone(one);
  alone.layer.run();
  AttentionRun pair(one);
  test::device().use_threads(3);
  test::LayerRun three(
      layer::Attention{
          .heads = one.heads, .dropout = one.dropout, .dropout_number = 5, .positions = kPositions},
      shape_of(one), 3);
  three.inputs = pair.layer.inputs;
  three.output_gradient = pair.layer.output_gradient;
  three.pass = pair.layer.pass;
  three.run();
  test::device().use_threads(1);
  CHECK(three.output == alone.layer.output);
  CHECK(three.input_gradients == alone.layer.input_gradients);
}

TEST_CASE("a shard with more attention probabilities than a mask can number is refused") {
  AttentionCase one{.lengths = {1}, .width = 32, .heads = 16, .channels = 16, .dropout = 0.1};
  OperationShape shape = shape_of(one);
  shape.batch = 40'000;
  const layer::Attention kind{.heads = 16, .dropout = 0.1, .positions = kPositions};
  CHECK_THROWS_WITH(test::device().make_operation({.kind = kind}, shape),
                    Catch::Contains("use a smaller --batch"));
}

}  // namespace
}  // namespace ddprun::trainer
