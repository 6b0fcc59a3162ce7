// The layers of texts in a graph.
#include <stdexcept>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {
namespace {

/// RoBERTa's first position is 2: its padding, which has id 1, takes position 1.
constexpr int kFirstPosition = 2;
/// Parameters of so many channels lie side by side in the arena, without padding between them.
constexpr int kPackedChannels = 16;

}  // namespace

Graph::Graph(TextShape text) : text_(text) {
  if (text.vocabulary < 1) throw DataError("a text model needs a vocabulary of at least one token");
  if (text.positions < 1 || text.positions % kLengthUnit != 0)
    throw std::logic_error("positions are no multiple of the unit of lengths");
  append({.kind = layer::Tokens{}, .output = {1, text.positions, 0}, .has_tokens = true});
}

Graph Graph::at_length(int tokens) const {
  Graph graph = *this;
  if (text_.positions == 0) return graph;
  if (tokens < 1 || tokens > text_.positions)
    throw std::logic_error("a length beyond the positions");
  for (Layer& layer : graph.layers_)
    if (layer.has_tokens) layer.output.width = tokens;
  return graph;
}

int Graph::embedding(const std::string& name, int from, int channels) {
  if (!std::holds_alternative<layer::Tokens>(layer(from).kind))
    throw std::logic_error(name + " needs tokens");
  return append({.kind = layer::Embedding{.vocabulary = text_.vocabulary,
                                          .positions = text_.positions + kFirstPosition},
                 .name = name,
                 .inputs = {from},
                 .output = {1, text_.positions, channels},
                 .has_tokens = true});
}

int Graph::layer_norm(const std::string& name, int from) {
  const Layer& input = layer(from);
  return append({.kind = layer::LayerNorm{},
                 .name = name,
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int Graph::gelu(int from) {
  const Layer& input = layer(from);
  return append({.kind = layer::Gelu{},
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int Graph::tanh(int from) {
  const Layer& input = layer(from);
  return append({.kind = layer::Tanh{},
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int Graph::attention_projection(const std::string& name, int from, int channels) {
  if (channels % kPackedChannels != 0)
    throw std::logic_error(name + " needs channels in multiples of 16");
  return append({.kind = layer::AttentionProjection{},
                 .name = name,
                 .inputs = {from},
                 .output = {1, output_of(from).width, 3 * channels},
                 .has_tokens = true});
}

int Graph::attention(int from, int heads, double dropout, bool first_only) {
  const Layer& input = layer(from);
  if (!std::holds_alternative<layer::AttentionProjection>(input.kind) ||
      input.output.channels / 3 % heads != 0)
    throw std::logic_error("attention needs a projection with channels for each of its heads");
  return append({.kind = layer::Attention{.heads = heads,
                                          .dropout = dropout,
                                          .dropout_number = dropout > 0 ? dropouts_++ : 0,
                                          .positions = text_.positions,
                                          .first_only = first_only},
                 .inputs = {from},
                 .output = {1, first_only ? 1 : text_.positions, input.output.channels / 3},
                 .has_tokens = !first_only});
}

int Graph::first_token(int from) {
  if (!layer(from).has_tokens) throw std::logic_error("no tokens to take the first one of");
  return append(
      {.kind = layer::FirstToken{}, .inputs = {from}, .output = {1, 1, output_of(from).channels}});
}

void Graph::place_text_parameters(Layer& one) {
  const std::int64_t channels = one.output.channels;
  const auto normal = [](double deviation) {
    return InitialValues{InitialValues::Kind::normal, deviation};
  };
  const auto constant = [](double value) {
    return InitialValues{InitialValues::Kind::constant, value};
  };
  const auto put = [&](const char* suffix, std::vector<std::int64_t> shape, bool decay,
                       InitialValues initial) {
    place(one, suffix, std::move(shape), ParameterLayout::as_pytorch, decay, initial);
  };
  if (const auto* embedding = std::get_if<layer::Embedding>(&one.kind)) {
    const InitialValues initial = normal(embedding->normal_deviation);
    put(".word_embeddings.weight", {embedding->vocabulary, channels}, true, initial);
    put(".position_embeddings.weight", {embedding->positions, channels}, true, initial);
    put(".token_type_embeddings.weight", {1, channels}, true, initial);
  } else if (const auto* projection = std::get_if<layer::AttentionProjection>(&one.kind)) {
    const std::int64_t inputs = output_of(one.inputs.at(0)).channels;
    for (const char* suffix : {".query.weight", ".key.weight", ".value.weight"})
      put(suffix, {channels / 3, inputs}, true, normal(projection->normal_deviation));
    for (const char* suffix : {".query.bias", ".key.bias", ".value.bias"})
      put(suffix, {channels / 3}, false, constant(0));
  } else if (std::holds_alternative<layer::LayerNorm>(one.kind)) {
    put(".weight", {channels}, false, constant(1));
    put(".bias", {channels}, false, constant(0));
  }
}

}  // namespace ddprun::trainer
