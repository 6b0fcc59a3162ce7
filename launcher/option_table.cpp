#include "launcher/option_table.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher {
namespace {

using enum OptionGroup;

// Options of torchrun carry its PET_ variable; ours have none, LOGLEVEL apart (options.cpp), which
// torchrun reads too.
constexpr std::array kTable = {
    OptionRow{
        .name = "nproc-per-node",
        .environment = "PET_NPROC_PER_NODE",
        .type = ValueType::count_or_word,
        .choices = "auto|cpu|gpu",
        .group = workers,
        .placeholder = "N",
        .help = "Workers on this machine",
        .more = "A number, or a word: gpu is one for each visible GPU, cpu one for each logical "
                "CPU of the machine, auto is "
                "gpu where there are GPUs and cpu elsewhere. More workers than visible GPUs is an "
                "error, unless "
                "--gpus=none says that the job runs on the CPU. When --gpus lists GPUs and this "
                "option is absent, there "
                "is one worker for each of them.",
        .default_text = "1",
    },
    OptionRow{
        .name = "nnodes",
        .environment = "PET_NNODES",
        .type = ValueType::text,
        .group = workers,
        .placeholder = "N|MIN:MAX",
        .help = "Nodes of the job; this version knows one",
        .default_value = "1:1",
    },
    OptionRow{
        .name = "role",
        .environment = "PET_ROLE",
        .type = ValueType::text,
        .group = workers,
        .placeholder = "NAME",
        .help = "What the workers find in ROLE_NAME",
        .default_value = "default",
    },
    OptionRow{
        .name = "module",
        .short_name = 'm',
        .environment = "PET_MODULE",
        .type = ValueType::flag,
        .group = program,
        .help = "PROGRAM is a Python module, as for python -m",
    },
    OptionRow{
        .name = "no-python",
        .environment = "PET_NO_PYTHON",
        .type = ValueType::flag,
        .group = program,
        .help = "Execute PROGRAM itself, never under Python",
    },
    OptionRow{
        .name = "gpus",
        .type = ValueType::indexes_or_word,
        .choices = "all|none",
        .group = gpus,
        .placeholder = "0,2",
        .help = "GPUs of the job; none makes it a CPU job",
        .more = "Numbers count among the GPUs that CUDA_VISIBLE_DEVICES leaves visible. Without "
                "--nproc-per-node a list "
                "also says how many workers there are.",
        .default_value = "all",
    },
    OptionRow{
        .name = "gpu-visibility",
        .type = ValueType::choice,
        .choices = "all|own",
        .group = gpus,
        .help = "Whether a worker sees all of them or its own",
        .more =
            "With all, CUDA_VISIBLE_DEVICES of every worker is the list of the job's GPUs and "
            "LOCAL_RANK is the "
            "worker's place in it. With own it is the worker's one GPU, which is then device 0.",
        .default_value = "all",
    },
    OptionRow{
        .name = "output",
        .type = ValueType::choice,
        .choices = "prefix|raw|pty|pipe",
        .group = streams,
        .help = "How the workers' output is shown",
        .more = "prefix marks every line with its rank and gives the workers a terminal where ours "
                "is one; pty and pipe "
                "do the same with a terminal, or a pipe, in any case; raw hands them our own "
                "stdout and stderr, as "
                "torchrun does.",
        .default_text = "prefix, raw for one worker",
    },
    OptionRow{
        .name = "stdin",
        .type = ValueType::choice,
        .choices = "rank0|all|none",
        .group = streams,
        .help = "Who reads our stdin, the others nothing",
        .default_value = "rank0",
    },
    OptionRow{
        .name = "max-restarts",
        .environment = "PET_MAX_RESTARTS",
        .type = ValueType::count,
        .group = failures,
        .placeholder = "N",
        .help = "How often the group is restarted after failures",
        .default_value = "0",
    },
    OptionRow{
        .name = "grace-period",
        .type = ValueType::seconds,
        .group = failures,
        .placeholder = "SECONDS",
        .help = "Time from the first signal to SIGKILL",
        .more = "So long may workers that are stopped take to end by themselves. Decimals and the "
                "units ms, s, m and h are understood: 0.5, 500ms, 2m.",
        .default_value = "30",
    },
    OptionRow{
        .name = "standalone",
        .environment = "PET_STANDALONE",
        .type = ValueType::flag,
        .group = rendezvous,
        .help = "A job of its own: a given id, address and port are ignored",
        .more = "Without --master-port a job on one machine has a port of its own anyway.",
    },
    OptionRow{
        .name = "master-addr",
        .environment = "PET_MASTER_ADDR",
        .type = ValueType::text,
        .group = rendezvous,
        .placeholder = "HOST",
        .help = "Where the workers meet, MASTER_ADDR",
        .default_text = "127.0.0.1",
    },
    OptionRow{
        .name = "master-port",
        .environment = "PET_MASTER_PORT",
        .type = ValueType::count,
        .group = rendezvous,
        .placeholder = "PORT",
        .help = "Where the workers meet, MASTER_PORT",
        .default_text = "a free one",
    },
    OptionRow{
        .name = "rdzv-id",
        .environment = "PET_RDZV_ID",
        .type = ValueType::text,
        .group = rendezvous,
        .placeholder = "ID",
        .help = "Name of the run, TORCHELASTIC_RUN_ID",
        .default_text = "a random UUID",
    },
    OptionRow{
        .name = "dry-run",
        .type = ValueType::optional_choice,
        .choices = "text|json",
        .group = ourselves,
        .help = "Show what would be started, and why, and start nothing",
    },
    OptionRow{
        .name = "log-level",
        .type = ValueType::choice,
        .choices = "trace|debug|info|warn|error|off",
        .group = ourselves,
        .help = "What ddprun itself says on stderr",
        .more = "Where the option is absent, torchrun's variable LOGLEVEL counts (DEBUG, INFO, "
                "WARNING, ...).",
        .default_text = "warn",
    },
    OptionRow{
        .name = "monitor-interval",
        .environment = "PET_MONITOR_INTERVAL",
        .type = ValueType::seconds,
        .group = ourselves,
        .placeholder = "SECONDS",
        .help = "Accepted for torchrun's sake",
        .no_effect = "nothing is polled: the kernel reports a worker's end at once",
    },
    OptionRow{
        .name = "start-method",
        .environment = "PET_START_METHOD",
        .type = ValueType::choice,
        .choices = "spawn|fork|forkserver",
        .group = ourselves,
        .help = "Accepted for torchrun's sake",
        .no_effect = "every worker is a fresh process",
    },
    OptionRow{
        .name = "completion",
        .type = ValueType::choice,
        .choices = "bash|zsh|fish",
        .group = ourselves,
        .help = "Print the completion script for a shell",
        .ends = true,
    },
    OptionRow{
        .name = "man",
        .type = ValueType::flag,
        .group = ourselves,
        .help = "Print the manual page: ddprun --man | man -l -",
        .ends = true,
    },
    OptionRow{
        .name = "version",
        .type = ValueType::flag,
        .group = ourselves,
        .help = "Print version, git state, compiler, libraries and protocols",
        .ends = true,
    },
    OptionRow{
        .name = "help",
        .short_name = 'h',
        .type = ValueType::flag,
        .group = ourselves,
        .help = "Print this text",
        .ends = true,
    },
};

constexpr std::array kExamples = {
    Example{"ddprun --nproc-per-node=2 train", "the bundled trainer, two workers"},
    Example{"ddprun --nproc-per-node=gpu train.py --lr 0.1", "a Python script, one worker per GPU"},
    Example{"ddprun --gpus=0,2 --max-restarts=3 train.py",
            "on two of the GPUs; restarted up to 3 times"},
    Example{"ddprun --nproc-per-node=4 -m project.train", "a Python module"},
    Example{"ddprun --nproc-per-node=2 ./a.out --any",
            "any program; options behind it are its own"},
    Example{"ddprun --dry-run --nproc-per-node=2 train",
            "only show what would be started, and why"},
};

}  // namespace

