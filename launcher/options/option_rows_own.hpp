// The rows of the option table about ddprun itself.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"
#include "texts/help_topic.hpp"

namespace ddprun::launcher {

inline constexpr std::array kOwnRows = {
    OptionRow{
        .name = "dry-run",
        .type = ValueType::optional_choice,
        .choices = "text|json",
        .group = OptionGroup::ourselves,
        .help = "Show what would be started and why; start nothing",
        .example = "ddprun --dry-run --nproc-per-node=2 train.py",
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
        .example = "ddprun --log-level=error --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "completion",
        .aliases = "print-completion",
        .type = ValueType::choice,
        .choices = kShells,
        .group = OptionGroup::ourselves,
        .help = "Print the completion script for a shell",
        .example = "ddprun --completion=bash > ~/.local/share/bash-completion/completions/ddprun",
        .ends = true,
    },
    OptionRow{
        .name = "man",
        .type = ValueType::optional_choice,
        .choices = kManFormats,
        .group = OptionGroup::ourselves,
        .help = "Print the manual page: ddprun --man | man -l -",
        .more = "--man=markdown prints the same page as Markdown.",
        .example = "ddprun --man | man -l -",
        .ends = true,
    },
    OptionRow{
        .name = "version",
        .short_name = 'V',
        .type = ValueType::flag,
        .group = OptionGroup::ourselves,
        .help = "Print version, git state, compiler, libraries and protocols",
        .example = "ddprun --version",
        .ends = true,
    },
    OptionRow{
        .name = "help",
        .short_name = 'h',
        .type = ValueType::optional_topic,
        .group = OptionGroup::ourselves,
        .placeholder = kTopicPlaceholder,
        .help = kHelpOfHelp,
        .more = "--help=streams shows the options of one group, --help=tee one option with an "
                "example. --help names the groups at its end. If a group and an option have the "
                "same name, both are shown; --help=--gpus shows only the option.",
        .example = "ddprun --help=streams",
        .ends = true,
    },
};

}  // namespace ddprun::launcher
