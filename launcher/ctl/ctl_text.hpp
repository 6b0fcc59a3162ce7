// What the help and the man page of ddpctl say around its options.
#pragma once

#include "texts/program_text.hpp"

namespace ddprun::ctl {

inline constexpr const char* kShortHelp =
    R"(Usage: ddpctl COMMAND [JOB] [OPTIONS]

Looks into running ddprun jobs of this user on this machine.

  ddpctl ls             the jobs
  ddpctl status         one job: its round, and the state and step of each worker
  ddpctl top            the same on the whole terminal, again and again, slowest first
  ddpctl events -f      what happens to it, from its start on
  ddpctl logs -f        what its workers print
  ddpctl stacks         what the threads of its workers are doing now
  ddpctl signal USR1    send a signal to its workers
  ddpctl save           have it write a checkpoint and go on
  ddpctl restart        start all of its workers anew
  ddpctl stop           end it, on all of its nodes
  ddpctl wait           wait until it has ended, with its exit code

JOB is a job's run id (--rdzv-id) or its beginning. It can be left out where one
job runs.

  -f, --follow          events, logs: go on until the job has ended
  --rank=N              logs, stacks, signal: of this worker only
  --timeout=SECONDS     save: wait at most so long (default: 600)
  --interval=SECONDS    top: ask so often (default: 1)
  --now                 stop: kill the workers without --grace-period
  --json                ls, status, events: JSON, as docs/ddpctl.md describes it

ddpctl --help lists all options; --man explains them.
)";

inline ProgramText ctl_text() {
  return {
      .name = "ddpctl",
      .page = "ddpctl",
      .page_section = 1,
      .purpose = "look into running ddprun jobs, and stop them",
      .synopsis = "ddpctl COMMAND [JOB] [OPTIONS]",
      .short_help = kShortHelp,
      .description =
          "ddpctl asks the ddprun that runs a job on this machine, over the job's socket. It may "
          "ask jobs of its own user; root may ask all. To be asked costs the job nothing until "
          "then, and a ddpctl that is killed, or does not read, disturbs no job.\n"
          "JOB is a job's run id (--rdzv-id) or the beginning of one. Within a worker it can be "
          "left out; elsewhere where only one job runs here. Of a job on several machines ddpctl "
          "shows the part of this machine; rdzvd --status shows all nodes.",
      .examples = {{"ddpctl ls", "the jobs on this machine"},
                   {"ddpctl status", "the only job: a line for each worker"},
                   {"ddpctl top", "watch its workers; q leaves, and the job goes on"},
                   {"ddpctl events train7 -f", "what happens to the job train7, as it happens"},
                   {"ddpctl logs -f --rank=3", "what rank 3 prints, also into a file"},
                   {"ddpctl stacks --rank=3", "what rank 3 is doing, by py-spy or gdb"},
                   {"ddpctl signal USR1 train7", "SIGUSR1 to all workers of this node"},
                   {"ddpctl save train7", "before the job is interrupted on purpose"},
                   {"ddpctl wait train7 && next_step", "go on when it has ended with 0"}},
      .option_examples = {{"--rank", "ddpctl stacks --rank=3"},
                          {"--follow", "ddpctl events --follow"},
                          {"--timeout", "ddpctl save --timeout=60"},
                          {"--interval", "ddpctl top --interval=5"},
                          {"--now", "ddpctl stop --now"},
                          {"--json", "ddpctl status --json"},
                          {"--completion", "ddpctl --completion=bash"},
                          {"--man", "ddpctl --man | man -l -"},
                          {"--version", "ddpctl --version"},
                          {"--help", "ddpctl --help"}},
      .sections =
          {{.title = "Commands",
            .terms = {{"ls", "The jobs of this user on this machine (of root: of all users)"},
                      {"status [JOB]",
                       "State, round and restarts of a job; state, step and use of its workers"},
                      {"top [JOB]",
                       "A line for each worker on the whole terminal, the slowest first: state, "
                       "step, steps a second, time since its last progress, CPU, memory, use of "
                       "its GPU, last line. Keys: q leaves, arrows scroll, s changes the order, h "
                       "shows them. The job goes on. It ends with the job"},
                      {"events [JOB]",
                       "What has happened to it, oldest first: rounds, starts and ends of "
                       "workers, restarts, signals, and lines that ddprun has printed. The newest "
                       "2048 are kept"},
                      {"logs [JOB]",
                       "The last lines of its workers on this machine, each with its rank, also "
                       "of those that ddprun does not show: the last 4 KiB of each stream. With "
                       "--follow what they print from then on, too; where that comes faster than "
                       "some 5 MB/s the rest is left out, and counted"},
                      {"stacks [JOB]",
                       "The stacks of the threads of its workers, by py-spy or gdb, which stop "
                       "a worker for that moment, or what the kernel knows of them"},
                      {"signal NAME [JOB]", "Send a signal to the process groups of its workers"},
                      {"save [JOB]",
                       "Have its workers on this machine write a checkpoint and go on, and wait "
                       "until they have. For programs that look whether they are asked to: train, "
                       "and those of docs/progress.md"},
                      {"restart [JOB]",
                       "Start all workers of the job anew, on all of its nodes, as after a change "
                       "of their program. It costs none of --max-restarts. Workers that look at "
                       "the reason of their stop signal may save first"},
                      {"stop [JOB]", "End it, on all of its nodes. Workers get SIGTERM first"},
                      {"wait [JOB]", "Wait until it has ended. The exit code is the job's"}}},
           {.title = "Exit status",
            .terms = {{"0", "Done"},
                      {"1", "There is no such job, or it cannot do what it was asked for"},
                      {"2", "The command line is wrong, or JOB fits to several jobs"},
                      {"69", "The job does not answer"},
                      {"other", "wait: that of the job"}}}},
      .see_also = "ddprun(1), rdzvd(8)",
      .commands = {{"ls", "the jobs on this machine"},
                   {"status", "round, restarts and workers of a job"},
                   {"top", "watch its workers, slowest first"},
                   {"events", "what has happened to it"},
                   {"logs", "what its workers print"},
                   {"stacks", "what the threads of its workers are doing"},
                   {"signal", "send a signal to its workers"},
                   {"save", "have it write a checkpoint and go on"},
                   {"restart", "start all of its workers anew"},
                   {"stop", "end it"},
                   {"wait", "wait until it has ended"}}};
}

}  // namespace ddprun::ctl
