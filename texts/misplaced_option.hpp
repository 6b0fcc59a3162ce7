// An option given to the wrong one of our programs. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The options of `ddprun`, `train` or `rdzvd` but for those that all have (--help and so on);
/// names have no dashes before them.
std::vector<std::string_view> options_of(std::string_view program);

/// The program that has the option: `ddprun`, `train`, `rdzvd`, in this order; empty: none.
std::string_view program_with_option(std::string_view name);

/// What `program` answers to an option that it does not know and another one does: `--epochs is an
/// option of train: put it behind PROGRAM, as in ddprun train --epochs=3`. Empty: no other one
/// does. `value`: as typed after the name; empty: none is known.
std::string misplaced_option(std::string_view program, std::string_view name,
                             std::string_view value);

}  // namespace ddprun
