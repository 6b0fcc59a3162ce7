// The rows of the option table about the hosts of a job that is started through ssh.
#pragma once

#include <array>

#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kHostRows = {
    OptionRow{
        .name = "hosts",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "HOST,...",
        .help = "Start the job on these hosts through ssh; type the command once",
        .more = "Names as ssh takes them, and ranges: a,b[1-4],user@c. a:8 means 8 workers there, "
                "if --nproc-per-node is not given. The first host has the first ranks. This "
                "ddprun has no workers: it runs the rendezvous, shows all output and the report, "
                "and needs no open port. If it ends, or its connection to a host, the job ends "
                "there. --nnodes is the number of hosts, unless it is given: with MIN:MAX hosts "
                "may be missing or be lost.",
        .example = "ddprun --hosts=a,b[1-4] --nproc-per-node=8 train.py",
    },
    OptionRow{
        .name = "hostfile",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "FILE",
        .help = "The same hosts from a file, one on each line",
        .more = "Lines are those of DeepSpeed and mpirun: host, host slots=8, host:8, host slots=8 "
                "max_slots=8. A comment begins with #.",
        .example = "ddprun --hostfile=hosts.txt train.py",
    },
    OptionRow{
        .name = "ssh",
        .environment = "DDPRUN_SSH",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "COMMAND",
        .help = "The ssh for --hosts, with options of its own",
        .more = "ddprun adds options: it asks no questions (BatchMode=yes), and shares no "
                "connection of yours (ControlPath=none).",
        .default_value = "ssh",
        .example = "ddprun --ssh='ssh -p 2222 -i key' --hosts=a,b train.py",
    },
    OptionRow{
        .name = "remote-path",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "PATH",
        .help = "The ddprun on the hosts",
        .more = "It must have the same version as this one.",
        .default_text = "the path of this ddprun, else the one in the host's PATH",
        .example = "ddprun --remote-path=/opt/ddprun/bin/ddprun --hosts=a,b train.py",
    },
    OptionRow{
        .name = "pass-env",
        .type = ValueType::text,
        .group = OptionGroup::hosts,
        .placeholder = "NAME,...",
        .help = "Further environment variables for the hosts",
        .more = "NAME, PREFIX* or NAME=VALUE. Those with which programs and libraries are found "
                "and training is configured (PATH, PYTHON*, NCCL_*, CUDA_*, OMP_* and others, see "
                "docs/ssh.md) are always passed.",
        .example = "ddprun --pass-env=DATA_DIR,MY_* --hosts=a,b train.py",
    },
};

}  // namespace ddprun::launcher
