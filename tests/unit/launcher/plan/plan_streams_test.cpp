// What a worker is given: streams, log files, threads, CPUs, arguments.
#include <catch2/catch.hpp>

#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("one worker inherits our streams on a terminal, and elsewhere we copy its stderr") {
  using agent::StreamMode;
  const auto modes_of = [](bool out_terminal, bool err_terminal, bool one_output,
                           const Words& options) {
    Machine machine;
    machine.terminals = out_terminal;
    machine.stderr_terminal = err_terminal;
    machine.one_output = one_output;
    const auto worker = planned(options, machine).agent.workers[0];
    return std::pair(worker.standard_output.mode, worker.standard_error.mode);
  };
  const auto modes = [&](bool terminal, bool one_output, const Words& options) {
    return modes_of(terminal, terminal, one_output, options);
  };
  CHECK(modes_of(true, false, false, {}) == std::pair(StreamMode::inherit, StreamMode::copy));
  CHECK(modes_of(false, true, false, {}) == std::pair(StreamMode::inherit, StreamMode::inherit));
  CHECK(modes(true, true, {}) == std::pair(StreamMode::inherit, StreamMode::inherit));
  CHECK(modes(false, false, {}) == std::pair(StreamMode::inherit, StreamMode::copy));
  CHECK(modes(false, true, {}) == std::pair(StreamMode::copy, StreamMode::copy));
  CHECK(modes(false, true, {"--output=raw"}) ==
        std::pair(StreamMode::inherit, StreamMode::inherit));
  // What is not copied beside it has no order to keep.
  CHECK(modes(false, true, {"--tee=2"}) == std::pair(StreamMode::inherit, StreamMode::pipe));
  CHECK(modes(false, true, {"--redirects=1"}) == std::pair(StreamMode::file, StreamMode::copy));
}

TEST_CASE("a copy loses nothing unless the user allows it") {
  CHECK(planned({}).agent.logs.policy == agent::LogPolicy::block);
  CHECK(planned({"--log-policy=drop"}).agent.logs.policy == agent::LogPolicy::drop);
  CHECK(planned({"--nproc-per-node=2"}).agent.logs.policy == agent::LogPolicy::automatic);
}

TEST_CASE("rank 0 has our stdin, and there are no log files unless they are asked for") {
  const auto plan = planned({});
  CHECK(plan.agent.streams.standard_input == StdinMode::rank0);
  CHECK_FALSE(plan.log_folder.wanted);
}

TEST_CASE("several workers get a terminal where ours is one and a pipe elsewhere") {
  Machine machine;
  machine.terminals = true;
  for (const auto& worker : planned({"--nproc-per-node=2"}, machine).agent.workers) {
    CHECK(worker.standard_output.mode == agent::StreamMode::pty);
    CHECK(worker.standard_error.mode == agent::StreamMode::pipe);
  }
}

TEST_CASE("the output mode can be chosen for any number of workers") {
  const auto output = [](const std::string& mode, const std::string& workers) {
    return planned({"--output=" + mode, "--nproc-per-node=" + workers})
        .agent.workers[0]
        .standard_output.mode;
  };
  for (const std::string workers : {"1", "2"}) {
    CHECK(output("raw", workers) == agent::StreamMode::inherit);
    CHECK(output("pty", workers) == agent::StreamMode::pty);
    CHECK(output("pipe", workers) == agent::StreamMode::pipe);
    CHECK(output("prefix", workers) == agent::StreamMode::pipe);
  }
}

TEST_CASE("Python output into a pipe is unbuffered, unless the user has set it") {
  CHECK(planned({"--nproc-per-node=2"}).agent.environment.python_unbuffered);
  CHECK_FALSE(planned({}).agent.environment.python_unbuffered);
  CHECK_FALSE(planned({"--output=pty", "--nproc-per-node=2"}).agent.environment.python_unbuffered);
  CHECK_FALSE(planned({"--nproc-per-node=2"}, Machine().with("PYTHONUNBUFFERED", ""))
                  .agent.environment.python_unbuffered);
}

