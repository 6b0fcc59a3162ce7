// The rows of the option table about ddprun itself.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kOwnRows = {
    OptionRow{
        .name = "elastic-level",
        .aliases = "elastic-timeout|start-port|gloo-port|with-gloo|legacy|log-overwrite|sort-ip|"
                   "enable-gpu-log|auto-parallel-config|auto-cluster-config|auto-tuner-json",
        .type = ValueType::text,
        .group = OptionGroup::ourselves,
        .placeholder = "VALUE",
        .help = "Accepted because Paddle has them",
        .no_effect = "these options concern Paddle's own launcher",
    },
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
        .name = "event-log-handler",
        .environment = "PET_EVENT_LOG_HANDLER",
        .type = ValueType::text,
        .group = OptionGroup::ourselves,
        .placeholder = "NAME",
        .help = "Accepted because torchrun has it",
        .no_effect = "it names a Python plug-in, and there is no Python in ddprun",
    },
    OptionRow{
        .name = "monitor-interval",
        .environment = "PET_MONITOR_INTERVAL",
        .type = ValueType::seconds,
        .group = OptionGroup::ourselves,
        .placeholder = "SECONDS",
        .help = "Accepted because torchrun has it",
        .no_effect = "the kernel reports a worker's end at once, so ddprun does not poll",
    },
    OptionRow{
        .name = "start-method",
        .environment = "PET_START_METHOD",
        .type = ValueType::choice,
        .choices = "spawn|fork|forkserver",
        .group = OptionGroup::ourselves,
        .help = "Accepted because torchrun has it",
        .no_effect = "every worker is a fresh process",
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
