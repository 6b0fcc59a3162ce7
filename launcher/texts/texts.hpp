// ddprun's help, man page, Markdown page and completions: the table of options and what stands
// around it, for the writer in texts.
#pragma once

#include <string>
#include <string_view>

#include "texts/help_topic.hpp"

namespace ddprun::launcher {

/// Examples first, then the options by group; no line is longer than 80 columns, no colours.
std::string help_text();

/// One group, section or option.
TopicHelp help_on(std::string_view topic);

/// The help on the word behind --help; empty: it is no topic, as in `ddprun --help train.py`.
std::string help_on_next_word(std::string_view word);

/// The end of the help where the word behind --help is another program of ddprun, which may be
/// meant as PROGRAM or as a topic: how to get that program's help. Else empty.
std::string line_on_next_word(std::string_view word);

/// What most jobs need, in 25 lines of at most 80 columns.
std::string short_help_text();

/// ddprun(1) as `roff`, for a file ddprun.1 or `man -l -`; or as `markdown`.
std::string man_page(std::string_view format = "roff");

/// The script for `bash`, `zsh`, `fish` or `tcsh`; empty for any other shell. Options are completed
/// only before PROGRAM (by tcsh everywhere), files and commands in its place (by tcsh only files),
/// files behind it.
std::string completion_script(std::string_view shell);

}  // namespace ddprun::launcher
