// Topics of the help: `--help=streams` shows one group of options, `--help=tee` one option. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "texts/program_text.hpp"

namespace ddprun {

/// Stands for the value of the option --help in all our programs.
inline constexpr std::string_view kTopicPlaceholder = "TOPIC";
inline constexpr std::string_view kHelpOfHelp =
    "--help prints all options, --help=TOPIC a group or an option; -h the most common ones";

/// The words of the groups, then of the sections, each once: `workers`, `streams`, `exit`.
std::vector<std::string> group_topics(const ProgramText& program);

/// The topics of all groups and sections, and the names of all options without dashes: for
/// completions.
std::vector<std::string> all_topics(const ProgramText& program);

/// The end of the help: which topics there are.
std::string topics_sentence(const ProgramText& program);

/// What --help=TOPIC prints, or why there is nothing to print.
struct TopicHelp {
  bool found = false;
  std::string text;  ///< found: lines; else one sentence, without the program's name
};

/// The group or section of this word, then the option of this name: both where there are both, and
/// only the option if it is written with its dashes (--help=--gpus). Upper case, underscores and
/// blanks are the same as lower case and dashes. Empty: no group and no option has this name.
std::string help_of_topic(const ProgramText& program, std::string_view topic);

/// The help for what follows --help=: as help_of_topic, also for a group's word without its s
/// and for the begin of an option's name, if it is that of one only; else
/// the nearest topic, or an option of another program of ours.
TopicHelp topic_help(const ProgramText& program, std::string_view topic);

}  // namespace ddprun