std::span<const OptionRow> option_table() { return kTable; }

std::span<const Example> examples() { return kExamples; }

std::string_view group_title(OptionGroup group) {
  switch (group) {
    case workers:
      return "Workers";
    case program:
      return "Program";
    case gpus:
      return "GPUs";
    case streams:
      return "Streams";
    case failures:
      return "Failures";
    case rendezvous:
      return "Meeting point";
    case ourselves:
      return "ddprun itself";
  }
  return "";
}

std::vector<std::string> spellings(const OptionRow& row) {
  std::vector<std::string> all{"--" + std::string(row.name)};
  std::string underscored = all.front();
  std::replace(underscored.begin() + 2, underscored.end(), '-', '_');
  if (underscored != all.front()) all.push_back(underscored);
  if (row.short_name != '\0') all.push_back(std::string("-") + row.short_name);
  return all;
}

std::vector<std::string_view> choices_of(const OptionRow& row) {
  std::vector<std::string_view> choices;
  std::string_view rest = row.choices;
  while (!rest.empty()) {
    const auto end = rest.find('|');
    choices.push_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return choices;
}

std::string value_hint(const OptionRow& row) {
  switch (row.type) {
    case ValueType::flag:
      return "";
    case ValueType::optional_choice: {
      // The first choice is what the bare option means: it need not be typed.
      const auto bar = row.choices.find('|');
      return "[=" + std::string(row.choices.substr(bar + 1)) + "]";
    }
    case ValueType::choice:
      return "=" + std::string(row.choices);
    case ValueType::count_or_word:
    case ValueType::indexes_or_word:
      return "=" + std::string(row.placeholder) + "|" + std::string(row.choices);
    case ValueType::integer:
    case ValueType::count:
    case ValueType::text:
    case ValueType::seconds:
      return "=" + std::string(row.placeholder);
  }
  return "";
}

}  // namespace ddprun::launcher