TEST_CASE("several workers get one OMP thread each, with one note, unless the variable is set") {
  const auto plan = planned({"--nproc-per-node=2", "t.py"});
  CHECK(plan.agent.workers[0].omp_threads == 1);
  CHECK(plan.agent.workers[1].omp_threads == 1);
  CHECK(plan.agent.start_note ==
        "OMP_NUM_THREADS=1 for each worker (--omp-threads=auto to share the CPUs)");
  CHECK(plan.notes.empty());
  CHECK_FALSE(planned({"t.py"}).agent.workers[0].omp_threads.has_value());
  CHECK(planned({"t.py"}).agent.start_note.empty());
  for (const std::string level : {"--log-level=error", "--log-level=off"}) {
    const auto quiet = planned({"--nproc-per-node=2", level, "t.py"});
    CHECK(quiet.agent.workers[0].omp_threads == 1);
    CHECK(quiet.agent.start_note.empty());
  }
  for (const std::string value : {"4", ""}) {
    const auto kept =
        planned({"--nproc-per-node=2", "t.py"}, Machine().with("OMP_NUM_THREADS", value));
    CHECK_FALSE(kept.agent.workers[0].omp_threads.has_value());
    CHECK(kept.agent.start_note.empty());
  }
}

TEST_CASE(
    "the note about OMP threads is for programs that may use them, where CPUs would be left") {
  Machine machine;
  const std::string elf =
      "\x7f"
      "ELF\x02 libc.so.6 ";
  machine.files.program("/usr/bin/plain", elf).program("/usr/bin/openmp", elf + "libgomp.so.1");
  machine.files.program("/usr/bin/script", "#!/bin/sh\n# libgomp.so.1\n");
  const auto note = [&](const std::string& program, const std::string& workers = "2") {
    const auto plan = planned({"--nproc-per-node=" + workers, program}, machine);
    CHECK(plan.agent.workers[0].omp_threads == 1);
    return !plan.agent.start_note.empty();
  };
  CHECK(note("openmp"));
  CHECK(note("python3"));
  CHECK(note("t.py"));
  for (const auto* program : {"plain", "script", "true"}) CHECK_FALSE(note(program));
  machine.usable_cpus = 5;
  CHECK_FALSE(note("t.py", "3"));  // one CPU for each, and two beside them
  machine.usable_cpus = 2;
  CHECK_FALSE(note("t.py"));
}

TEST_CASE("a filter of ranks that the job does not have causes a warning") {
  const Machine machine = Machine().with("OMP_NUM_THREADS", "1");
  const auto notes = [&](const std::string& filter) {
    return planned({"--nproc-per-node=2", filter}, machine).warnings;
  };
  using Notes = std::vector<std::string>;
  CHECK(notes("--rank-filter=0-1").empty());
  CHECK(notes("--local-ranks-filter=1").empty());
  CHECK(notes("--rank-filter=5") ==
        Notes{"--rank-filter=5: there is no such rank, ranks are 0 to 1; nothing will be shown"});
  CHECK(notes("--rank-filter=1-3") ==
        Notes{"--rank-filter=1-3: there is no rank 2, ranks are 0 to 1"});
  CHECK(notes("--local_ranks_filter=5") ==
        Notes{"--local_ranks_filter=5: there is no such local rank, local ranks are 0 to 1; "
              "nothing will be shown"});
}

TEST_CASE("a log folder that gets no output of the workers causes a warning") {
  const Machine machine = Machine().with("OMP_NUM_THREADS", "1");
  const std::vector<std::string> expected{
      "--log-dir without --tee or --redirects keeps no output of the workers"};
  CHECK(planned({"--log-dir=/logs"}, machine).warnings == expected);
  CHECK(planned({"--log-dir=/logs", "--tee=3"}, machine).warnings.empty());
  CHECK(planned({"--log-dir=/dev/null"}, machine).warnings.empty());
}

