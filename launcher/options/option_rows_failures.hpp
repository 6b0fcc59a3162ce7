// The rows of the option table about failures: restarts, what counts as one, and how workers are
// stopped.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kFailureRows = {
    OptionRow{
        .name = "max-restarts",
        .aliases = "max-restart",
        .environment = "PET_MAX_RESTARTS",
        .type = ValueType::count,
        .group = OptionGroup::failures,
        .placeholder = "N",
        .help = "How often the workers are restarted after failures",
        .default_value = "0",
        .example = "ddprun --max-restarts=3 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "max-node-changes",
        .type = ValueType::count,
        .group = OptionGroup::failures,
        .placeholder = "N",
        .help = "How often the workers are restarted because a node was lost or left",
        .more = "Such restarts do not count for --max-restarts. For jobs of several nodes.",
        .default_text = "any number",
        .example = "ddprun --max-node-changes=5 --nnodes=2:4 --rdzv-backend=c10d "
                   "--rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "preflight",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "COMMAND",
        .help = "Check this node before it joins the job, and before it takes over as a spare",
        .more =
            "COMMAND runs by sh -c, with no input, before any worker. A node on which it fails, "
            "is killed or takes too long (--preflight-timeout) gets no rank: ddprun ends there "
            "with exit code 72, and the other nodes go on without it or wait for another one. "
            "Its lines are shown after [preflight]. The report names such nodes and why.",
        .default_text = "no check",
        .example = "ddprun --preflight='nvidia-smi && dcgmi diag -r 1' --nnodes=2 "
                   "--rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "preflight-timeout",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "How long the --preflight command may take",
        .more =
            "Then it is killed, with all that it has started, and the node has failed its check.",
        .default_value = "300",
        .example = "ddprun --preflight-timeout=60 --preflight=nvidia-smi --nproc-per-node=2 "
                   "train.py",
    },
    OptionRow{
        .name = "restart-window",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Count --max-restarts within the last SECONDS",
        .more = "Without it they are counted over the whole job.",
        .default_text = "the whole job",
        .example = "ddprun --restart-window=1h --max-restarts=3 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "restart-delay",
        .type = ValueType::seconds_or_word,
        .choices = "auto",
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Wait before the second restart in a row; doubled for each further one",
        .more = "auto is 1 s, doubled up to 30 s; a number is doubled up to a minute; 0 never "
                "waits. Each wait is up to a quarter shorter, at random. The first restart comes "
                "at once. So does the next one after a round that lasted 30 s (or --min-uptime) or "
                "reached a new step.",
        .default_value = "auto",
        .example = "ddprun --restart-delay=5 --max-restarts=3 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "min-uptime",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Give up after three rounds in a row that failed within SECONDS",
        .default_text = "never",
        .example = "ddprun --min-uptime=30 --max-restarts=10 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "no-restart-on",
        .type = ValueType::indexes_or_word,
        .choices = "none",
        .group = OptionGroup::failures,
        .placeholder = "CODE,...",
        .help = "Exit codes of workers after which not to restart, besides 2, 113, 126 and 127",
        .default_value = "none",
        .example = "ddprun --no-restart-on=3,4 --max-restarts=3 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "explain-policy",
        .type = ValueType::flag,
        .group = OptionGroup::failures,
        .help = "Show what would happen after each kind of failure; start nothing",
        .example = "ddprun --explain-policy --max-restarts=3 train.py",
    },
    OptionRow{
        .name = "exit-code",
        .type = ValueType::choice,
        .choices = choices<ExitCodeRule>,
        .group = OptionGroup::failures,
        .help = "After a failure: the culprit's own exit code, or 1, as under torchrun",
        .default_value = "first",
        .example = "ddprun --exit-code=one --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "report",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "FILE",
        .help = "Write how the job ended to FILE, as JSON",
        .more = "If FILE can't be made, nothing is started.",
        .example = "ddprun --report=report.json --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "event-log",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "FILE",
        .help = "Append what happens to the job on this node to FILE: a line of JSON per event",
        .more =
            "The lines are those of `ddpctl events --json`: rounds, starts and ends of workers, "
            "restarts, signals. If FILE can't be made, nothing is started; a disk that is full or "
            "slow later does not disturb the job, and what is lost is counted. Not with --hosts. "
            "In a folder that "
            "nodes share give each its own file.",
        .example = "ddprun --event-log=events.jsonl --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "on-event",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "COMMAND",
        .help = "Run COMMAND for each event of the job on this node, as for a message to a chat",
        .more =
            "COMMAND runs by sh -c with the event on its stdin, a line of JSON as `ddpctl events "
            "--json` prints it, its name in DDPRUN_EVENT and the run id in TORCHELASTIC_RUN_ID. "
            "Lines that ddprun prints are not told. One runs at a time, in the order of the "
            "events, "
            "and is killed after 30 s; the job does not wait for it, but at its end ddprun waits "
            "for up to 10 s. On each node it is run for the events of that node.",
        .example = "ddprun --on-event='case $DDPRUN_EVENT in restart_planned|job_ended) curl -s -d "
                   "@- https://chat.example/hook;; esac' train.py",
    },
    OptionRow{
        .name = "on-notice",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "COMMAND",
        .help = "Save a checkpoint when COMMAND has ended with 0, as on the notice of a spot "
                "machine that it is taken away",
        .more =
            "COMMAND runs by sh -c beside the workers, and again 5 s after each end with another "
            "exit code: it may look once, or wait for the notice. When it has ended with 0, the "
            "workers of this node are asked to save and go on, as by `ddpctl save`, and it is not "
            "run again. For programs that save when they are asked to: train, and those that "
            "follow docs/progress.md.",
        .example = "ddprun --on-notice='test -e /run/taken-away' train.py",
    },
    OptionRow{
        .name = "chaos",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "SEED,FAULT=EVERY,...",
        .help = "Break workers or the rendezvous on purpose, to test how the job recovers",
        .more = "kill=30s sends SIGKILL to a worker about every 30 s; stop=2m stops one until it "
                "counts as hung (--progress-timeout, --on-silence); delay=10s/500ms stops one for "
                "500 ms about every 10 s. Of several nodes, service=5m kills the rendezvous that "
                "an agent runs and starts it again without its memory; partition=2m/20s cuts a "
                "node from the rendezvous for 20 s about every 2 min. faults=20 ends with the 20th "
                "fault. Time counts only while the workers run. The same SEED gives the same "
                "faults in the same order. At the end ddprun says how long the recoveries took.",
        .default_text = "off",
        .example = "ddprun --chaos=7,kill=30s,faults=20 --max-restarts=100 --nproc-per-node=2 "
                   "train.py",
    },
    OptionRow{
        .name = "progress-timeout",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Treat a worker as hung if it reports no progress for this long",
        .more =
            "This finds hangs. ddprun watches only workers that report progress, from their first "
            "report on. train "
            "reports progress. Other programs write to the file that DDPRUN_PROGRESS_FILE names: "
            "in C and C++ with ddprun_progress.h, in Python with the lines of docs/progress.md. "
            "The report shows the stacks of the worker that is furthest behind. SECONDS must be "
            "longer than the longest work between two reports: a step, an evaluation, a "
            "checkpoint, a compilation. 0: no worker is watched.",
        .default_text = "off",
        .example = "ddprun --progress-timeout=60 --max-restarts=3 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "log-timeout",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Warn when a worker has printed nothing for this long",
        .more =
            "For programs that only print. ddprun warns once in each silence; --on-silence can "
            "make it a failure. ddprun does not see what a worker writes directly to its "
            "output (a single worker, --output=raw) or, by --redirects, to files. 0: no warning.",
        .default_text = "off",
        .example = "ddprun --log-timeout=10m --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "on-silence",
        .type = ValueType::choice,
        .choices = choices<OnSilence>,
        .group = OptionGroup::failures,
        .help = "At --log-timeout: only warn, or also restart if no worker prints anything",
        .more =
            "restart: if no worker has printed anything for --log-timeout, the round fails as with "
            "a hang, and --max-restarts decides. One worker that prints is enough to go on.",
        .default_value = "report",
        .example = "ddprun --on-silence=restart --log-timeout=10m --max-restarts=3 "
                   "--nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "uninterruptible-timeout",
        .environment = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
        .type = ValueType::seconds,
        .group = OptionGroup::failures,
        .placeholder = "SECONDS",
        .help = "Treat a worker as hung if one wait in the kernel lasts this long (state D)",
        .more =
            "In such a wait, for a driver or a file server, a process acts on no signal. The "
            "main thread of each worker is watched. --max-restarts decides if SIGKILL ends the "
            "worker within --kill-timeout; else the job ends with exit code 71. 0: no worker is "
            "watched.",
        .default_text = "off",
        .example = "ddprun --uninterruptible-timeout=5m --nproc-per-node=2 train.py",
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
        .example = "ddprun --grace-period=2m --nproc-per-node=2 train.py",
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
        .example = "ddprun --kill-timeout=60 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "contain",
        .type = ValueType::choice,
        .choices = choices<Containment>,
        .group = OptionGroup::failures,
        .help = "How ddprun makes sure that no process outlives the job",
        .more = "tree: through parent and child processes. cgroup: the workers have a cgroup (v2) "
                "of their own. pidns: agent and workers run in a pid namespace. auto: cgroup if "
                "ddprun's own cgroup is delegated to the user, else tree. See docs/containment.md.",
        .default_value = "auto",
        .example = "ddprun --contain=tree --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "signals-to-handle",
        .environment = "PET_SIGNALS_TO_HANDLE",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "NAMES",
        .help = "Signals that stop the job; ddprun passes them to the workers",
        .default_value = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        .example = "ddprun --signals-to-handle=SIGTERM,SIGINT,SIGUSR1 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "forward-signals",
        .type = ValueType::text,
        .group = OptionGroup::failures,
        .placeholder = "NAMES",
        .help = "Signals that are passed to the workers and do not stop the job, such as USR1,USR2",
        .example = "ddprun --forward-signals=USR1 --nproc-per-node=2 train.py",
    },
};

}  // namespace ddprun::launcher
