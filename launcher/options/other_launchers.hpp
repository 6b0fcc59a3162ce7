// Words of accelerate, deepspeed and other launchers that people type out of habit. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// What to type here instead of another launcher's option: the rest of a sentence that begins with
/// `unknown option`. `name` has dashes and no dashes before it; `value` is empty where none is
/// known. Empty: no launcher's option.
std::string instead_of_option(std::string_view name, std::string_view value);

/// The same for a first word such as `launch` of `accelerate launch`.
std::string instead_of_command(std::string_view word);

}  // namespace ddprun::launcher
