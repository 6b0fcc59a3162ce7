// --make-secret: the file that lets the nodes of a job prove that they belong together.
#pragma once

#include <string>

#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// Makes `path`, and its folders, with 32 random bytes as hexadecimal digits; no other user may
/// read it, or enter a folder that is new. A file that exists is left as it is, and that is an
/// error. Gives the text to print: where the file is and what to do with it, and with a folder that
/// others can change.
LaunchResult<std::string> make_secret_file(const std::string& path);

}  // namespace ddprun::launcher
