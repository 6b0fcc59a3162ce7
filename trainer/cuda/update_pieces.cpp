#include "trainer/cuda/update_pieces.hpp"

#include <algorithm>

namespace ddprun::trainer::cuda {
namespace {

constexpr std::size_t kPieceElements = 16384;

}  // namespace

std::vector<UpdatePiece> update_pieces(std::span<const Parameter> parameters, double decay,
                                       std::size_t begin, std::size_t end) {
  std::vector<UpdatePiece> pieces;
  for (const Parameter& parameter : parameters) {
    const std::size_t last = std::min(end, parameter.offset + parameter.count);
    for (std::size_t at = std::max(begin, parameter.offset); at < last; at += kPieceElements)
      pieces.push_back({.begin = at,
                        .count = static_cast<std::uint32_t>(std::min(kPieceElements, last - at)),
                        .is_statistic = parameter.role == ParameterRole::statistic,
                        .decay = parameter.decay ? decay : 0.0});
  }
  return pieces;
}

}  // namespace ddprun::trainer::cuda