TEST_CASE("the bundled trainer does not use OpenMP so no note is printed") {
  Machine machine;
  machine.files.program("/opt/bin/train");
  machine.executable_folder = "/opt/bin";
  const auto plan = planned({"--nproc-per-node=2", "train"}, machine);
  CHECK(plan.program.kind == ProgramChoice::Kind::bundled);
  CHECK(plan.agent.workers[0].omp_threads == 1);
  CHECK(plan.warnings.empty());
}

TEST_CASE("a number of OMP threads is given to every worker whatever the variable says") {
  const auto plan =
      planned({"--nproc-per-node=2", "--omp-threads=3"}, Machine().with("OMP_NUM_THREADS", "9"));
  CHECK(plan.agent.workers[1].omp_threads == 3);
  CHECK(plan.warnings.empty());
  CHECK(planned({"--omp-threads=3"}).agent.workers[0].omp_threads == 3);
}

TEST_CASE("automatic OMP threads share the CPUs that the job may use") {
  Machine machine;
  machine.usable_cpus = 8;
  CHECK(
      planned({"--nproc-per-node=2", "--omp-threads=auto"}, machine).agent.workers[1].omp_threads ==
      4);
  CHECK(planned({"--omp-threads=auto"}, machine).agent.workers[0].omp_threads == 8);
  CHECK(
      planned({"--nproc-per-node=9", "--omp-threads=auto"}, machine).agent.workers[8].omp_threads ==
      1);
}

TEST_CASE("NUMA binding gives every worker the CPUs beside its GPU") {
  Machine machine(2);
  machine.usable_cpus = 4;
  const auto plan =
      planned({"--nproc-per-node=gpu", "--numa-binding=node", "--omp-threads=auto"}, machine);
  REQUIRE(plan.agent.workers.size() == 2);
  CHECK(plan.agent.workers[0].cpus == machine::CpuSet{2, 3});
  CHECK(plan.agent.workers[1].cpus == machine::CpuSet{0, 1});
  CHECK(plan.agent.workers[0].omp_threads == 2);
  CHECK(planned({"--nproc-per-node=gpu"}, machine).agent.workers[0].cpus.empty());
}

TEST_CASE("a NUMA binding that is not possible is a usage error that names the option") {
  Machine machine;
  machine.one_node = true;
  CHECK_THAT(refused_plan({"--nproc-per-node=9", "--numa-binding=exclusive"}, machine),
             Catch::Matchers::Equals(
                 "--numa-binding: NUMA node 0 has 9 workers, but only 4 physical cores that this "
                 "process may use (CPUs 0-3); use --numa-binding=node, or give the job more CPUs "
                 "(taskset, cpuset, --cpus-per-task)"));
}

TEST_CASE("redirected streams go to files and teed ones to files and here") {
  const auto plan = planned({"--nproc-per-node=3", "--redirects=0:3", "--tee=1:1,2:2"});
  const auto& workers = plan.agent.workers;
  CHECK(workers[0].standard_output.mode == agent::StreamMode::file);
  CHECK(workers[0].standard_error.mode == agent::StreamMode::file);
  CHECK(workers[1].standard_output.mode == agent::StreamMode::pipe);
  CHECK(workers[1].standard_output.to_file);
  CHECK(workers[1].standard_output.to_console);
  CHECK_FALSE(workers[1].standard_error.to_file);
  CHECK(workers[2].standard_error.to_file);
  CHECK(plan.log_folder.wanted);
  CHECK(plan.log_folder.base.empty());
  CHECK(plan.agent.streams.prefix_template == "[rank${rank}] ");
}

TEST_CASE("a stream that is redirected and teed is teed") {
  const auto stream = planned({"--redirects=3", "--tee=3"}).agent.workers[0].standard_output;
  CHECK(stream.mode == agent::StreamMode::pipe);
  CHECK(stream.to_file);
}

TEST_CASE("ranks outside the filter are not shown but keep their files") {
  const auto plan =
      planned({"--nproc-per-node=3", "--tee=1:3", "--redirects=2:3", "--local-ranks-filter=0"});
  CHECK(plan.agent.workers[0].standard_output.mode == agent::StreamMode::pipe);
  CHECK(plan.agent.workers[0].standard_output.to_console);
  CHECK(plan.agent.workers[1].standard_output.to_file);
  CHECK_FALSE(plan.agent.workers[1].standard_output.to_console);
  CHECK(plan.agent.workers[2].standard_output.mode == agent::StreamMode::file);
}

