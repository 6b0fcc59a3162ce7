// The rows of the option table about how it runs: failures, meeting point, ddprun itself.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kRunRows = {
    OptionRow{
        .name = "max-restarts",
        .aliases = "max-restart",
        .environment = "PET_MAX_RESTARTS",
        .type = ValueType::count,
        .group = OptionGroup::failures,
        .placeholder = "N",
        .help = "How often the group is restarted after failures",
        .default_value = "0",
    },
    OptionRow{
        .name = "restart-window",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Count --max-restarts within the last SECONDS",
        .more = "Without it they are counted over the whole job.",
        .default_text = "the whole job",
    },
    OptionRow{
        .name = "restart-delay",
        .type = ValueType::seconds_or_word,
        .choices = "auto",
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Wait before the second restart in a row; doubled for each further one",
        .more =
            "auto is 1 s, doubled up to 30 s; a number is doubled up to a minute; 0 never "
            "waits. Each wait is up to a quarter shorter, at random. The first restart comes at "
            "once; so does the next one after a round that lasted 30 s (or --min-uptime), or "
            "got to a new step.",
        .default_value = "auto",
    },
    OptionRow{
        .name = "min-uptime",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Give up after three failures in a row, each sooner than SECONDS after its start",
        .default_text = "never",
    },
    OptionRow{
        .name = "no-restart-on",
        .type = ValueType::indexes_or_word,
        .choices = "none",
        .group = OptionGroup::failures,
        .placeholder = "CODE,...",
        .help = "Do not restart after these exit codes of workers",
        .more = "Never restarted in any case: 2, 113, 126 and 127.",
        .default_value = "none",
    },
    OptionRow{
        .name = "explain-policy",
        .type = ValueType::flag,
        .group = OptionGroup::failures,
        .help = "Show what would happen after each kind of failure, and start nothing",
    },
    OptionRow{
        .name = "exit-code",
        .type = ValueType::choice,
        .choices = choices<ExitCodeRule>,
        .group = OptionGroup::failures,
        .help = "After a failure: the culprit's own exit code, or 1, as under torchrun",
        .default_value = "first",
    },
    OptionRow{
        .name = "report",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "FILE",
        .help = "Write how the job ended to FILE, as JSON",
    },
    OptionRow{
        .name = "progress-timeout",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Treat a worker as hung if the progress it reports stands still for this long",
        .more =
            "Only workers that report progress are watched, from their first report on. train "
            "reports "
            "progress. Other programs write the file that DDPRUN_PROGRESS_FILE names: in C and C++ "
            "with ddprun_progress.h, in Python with the lines of docs/progress.md. "
            "The report shows the stacks of the worker furthest behind. SECONDS must exceed the "
            "longest work between two reports: a step, an evaluation, a checkpoint, a compilation. "
            "0: no worker is watched.",
        .default_text = "off",
    },
    OptionRow{
        .name = "log-timeout",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Warn when a worker has printed nothing for this long",
        .more = "For programs that only print. ddprun warns once in each silence; --on-silence can "
                "make it a failure. ddprun does not see the output of a single worker, nor with "
                "--output=raw, nor what --redirects sends to files. 0: no warning.",
        .default_text = "off",
    },
    OptionRow{
        .name = "on-silence",
        .type = ValueType::choice,
        .choices = choices<OnSilence>,
        .group = OptionGroup::failures,
        .help = "At --log-timeout: only warn, or treat a job that prints nothing at all as hung",
        .more = "restart: when no worker has printed anything for --log-timeout, the round fails "
                "as by a hang, and --max-restarts decides. One worker that prints is enough to go "
                "on.",
        .default_value = "report",
    },
    OptionRow{
        .name = "grace-period",
        .aliases = "shutdown-timeout",
        .environment = "PET_SHUTDOWN_TIMEOUT",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Time from the first signal to SIGKILL",
        .more = "How long stopped workers may take to exit by themselves. Decimals and the "
                "units ms, s, m and h are understood: 0.5, 500ms, 2m.",
        .default_value = "30",
    },
    OptionRow{
        .name = "kill-timeout",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Time that SIGKILL may take to end a process",
        .more = "Freeing much pinned memory takes a while. After this time ddprun prints the "
                "process and what it waits for in the kernel, and ends with exit code 71.",
        .default_value = "10",
    },
    OptionRow{
        .name = "contain",
        .type = ValueType::choice,
        .choices = choices<Containment>,
        .group = OptionGroup::failures,
        .help = "How strictly processes are contained, so that none outlives the job",
        .more = "tree: by parents and children. cgroup: the workers have a cgroup (v2) of their "
                "own. pidns: agent and workers run in a pid namespace. auto: cgroup where ddprun's "
                "own is delegated to it, else tree. See docs/containment.md.",
        .default_value = "auto",
    },
    OptionRow{
        .name = "signals-to-handle",
        .environment = "PET_SIGNALS_TO_HANDLE",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "NAMES",
        .help = "Signals that end the job: passed to the workers, then the grace period",
        .default_value = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    },
    OptionRow{
        .name = "forward-signals",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "NAMES",
        .help = "Signals that are passed to the workers and do not stop the job, such as USR1,USR2",
    },
    OptionRow{
        .name = "standalone",
        .environment = "PET_STANDALONE",
        .type = ValueType::flag,
        .group = OptionGroup::rendezvous,
        .help = "Run alone on this machine: ignore --rdzv-id, address and port",
        .more = "Without --master-port a job on one machine has a port of its own anyway.",
    },
    OptionRow{
        .name = "master-addr",
        .environment = "PET_MASTER_ADDR",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Where the workers meet, MASTER_ADDR",
        .default_text = "127.0.0.1",
    },
    OptionRow{
        .name = "master-port",
        .environment = "PET_MASTER_PORT",
        .type = ValueType::count,
        .group = OptionGroup::rendezvous,
        .placeholder = "PORT",
        .help = "Where the workers meet, MASTER_PORT",
        .default_text = "a free one",
    },
    OptionRow{
        .name = "worker-store",
        .type = ValueType::choice,
        .choices = choices<WorkerStore>,
        .group = OptionGroup::rendezvous,
        .help = "Which process serves the workers' TCPStore",
        .more = "agent: ddprun serves a new store for each round. rank0: the worker of rank 0 "
                "serves it, as in plain PyTorch; for a PyTorch that is newer than this ddprun, or "
                "built without libuv (then also USE_LIBUV=0).",
        .default_value = "agent",
    },
    OptionRow{
        .name = "store-allow-uid",
        .type = ValueType::indexes_or_word,
        .choices = "any",
        .group = OptionGroup::rendezvous,
        .placeholder = "UID,...",
        .help = "Other users of this machine that may use the store",
        .default_text = "none: only your own user and root",
    },
    OptionRow{
        .name = "rdzv-id",
        .aliases = "job-id",
        .environment = "PET_RDZV_ID",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "ID",
        .help = "Name of the run, TORCHELASTIC_RUN_ID",
        .default_text = "a random UUID",
    },
    OptionRow{
        .name = "rdzv-backend",
        .environment = "PET_RDZV_BACKEND",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "NAME",
        .help = "torchrun's rendezvous: static, c10d, etcd, etcd-v2",
        .more = "One node needs none of them. With static an endpoint is the address and port "
                "where the workers meet, as under torchrun.",
        .default_value = "static",
    },
    OptionRow{
        .name = "rdzv-endpoint",
        .aliases = "master",
        .environment = "PET_RDZV_ENDPOINT",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST[:PORT]",
        .help = "Where the nodes of a job meet",
        .more = "[::1]:29500 for IPv6. With the static backend it is MASTER_ADDR and MASTER_PORT.",
    },
    OptionRow{
        .name = "rdzv-conf",
        .environment = "PET_RDZV_CONF",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "KEY=VALUE,...",
        .help = "Settings of the rendezvous",
        .more =
            "torchrun's keys are understood; an unknown key causes one warning, with the nearest "
            "known key.",
    },
    OptionRow{
        .name = "node-rank",
        .aliases = "rank",
        .environment = "PET_NODE_RANK",
        .type = ValueType::count,
        .group = OptionGroup::rendezvous,
        .placeholder = "N",
        .help = "Rank of this node; version 0.1 runs on a single machine",
        .default_value = "0",
    },
    OptionRow{
        .name = "local-addr",
        .aliases = "host",
        .environment = "PET_LOCAL_ADDR",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Address of this machine, in place of a --master-addr",
    },
    OptionRow{
        .name = "ips",
        .type = ValueType::text,
        .group = OptionGroup::rendezvous,
        .placeholder = "HOST",
        .help = "Paddle's list of nodes: only this machine",
        .no_effect = "a job on one machine needs no addresses",
    },
    OptionRow{
        .name = "run-mode",
        .type = ValueType::choice,
        .choices = "collective",
        .group = OptionGroup::rendezvous,
        .help = "Paddle's kind of job; parameter servers are not supported",
    },
    OptionRow{
        .name = "elastic-level",
        .aliases = "elastic-timeout|start-port|gloo-port|with-gloo|legacy|log-overwrite|sort-ip|"
                   "enable-gpu-log|auto-parallel-config|auto-cluster-config|auto-tuner-json",
        .type = ValueType::text,
        .group = OptionGroup::ourselves,
        .placeholder = "VALUE",
        .help = "Accepted for Paddle's sake",
        .no_effect = "it is about Paddle's own launcher",
    },
    OptionRow{
        .name = "dry-run",
        .type = ValueType::optional_choice,
        .choices = "text|json",
        .group = OptionGroup::ourselves,
        .help = "Show what would be started, and why, and start nothing",
    },
    OptionRow{
        .name = "log-level",
        .type = ValueType::choice,
        .choices = choices<LogLevel>,
        .also = "warn|critical|fatal",
        .group = OptionGroup::ourselves,
        .help = "Which messages of its own ddprun prints to stderr",
        .more = "Its warnings begin with \"ddprun: warning: \". Where the option is absent, "
                "torchrun's variable LOGLEVEL counts (DEBUG, INFO, WARNING, ...).",
        .default_text = "warning",
    },
    OptionRow{
        .name = "event-log-handler",
        .environment = "PET_EVENT_LOG_HANDLER",
        .type = ValueType::text,
        .group = OptionGroup::ourselves,
        .placeholder = "NAME",
        .help = "Accepted for torchrun's sake",
        .no_effect = "it names a Python plug-in, and there is no Python in ddprun",
    },
    OptionRow{
        .name = "monitor-interval",
        .environment = "PET_MONITOR_INTERVAL",
        .type = ValueType::seconds,
        .group = OptionGroup::ourselves,
        .placeholder = "SECONDS",
        .help = "Accepted for torchrun's sake",
        .no_effect = "ddprun does not poll: the kernel reports a worker's end at once",
    },
    OptionRow{
        .name = "start-method",
        .environment = "PET_START_METHOD",
        .type = ValueType::choice,
        .choices = "spawn|fork|forkserver",
        .group = OptionGroup::ourselves,
        .help = "Accepted for torchrun's sake",
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
        .help = "Print all options; -h prints the ones that most jobs need",
        .ends = true,
    },
};

}  // namespace ddprun::launcher
