// Spellings of options: dashes and underscores, and the nearest known one. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::trainer {

/// "--max_steps=a_b" as "--max-steps=a_b": the name has dashes, the value stays as it is.
std::string with_dashes(const std::string& argument);

/// The known name that is nearest to `unknown` by letters to insert, delete or replace; empty if
/// none is near.
std::string nearest_name(const std::string& unknown, const std::vector<std::string>& known);

}  // namespace ddprun::trainer