TEST_CASE("of a hidden worker stdout goes nowhere and stderr to the verdict") {
  const auto worker = planned({"--local-ranks-filter=1"}).agent.workers[0];
  CHECK(worker.standard_output.mode == agent::StreamMode::null);
  CHECK(worker.standard_error.mode == agent::StreamMode::pipe);
  CHECK_FALSE(worker.standard_error.to_console);
}

TEST_CASE("a size cap makes redirected streams pass through us") {
  const auto stream =
      planned({"--redirects=3", "--log-max-size=1K"}).agent.workers[0].standard_output;
  CHECK(stream.mode == agent::StreamMode::pipe);
  CHECK(stream.to_file);
  CHECK_FALSE(stream.to_console);
}

TEST_CASE("prefixes are coloured on a terminal that can and for a user who likes it") {
  Machine terminal;
  terminal.terminals = true;
  CHECK_FALSE(planned({}).agent.streams.colour_stdout);
  CHECK(planned({}, terminal).agent.streams.colour_stdout);
  CHECK(planned({"--color=always"}).agent.streams.colour_stderr);
  CHECK_FALSE(planned({"--color=never"}, terminal).agent.streams.colour_stdout);
  CHECK_FALSE(planned({}, Machine(terminal).with("NO_COLOR", "1")).agent.streams.colour_stdout);
  CHECK(planned({}, Machine(terminal).with("NO_COLOR", "")).agent.streams.colour_stdout);
  CHECK_FALSE(planned({}, Machine(terminal).with("TERM", "dumb")).agent.streams.colour_stdout);
  CHECK(planned({"--colour=always"}, Machine(terminal).with("NO_COLOR", "1"))
            .agent.streams.colour_stdout);
}

TEST_CASE("the null device as log folder means no files and leaves the console as it is") {
  const auto plan = planned({"--nproc-per-node=2", "--log-dir=/dev/null", "--redirects=3"});
  CHECK_FALSE(plan.log_folder.wanted);
  CHECK(plan.agent.workers[0].standard_output.mode == agent::StreamMode::pipe);
  CHECK_FALSE(plan.agent.workers[0].standard_output.to_file);
}

TEST_CASE("a log folder alone is for the error files") {
  const auto plan = planned({"--log-dir=/logs"});
  CHECK(plan.log_folder.wanted);
  CHECK(plan.log_folder.base == "/logs");
  CHECK(plan.agent.workers[0].standard_output.mode == agent::StreamMode::inherit);
}

TEST_CASE("a stream map with missing ranks causes a harmless warning") {
  const auto plan = planned({"--tee=7:3"});
  REQUIRE(plan.warnings.size() == 1);
  CHECK_THAT(plan.warnings[0], StartsWith("--tee names local rank 7"));
}

TEST_CASE("filters without a teed stream cause a warning") {
  CHECK_THAT(planned({"--duplicate-stdout-filters=loss"}).warnings.at(0), Contains("--tee=3"));
  CHECK(planned({"--duplicate-stdout-filters=loss", "--tee=1"}).warnings.empty());
}

