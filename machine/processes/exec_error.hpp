// Why a program could not be executed, in words that tell what to do. The kernel's own are about
// the file, also where its interpreter is what is missing.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::machine {

/// What `first_line` of a file that exists explains of `error` (an errno of execve); empty:
/// nothing. Pure.
std::string explain_by_first_line(int error, std::string_view first_line);

/// Explains `error` (an errno of execve) by the beginning of `file`, which it reads; empty: nothing
/// is known.
std::string explain_exec_error(int error, const std::string& file);

}  // namespace ddprun::machine
