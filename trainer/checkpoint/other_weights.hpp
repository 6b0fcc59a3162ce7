// Files that are often given in place of a safetensors file. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ddprun::trainer {

/// What `file` is and what makes a safetensors file of it, by its first bytes (8 are enough), which
/// are not those of a safetensors file. Empty: none that is known.
std::string other_weights_text(std::span<const std::byte> start, const std::string& file);

}  // namespace ddprun::trainer
