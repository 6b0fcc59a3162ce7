// Words of accelerate, deepspeed and other launchers that people type out of habit. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Whether a word behind another launcher's option is its value. `name` has dashes and no dashes
/// before it.
bool may_be_value_of(std::string_view name, std::string_view word);

/// mpirun's number of workers, `-n 2`, `-np 2` or `-n2`; `N` where it is missing. Empty: `token` is
/// none of these.
std::string mpirun_workers(std::string_view token, std::string_view next_word);

/// What to type here instead of another launcher's option: the rest of a sentence that begins with
/// `unknown option`. `name` has dashes and no dashes before it; `value` is empty where none is
/// known. Empty: no launcher's option.
std::string instead_of_option(std::string_view name, std::string_view value);

/// What to type instead of a PROGRAM that was not found: a word such as `launch` of `accelerate
/// launch`, and `help` or `version`, which are commands of other programs. The rest of a sentence;
/// empty: no launcher's word.
std::string instead_of_command(std::string_view word);

/// Why a PROGRAM that is torchrun is refused: people type ddprun before a command line that they
/// have. Empty: it is none. A path to torchrun is meant.
std::string launcher_as_program(std::string_view program, const std::vector<std::string>& arguments,
                                bool is_module);

}  // namespace ddprun::launcher
