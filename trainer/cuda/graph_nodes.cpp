#include "trainer/cuda/graph_nodes.hpp"

#include <variant>

namespace ddprun::trainer::cuda {
namespace {

/// A sum over rows: of its pieces, then of those.
constexpr std::size_t kRowSum = 2;

/// Forward and backward, of layers behind the first one with parameters.
struct NodesOf {
  std::size_t operator()(const layer::Images& /*kind*/) const { return 0; }
  std::size_t operator()(const layer::Tokens& /*kind*/) const { return 0; }
  std::size_t operator()(const layer::Flatten& /*kind*/) const { return 2; }
  /// Three passes; a bias is added and summed.
  std::size_t operator()(const layer::Convolution& kind) const {
    return kind.has_bias ? 4 + kRowSum : 3;
  }
  std::size_t operator()(const layer::TransposedConvolution& /*kind*/) const { return 4 + kRowSum; }
  /// The product adds the bias.
  std::size_t operator()(const layer::Linear& /*kind*/) const { return 3 + kRowSum; }
  std::size_t operator()(const layer::AttentionProjection& /*kind*/) const { return 3 + kRowSum; }
  /// Mean and variance; gradients of weight and bias together; what is given of these; the values.
  std::size_t operator()(const layer::BatchNorm& /*kind*/) const { return 3 * kRowSum + 3; }
  std::size_t operator()(const layer::LayerNorm& /*kind*/) const { return kRowSum + 2; }
  /// Seven products, two soft-maxes, five copies between tokens and heads.
  std::size_t operator()(const layer::Attention& /*kind*/) const { return 14; }
  /// Two tables are cleared, equal tokens are linked.
  std::size_t operator()(const layer::Embedding& /*kind*/) const { return 6 + kRowSum; }
  template <class Other>
  std::size_t operator()(const Other& /*kind*/) const {
    return 2;
  }
};

}  // namespace

std::size_t graph_nodes(const Graph& graph) {
  std::size_t nodes = 0;
  for (const Layer& layer : graph.layers()) nodes += std::visit(NodesOf(), layer.kind);
  return nodes;
}

}  // namespace ddprun::trainer::cuda
