// RoBERTa as a text classifier, in the names of transformers' RobertaForSequenceClassification:
// Y. Liu et al., "RoBERTa: a robustly optimized BERT pretraining approach", arXiv 1907.11692.
#include <string>

#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kRobertaVocabulary = 50'265;
constexpr layer::Linear kLinear{.normal_deviation = 0.02};

struct Sizes {
  int layers, channels, heads, inner;
};

Sizes sizes_of(TextSize size) {
  switch (size) {
    case TextSize::tiny:
      break;
    case TextSize::base:
      return {.layers = 12, .channels = 768, .heads = 12, .inner = 3072};
    case TextSize::large:
      return {.layers = 24, .channels = 1024, .heads = 16, .inner = 4096};
  }
  return {.layers = 2, .channels = 128, .heads = 2, .inner = 512};
}

/// The head reads each text's first token alone, so behind the last layer's attention nothing else
/// is computed.
int encoder_layer(GraphBuilder& graph, const std::string& name, int from, const Sizes& sizes,
                  double dropout, bool is_last) {
  int at = graph.attention_projection(name + ".attention.self", from, sizes.channels);
  at = graph.attention(at, sizes.heads, dropout, is_last);
  at = graph.linear(name + ".attention.output.dense", at, sizes.channels, kLinear);
  at = graph.add(graph.dropout(at, dropout), is_last ? graph.first_token(from) : from);
  const int mixed = graph.layer_norm(name + ".attention.output.LayerNorm", at);
  at = graph.gelu(graph.linear(name + ".intermediate.dense", mixed, sizes.inner, kLinear));
  at = graph.dropout(graph.linear(name + ".output.dense", at, sizes.channels, kLinear), dropout);
  return graph.layer_norm(name + ".output.LayerNorm", graph.add(at, mixed));
}

}  // namespace

TextShape textclf_shape(TextSize size, int vocabulary) {
  return {.vocabulary = size == TextSize::tiny ? vocabulary : kRobertaVocabulary,
          .positions = kTextPositions};
}

Graph textclf(TextSize size, int vocabulary, int classes, double dropout) {
  const Sizes sizes = sizes_of(size);
  GraphBuilder graph(textclf_shape(size, vocabulary));
  int at = graph.embedding("roberta.embeddings", 0, sizes.channels);
  at = graph.dropout(graph.layer_norm("roberta.embeddings.LayerNorm", at), dropout);
  for (int i = 0; i < sizes.layers; ++i)
    at = encoder_layer(graph, "roberta.encoder.layer." + std::to_string(i), at, sizes, dropout,
                       i + 1 == sizes.layers);
  at = graph.linear("classifier.dense", graph.dropout(at, dropout), sizes.channels, kLinear);
  at = graph.dropout(graph.tanh(at), dropout);
  graph.softmax_cross_entropy(graph.linear("classifier.out_proj", at, classes, kLinear));
  return graph.finish();
}

}  // namespace ddprun::trainer
