// Why a host does not take part, in a line for people. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/exit_status.hpp"

namespace ddprun::launcher {

/// ssh itself has failed, or its connection has ended.
inline constexpr int kExitOfSsh = 255;

/// The last lines that ssh, or the shell there, has printed to stderr, as one text.
std::string last_words(std::string_view errors);

/// Before a ddprun there had answered: what failed, then what to do. `ssh` is --ssh, `words` are
/// last_words of its stderr, `banner` is what was printed to stdout.
std::string why_not_started(const std::string& host, const std::string& ssh, const ExitStatus& exit,
                            const std::string& words, std::string_view banner);

/// It answered, and has another version than ours.
std::string why_refused(const std::string& host, std::string_view version,
                        std::string_view own_version);

/// It took part, and has ended without a record of the job's end.
std::string why_lost(const std::string& host, const ExitStatus& exit, const std::string& words);

}  // namespace ddprun::launcher
