// The rows of the option table about what runs: workers, program, GPUs, streams.
#pragma once

#include <array>

#include "launcher/options/enum_words.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

inline constexpr std::array kJobRows = {
    OptionRow{
        .name = "nproc-per-node",
        .environment = "PET_NPROC_PER_NODE",
        .type = ValueType::count_or_word,
        .choices = "auto|cpu|gpu|xpu|npu|hpu",
        .refused = "mps|mlu|musa|mtia|tpu|xla|cuda|privateuseone",
        .why_refused = "ddprun cannot count such devices (only gpu, xpu, npu and hpu); give the "
                       "number of workers, as in --nproc-per-node=4",
        .group = OptionGroup::workers,
        .placeholder = "N",
        .help = "Workers on this machine",
        .more =
            "A number, or a word: gpu is one for each visible GPU of NVIDIA or AMD; xpu, npu and "
            "hpu are one for each Intel GPU, Ascend NPU and Gaudi HPU; cpu is one for each "
            "logical CPU of the machine; auto is the first of these that is found, in this "
            "order. More workers than visible GPUs is an error, unless --gpus=none makes it a "
            "CPU job. If --gpus lists GPUs and this option is absent, there is one worker for "
            "each of them.",
        .default_text = "1",
        .example = "ddprun --nproc-per-node=4 train.py",
    },
    OptionRow{
        .name = "nnodes",
        .environment = "PET_NNODES",
        .type = ValueType::text,
        .group = OptionGroup::workers,
        .placeholder = "N|MIN:MAX",
        .help = "Number of machines (nodes) of the job; type this command on each",
        .more =
            "With MIN:MAX (an elastic job) it starts when MAX nodes have joined, or 30 s "
            "(last_call_timeout) "
            "after MIN have joined. It goes on as long as MIN are left, and accepts new nodes up "
            "to MAX (--grow-delay). Several nodes meet at --rdzv-endpoint or --master-addr. Under "
            "Slurm, srun --ntasks-per-node=1 ddprun PROGRAM needs none of these options.",
        .default_value = "1:1",
        .default_text = "1",
        .example = "ddprun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
    },
    OptionRow{
        .name = "role",
        .environment = "PET_ROLE",
        .type = ValueType::text,
        .group = OptionGroup::workers,
        .placeholder = "NAME",
        .help = "ROLE_NAME of the workers",
        .default_value = "default",
        .example = "ddprun --role=trainer --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "omp-threads",
        .type = ValueType::count_or_word,
        .choices = "auto",
        .group = OptionGroup::workers,
        .placeholder = "N",
        .help = "OMP_NUM_THREADS of the workers",
        .more = "auto divides the CPUs that this job may use (affinity and cgroup quota) among the "
                "workers of this machine. Without the option several workers get 1 each, as under "
                "torchrun, unless the variable is set.",
        .default_text = "1 for several workers",
        .example = "ddprun --omp-threads=auto --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "numa-binding",
        .type = ValueType::choice,
        .choices = choices<machine::NumaBinding>,
        .group = OptionGroup::workers,
        .help = "Bind each worker to CPUs near its GPU",
        .more = "node and socket: all CPUs of the GPU's NUMA node or package; exclusive: a share "
                "of the node's cores; core-complex: the CPUs that share one last-level cache. "
                "Workers without a GPU are spread evenly. ddprun binds by a system call before "
                "PROGRAM starts, so numactl is not needed.",
        .example = "ddprun --numa-binding=node --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "module",
        .short_name = 'm',
        .environment = "PET_MODULE",
        .type = ValueType::flag,
        .group = OptionGroup::program,
        .help = "PROGRAM is a Python module, as for python -m",
        .example = "ddprun --nproc-per-node=2 -m project.train",
    },
    OptionRow{
        .name = "no-python",
        .environment = "PET_NO_PYTHON",
        .type = ValueType::flag,
        .group = OptionGroup::program,
        .help = "Execute PROGRAM itself, never under Python",
        .example = "ddprun --no-python --nproc-per-node=2 /bin/echo hello",
    },
    OptionRow{
        .name = "run-path",
        .environment = "PET_RUN_PATH",
        .type = ValueType::flag,
        .group = OptionGroup::program,
        .help = "PROGRAM is a Python file, whatever its name",
        .more = "It runs in a fresh Python process and ends as torchrun's children do: an "
                "exception goes into the error file and gives exit code 1, and no destructors of "
                "C++ libraries run.",
        .example = "ddprun --run-path --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "preload",
        .type = ValueType::text,
        .group = OptionGroup::program,
        .placeholder = "MODULES",
        .help = "Import these Python modules once for all workers, and before a restart",
        .more =
            "One process of each node imports MODULES (torch,transformers), or with auto those "
            "with which the program begins, and every worker is forked from it: a worker of a "
            "first round or a restart starts in milliseconds with all of them loaded. The program "
            "is unchanged. What cannot be imported there (a module that starts a thread or opens a "
            "GPU, a file that has changed since) is named, and the workers import it for "
            "themselves (docs/preload.md). none: as without this option.",
        .default_text = "each worker imports for itself",
        .example = "ddprun --preload=auto --nproc-per-node=8 train.py",
    },
    OptionRow{
        .name = "local-rank-argument",
        .type = ValueType::choice,
        .choices = choices<LocalRankArgument>,
        .group = OptionGroup::program,
        .help = "Whether PROGRAM gets its local rank as an argument",
        .more = "Scripts written for python -m torch.distributed.launch want --local-rank=N or "
                "--local_rank=N as their first argument. auto: a script that declares one of them "
                "gets it, other programs get none. dash, underscore: every PROGRAM gets that one.",
        .default_value = "auto",
        .example = "ddprun --local-rank-argument=underscore --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "use-env",
        .type = ValueType::flag,
        .group = OptionGroup::program,
        .help = "Like --local-rank-argument=none",
        .more = "torch.distributed.launch's name for it: the local rank is in LOCAL_RANK only.",
        .example = "ddprun --use-env --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "gpus",
        .aliases = "devices|selected-gpus",
        .type = ValueType::indexes_or_word,
        .choices = "all|none|free|free:N",
        .group = OptionGroup::gpus,
        .placeholder = "0,2",
        .help = "GPUs of the job; none makes it a CPU job",
        .more = "Numbers count the visible GPUs (CUDA_VISIBLE_DEVICES, or the variable of another "
                "vendor's devices) from 0. free: the NVIDIA GPUs that no process uses, as many as "
                "--nproc-per-node says, or N of them, or all; no other ddprun on this machine "
                "takes them while the job lasts, and a restart waits up to 30 s until their "
                "memory is free. Without --nproc-per-node, a list or free also sets the number "
                "of workers. Paddle's names --devices and --selected-gpus work, too.",
        .default_value = "all",
        .example = "ddprun --gpus=0,2 train.py",
    },
    OptionRow{
        .name = "gpu-visibility",
        .type = ValueType::choice,
        .choices = choices<GpuVisibility>,
        .group = OptionGroup::gpus,
        .help = "GPUs that a worker sees: all of the job, or only its own",
        .more = "all: CUDA_VISIBLE_DEVICES of every worker is the list of the job's GPUs, and "
                "LOCAL_RANK is the worker's place in it. own: it is the worker's one GPU, which is "
                "then device 0.",
        .default_value = "all",
        .example = "ddprun --gpu-visibility=own --nproc-per-node=gpu train.py",
    },
    OptionRow{
        .name = "virtual-local-rank",
        .environment = "PET_VIRTUAL_LOCAL_RANK",
        .type = ValueType::flag,
        .group = OptionGroup::gpus,
        .help = "Every worker sees one GPU and LOCAL_RANK 0",
        .more = "Implies --gpu-visibility=own. ${local_rank} in arguments and the folders of the "
                "logs keep the real local rank.",
        .example = "ddprun --virtual-local-rank --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "output",
        .type = ValueType::choice,
        .choices = choices<OutputMode>,
        .group = OptionGroup::streams,
        .help = "How the workers' output is shown",
        .more = "prefix: every line begins with its rank, and the workers get a terminal if ddprun "
                "has one. pty, pipe: the same, but always with a terminal, or always with a pipe. "
                "raw: the workers get ddprun's own stdout and stderr, as under torchrun. A single "
                "worker has them too, but if stderr is not a terminal, its stderr passes through "
                "ddprun, without prefixes.",
        .default_text = "prefix; one worker: without prefixes",
        .example = "ddprun --output=raw --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "stdin",
        .type = ValueType::choice,
        .choices = choices<StdinMode>,
        .group = OptionGroup::streams,
        .help = "Which workers get ddprun's stdin; the others get none",
        .default_value = "rank0",
        .example = "ddprun --stdin=none --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "log-dir",
        .environment = "PET_LOG_DIR",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "FOLDER",
        .help = "Folder for error files and the files of --redirects and --tee",
        .more = "A run makes a folder RUN there, named by date, time and the run id. "
                "RUN/attempt_N/RANK/ holds stdout.log, stderr.log and error.json of each restart "
                "and local rank; latest links to the newest run. ddprun never deletes a run. "
                "/dev/null: no files at all.",
        .default_text = "a new folder in TMPDIR, if files are written",
        .example = "ddprun --log-dir=logs --tee=3 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "redirects",
        .short_name = 'r',
        .environment = "PET_REDIRECTS",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "0..3|RANK:0..3,...",
        .help = "Streams that go to files and are not shown: 1 stdout, 2 stderr, 3 both",
        .more = "One digit applies to all workers. 0:3,5:1 names local ranks; the others get 0.",
        .default_value = "0",
        .example = "ddprun --redirects=2 --log-dir=logs --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "tee",
        .short_name = 't',
        .environment = "PET_TEE",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "0..3|RANK:0..3,...",
        .help = "Streams that go to files and are also shown: 1 stdout, 2 stderr, 3 both",
        .more = "Same form as --redirects.",
        .default_value = "0",
        .example = "ddprun --tee=3 --log-dir=logs --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "local-ranks-filter",
        .environment = "PET_LOCAL_RANKS_FILTER",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "0,1",
        .help = "Show only the output of these local ranks",
        .more = "The output of the other workers goes only to their files, if they have any.",
        .default_text = "all",
        .example =
            "ddprun --local-ranks-filter=0 --tee=3 --log-dir=logs --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "rank-filter",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "0,4-7",
        .help = "Show only the output of these ranks",
        .more = "Ranks of the whole job. With --local-ranks-filter too, a worker must match both. "
                "Files get all output.",
        .default_text = "all",
        .example = "ddprun --rank-filter=0,4-7 --nproc-per-node=8 train.py",
    },
    OptionRow{
        .name = "log-line-prefix-template",
        .environment = "PET_LOG_LINE_PREFIX_TEMPLATE",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "TEXT",
        .help = "Prefix for each line of a worker; none: no prefix",
        .more = "${rank}, ${local_rank}, ${role_name} or ${role}, ${hostname} or ${host}, ${round} "
                "and ${time} (HH:MM:SS.mmm, when the line came) are replaced. The variable "
                "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE gives a template, too; other names in it "
                "stay as they are. Under the name torchrun, lines of --tee begin with its "
                "[${role_name}${local_rank}]: instead of [rankN].",
        .default_text = "[rankN]",
        .example =
            "ddprun --log-line-prefix-template='${time} ${rank}: ' --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "fold",
        .type = ValueType::choice,
        .choices = choices<FoldMode>,
        .group = OptionGroup::streams,
        .help = "Show a line that several workers print once: [rank0-7] text",
        .more = "A line waits for the other workers for 50 ms at most. auto: on a terminal. Lines "
                "with --log-line-prefix-template, and those of log files, are never folded.",
        .default_value = "auto",
        .example = "ddprun --fold=always --nproc-per-node=8 train.py > log",
    },
    OptionRow{
        .name = "color",
        .aliases = "colour",
        .type = ValueType::choice,
        .choices = choices<ColourMode>,
        .group = OptionGroup::streams,
        .help = "Prefixes in a colour for each rank",
        .more = "auto: on a terminal, unless NO_COLOR is set or TERM is dumb.",
        .default_value = "auto",
        .example = "ddprun --color=never --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "log-max-size",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "BYTES",
        .help = "Start a new log file before one exceeds BYTES",
        .more = "K, M and G are powers of 1024. The new file begins with a whole line; older ones "
                "become stdout.log.1 and so on. With it, redirected output passes through ddprun.",
        .default_text = "no limit",
        .example =
            "ddprun --log-max-size=100M --redirects=3 --log-dir=logs --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "log-keep",
        .type = ValueType::count,
        .group = OptionGroup::streams,
        .placeholder = "N",
        .help = "How many older files --log-max-size keeps",
        .default_value = "1",
        .example = "ddprun --log-keep=3 --log-max-size=100M --redirects=3 --log-dir=logs train.py",
    },
    OptionRow{
        .name = "bar-interval",
        .type = ValueType::seconds,
        .group = OptionGroup::streams,
        .placeholder = "SECONDS",
        .help = "In files and pipes: how often a progress bar becomes a line",
        .more = "A terminal draws progress bars in place. Elsewhere a bar that moves is written as "
                "a line this often, and when it ends, so that a log shows that the job is alive. "
                "0: when it ends only.",
        .default_value = "10",
        .example = "ddprun --bar-interval=60 --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "log-policy",
        .type = ValueType::choice,
        .choices = choices<agent::LogPolicy>,
        .group = OptionGroup::streams,
        .help =
            "If the reader of ddprun's output is too slow: drop output, or let the workers wait",
        .more = "auto: the workers wait for a pipe or file, and nothing is lost; output is dropped "
                "if the reader takes nothing for 30 s, or a terminal makes no room within 0.1 s. "
                "drop: output is dropped if any reader makes no room within 0.1 s. block: nothing "
                "is dropped while the job runs; the default for one worker without prefixes (see "
                "--output). ddprun counts and reports what was dropped.",
        .default_value = "auto",
        .example = "ddprun --log-policy=block --nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "duplicate-stdout-filters",
        .environment = "PET_DUPLICATE_STDOUT_FILTERS",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "TEXT,...",
        .help = "Lines of teed stdout with one of these texts also go to filtered_stdout.log",
        .more = "Write two commas for a comma within a text.",
        .example = "ddprun --duplicate-stdout-filters=loss,accuracy --tee=1 --log-dir=logs "
                   "--nproc-per-node=2 train.py",
    },
    OptionRow{
        .name = "duplicate-stderr-filters",
        .environment = "PET_DUPLICATE_STDERR_FILTERS",
        .type = ValueType::text,
        .group = OptionGroup::streams,
        .placeholder = "TEXT,...",
        .help = "The same for stderr and filtered_stderr.log",
        .example = "ddprun --duplicate-stderr-filters=Warning --tee=2 --log-dir=logs "
                   "--nproc-per-node=2 train.py",
    },
};

}  // namespace ddprun::launcher
