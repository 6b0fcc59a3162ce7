#include "trainer/model/layout.hpp"

namespace ddprun::trainer {
namespace {

/// Calls visit(arena element, PyTorch element) for every element, both counted from the parameter's
/// start.
template <class Visit>
void for_each_element(const Parameter& parameter, Visit visit) {
  if (parameter.layout == ParameterLayout::as_pytorch) {
    for (std::size_t i = 0; i < parameter.count; ++i) visit(i, i);
    return;
  }
  const auto outputs = static_cast<std::size_t>(parameter.shape[0]);
  const auto inputs = static_cast<std::size_t>(parameter.shape[1]);
  const auto window = static_cast<std::size_t>(parameter.shape[2] * parameter.shape[3]);
  std::size_t element = 0;
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t w = 0; w < window; ++w) {
      for (std::size_t i = 0; i < inputs; ++i) visit(element++, (o * inputs + i) * window + w);
    }
  }
}

}  // namespace

void export_parameter(const Parameter& parameter, std::span<const float> arena,
                      std::span<float> out) {
  const auto from = arena.subspan(parameter.offset, parameter.count);
  for_each_element(parameter,
                   [&](std::size_t ours, std::size_t theirs) { out[theirs] = from[ours]; });
}

void import_parameter(const Parameter& parameter, std::span<const float> values,
                      std::span<float> arena) {
  const auto to = arena.subspan(parameter.offset, parameter.count);
  for_each_element(parameter,
                   [&](std::size_t ours, std::size_t theirs) { to[ours] = values[theirs]; });
}

}  // namespace ddprun::trainer