TEST_CASE("a prefix template counts for teed and for plain lines") {
  CHECK(planned({"--log-line-prefix-template=<${rank}>"}).agent.streams.prefix_template ==
        "<${rank}>");
  CHECK(planned({"--tee=3"}, Machine().with("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "$rank:"))
            .agent.streams.prefix_template == "$rank:");
}

TEST_CASE(
    "lines are folded on a terminal, or where the user wants it, but for those of a template") {
  Machine terminal;
  terminal.terminals = true;
  const auto folds = [](const Words& options, const Machine& machine) {
    const auto plan = planned(options, machine);
    return std::pair(plan.agent.streams.fold_stdout, plan.agent.streams.fold_stderr);
  };
  const Machine pipe;
  CHECK(folds({"--nproc-per-node=2"}, terminal) == std::pair(true, false));
  CHECK(folds({"--nproc-per-node=2"}, pipe) == std::pair(false, false));
  CHECK(folds({"--nproc-per-node=2", "--fold=always"}, pipe) == std::pair(true, true));
  CHECK(folds({"--nproc-per-node=2", "--fold=off"}, terminal) == std::pair(false, false));
  for (const std::string text : {"none", "${rank}: "}) {
    CHECK(folds({"--nproc-per-node=2", "--fold=always", "--log-line-prefix-template=" + text},
                pipe) == std::pair(false, false));
  }
}

TEST_CASE("a prefix that was typed is given to the lines of one worker, too") {
  const auto mode = [](const Words& options, const Machine& machine = Machine()) {
    return planned(options, machine).agent.workers[0].standard_output.mode;
  };
  CHECK(mode({"--log-line-prefix-template=<${rank}>"}) == agent::StreamMode::pipe);
  CHECK(mode({"--log-line-prefix-template=none"}) == agent::StreamMode::inherit);
  CHECK(mode({"--log-line-prefix-template=<${rank}>", "--output=raw"}) ==
        agent::StreamMode::inherit);
  // It is there for other jobs, too.
  CHECK(mode({}, Machine().with("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x")) ==
        agent::StreamMode::inherit);
}

TEST_CASE("lines need no prefix, and torchrun's variable may have unknown names") {
  CHECK(planned({"--log-line-prefix-template=none"}).agent.streams.prefix_template.empty());
  CHECK(planned({"--log-line-prefix-template="}).agent.streams.prefix_template == "[rank${rank}] ");
  const std::string unknown = "${rank} ${job}: ";
  CHECK(planned({}, Machine().with("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", unknown))
            .agent.streams.prefix_template == unknown);
}

TEST_CASE("virtual local ranks give each worker its own GPU, by number where none was found") {
  const auto plan = planned({"--nproc-per-node=gpu", "--virtual-local-rank"}, Machine(2));
  CHECK(plan.agent.workers[1].visible_devices == "1");
  const auto without = planned({"--nproc-per-node=2", "--virtual-local-rank"});
  CHECK(without.agent.workers[1].visible_devices == "1");
}

TEST_CASE("virtual local ranks share out a list of GPUs that cannot be looked at") {
  const auto listed = Machine().with("CUDA_VISIBLE_DEVICES", "GPU-5a, 3");
  for (const std::string option : {"--virtual-local-rank", "--gpu-visibility=own"}) {
    const auto plan = planned({"--nproc-per-node=2", option}, listed);
    CHECK(plan.agent.workers[0].visible_devices == "GPU-5a");
    CHECK(plan.agent.workers[1].visible_devices == "3");
    CHECK(refused_plan({"--nproc-per-node=3", option}, listed) ==
          option +
              ": 3 workers want a GPU each, but CUDA_VISIBLE_DEVICES=GPU-5a, 3 names 2; use "
              "--nproc-per-node=2 or name more GPUs");
  }
  // Where all GPUs are hidden it is a job on the CPU.
  for (const std::string none : {"", "-1"}) {
    const auto hidden = planned({"--nproc-per-node=2", "--virtual-local-rank"},
                                Machine().with("CUDA_VISIBLE_DEVICES", none));
    CHECK_FALSE(hidden.agent.workers[1].visible_devices.has_value());
  }
}

TEST_CASE("an old script gets its local rank as an argument and a note is printed") {
  Machine machine;
  machine.files.text("old.py", "p.add_argument('--local_rank', type=int)\n");
  const auto options = parse_launch_options({"old.py", "--lr=1"}, machine.environment);
  const auto plan = make_plan(*options, machine.environment, machine.probes());
  REQUIRE(plan.has_value());
  CHECK(plan->program.argv.back() == "--lr=1");
  CHECK(plan->program.argv.at(plan->program.argv.size() - 2) == "--local_rank=${local_rank}");
  CHECK_THAT(plan->notes.at(0), StartsWith("old.py declares --local_rank"));
}
