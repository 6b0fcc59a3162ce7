// The stacks of a worker, made short enough for the report on the screen. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The head of a worker's stacks, because those of all threads fill screens. Of a Python process
/// under gdb only the first thread is shown: the others are mostly those of libraries. `owner` is
/// empty for the culprit. Empty: there are no stacks.
std::string stacks_text(std::string_view owner, const std::vector<std::string>& stacks);

}  // namespace ddprun::launcher
