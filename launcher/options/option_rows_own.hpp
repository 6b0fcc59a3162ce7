// The rows of the option table about ddprun itself.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kOwnRows = {
    OptionRow{
        .name = "dry-run",
        .type = ValueType::optional_choice,
        .choices = "text|json",
        .group = OptionGroup::ourselves,
        .help = "Show what would be started and why; start nothing",
    },
    OptionRow{
        .name = "log-level",
        .type = ValueType::choice,
        .choices = choices<LogLevel>,
        .also = "warn|critical|fatal",
        .group = OptionGroup::ourselves,
        .help = "Which of its own messages ddprun prints to stderr",
        .more = "Its warnings begin with \"ddprun: warning: \". If the option is absent, ddprun "
                "uses torchrun's variable LOGLEVEL (DEBUG, INFO, WARNING, ...).",
        .default_text = "warning",
    },
    OptionRow{
        .name = "completion",
        .aliases = "print-completion",
        .type = ValueType::choice,
        .choices = kShells,
        .group = OptionGroup::ourselves,
        .help = "Print the completion script for a shell",
        .ends = true,
    },
    OptionRow{
        .name = "man",
        .type = ValueType::flag,
        .group = OptionGroup::ourselves,
        .help = "Print the manual page: ddprun --man | man -l -",
        .ends = true,
    },
    OptionRow{
        .name = "version",
        .type = ValueType::flag,
        .group = OptionGroup::ourselves,
        .help = "Print version, git state, compiler, libraries and protocols",
        .ends = true,
    },
    OptionRow{
        .name = "help",
        .short_name = 'h',
        .type = ValueType::flag,
        .group = OptionGroup::ourselves,
        .help = "--help prints all options, -h the most common ones",
        .ends = true,
    },
};

}  // namespace ddprun::launcher
