// The rows of the option table about ddprun itself, and of the options that other launchers have
// and that have no effect here: these come last, so that no reader of the help has to look past
// them.
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

inline constexpr std::array kRowsWithoutEffect = {
    OptionRow{
        .name = "logs-specs",
        .type = ValueType::text,
        .group = OptionGroup::without_effect,
        .placeholder = "NAME",
        .help = "Accepted because torchrun has it",
        .no_effect = "it names a Python plug-in, and there is no Python in ddprun",
        .example = "ddprun --logs-specs=default --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "event-log-handler",
        .environment = "PET_EVENT_LOG_HANDLER",
        .type = ValueType::text,
        .group = OptionGroup::without_effect,
        .placeholder = "NAME",
        .help = "Accepted because torchrun has it",
        .no_effect = "it names a Python plug-in, and there is no Python in ddprun",
        .example = "ddprun --event-log-handler=null --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "monitor-interval",
        .environment = "PET_MONITOR_INTERVAL",
        .type = ValueType::seconds,
        .group = OptionGroup::without_effect,
        .placeholder = "SECONDS",
        .help = "Accepted because torchrun has it",
        .no_effect = "the kernel reports a worker's end at once, so ddprun does not poll",
        .example = "ddprun --monitor-interval=0.1 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "start-method",
        .environment = "PET_START_METHOD",
        .type = ValueType::choice,
        .choices = "spawn|fork|forkserver",
        .group = OptionGroup::without_effect,
        .help = "Accepted because torchrun has it",
        .no_effect = "every worker is a fresh process",
        .example = "ddprun --start-method=spawn --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "xpus",
        .aliases = "npus",
        .type = ValueType::text,
        .group = OptionGroup::without_effect,
        .placeholder = "0,1",
        .help = "Paddle's lists of other accelerators",
        .no_effect = "ddprun chooses devices by --gpus; give --nproc-per-node=N",
        .example = "ddprun --xpus=0,1 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "ips",
        .type = ValueType::text,
        .group = OptionGroup::without_effect,
        .placeholder = "HOST",
        .help = "Paddle's list of nodes; for several, an error shows what to type instead",
        .no_effect = "the nodes of a job meet at --rdzv-endpoint or --master-addr",
        .example = "ddprun --ips=127.0.0.1 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "run-mode",
        .type = ValueType::choice,
        .choices = "collective",
        .group = OptionGroup::without_effect,
        .help = "Paddle's kind of job; parameter servers are not supported",
        .example = "ddprun --run-mode=collective --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "backend",
        .type = ValueType::choice,
        .choices = "auto|nccl|gloo|bkcl|xccl|flagcx|heter",
        .group = OptionGroup::without_effect,
        .help = "Paddle's backend of the workers; that of the nodes is --rdzv-backend",
        .no_effect = "the workers choose their backend themselves",
        .example = "ddprun --backend=gloo --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "elastic-level",
        .aliases =
            "elastic-timeout|start-port|gloo-port|with-gloo|legacy|log-overwrite|sort-ip|"
            "enable-gpu-log|auto-parallel-config|auto-cluster-config|auto-tuner-json|heter-devices",
        .type = ValueType::text,
        .group = OptionGroup::without_effect,
        .placeholder = "VALUE",
        .help = "Accepted because Paddle has them",
        .no_effect = "these options concern Paddle's own launcher",
        .example = "ddprun --elastic-level=1 --nproc-per-node=2 train.py",
    },
};

}  // namespace ddprun::launcher
