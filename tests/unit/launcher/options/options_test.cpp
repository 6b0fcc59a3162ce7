#include "launcher/options/options.hpp"

#include <catch2/catch.hpp>

using namespace ddprun::launcher;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

LaunchOptions accepted_options(const std::vector<std::string>& arguments,
                               const Environment& environment = {}) {
  const auto options = parse_launch_options(arguments, environment);
  if (!options) FAIL(options.error().message);
  return *options;
}

std::string refused_options(const std::vector<std::string>& arguments,
                            const Environment& environment = {}) {
  const auto options = parse_launch_options(arguments, environment);
  if (options) FAIL("was accepted");
  CHECK(options.error().exit_code == 2);
  return options.error().message + options.error().more;
}

}  // namespace

TEST_CASE("an unknown option that rdzvd has is answered with its name") {
  for (const std::string name : {"--status", "--fence", "--state_dir", "--listen"}) {
    CHECK(refused_options({name + "=x", "p"}) ==
          "unknown option " + name +
              "; rdzvd has one of this name (PROGRAM's own options go after PROGRAM)");
  }
  CHECK_THAT(refused_options({"--run_id=x", "p"}), Contains("did you mean --rdzv-id=x?"));
}

TEST_CASE("an option of train before PROGRAM is answered with its place") {
  const std::string answer =
      "--epochs is an option of train: put it behind PROGRAM, as in ddprun train --epochs";
  CHECK(refused_options({"--epochs=3", "train"}) == answer + "=3");
  CHECK(refused_options({"--epochs", "3", "train"}) == answer + "=3");
  CHECK(refused_options({"--epochs", "train"}) == answer + " ...");
  CHECK(refused_options({"--precision", "bf16", "train"}) ==
        "--precision is an option of train: put it behind PROGRAM, as in ddprun train --precision "
        "...");
  CHECK_THAT(refused_options({"--max_steps=3", "train"}), StartsWith("--max-steps is an option"));
  CHECK_THAT(refused_options({"--out", "runs", "train"}),
             StartsWith("--out=runs: expected prefix") && Contains("(--out is an option of train"));
  CHECK(accepted_options({"--out=raw", "train"}).output.mode == OutputMode::raw);
  // Other programs have options of the same names.
  CHECK_THAT(refused_options({"--lr", "0.1", "x.py"}),
             StartsWith("unknown option --lr; ") && !Contains("option of train") &&
                 Contains("PROGRAM's own options go after PROGRAM"));
}

TEST_CASE("options that have no effect beside the others cause a warning each") {
  using Lines = std::vector<std::string>;
  const auto warnings = [](std::vector<std::string> arguments,
                           const Environment& environment = {}) {
    arguments.emplace_back("p");
    return accepted_options(arguments, environment).warnings;
  };
  CHECK(warnings(
            {"--restart-window=60", "--restart-delay=1", "--min-uptime=3", "--no-restart-on=4"}) ==
        Lines{"--restart-window=60 has no effect here: nothing is restarted without "
              "--max-restarts=N",
              "--restart-delay=1 has no effect here: nothing is restarted without --max-restarts=N",
              "--min-uptime=3 has no effect here: nothing is restarted without --max-restarts=N",
              "--no-restart-on=4 has no effect here: nothing is restarted without "
              "--max-restarts=N"});
  CHECK(warnings({"--grow-delay=1", "--max-node-changes=2"}) ==
        Lines{"--max-node-changes=2 has no effect here: the job has one node",
              "--grow-delay=1 has no effect here: the job has one node"});
  CHECK(warnings({"--rdzv-tls-ca=a", "--rdzv-tls-cert=b", "--rdzv-tls-key=c"}).size() == 3);
  CHECK(warnings({"--rdzv-tls"}) == Lines{"--rdzv-tls has no effect here: the job has one node"});
  CHECK(warnings({"--nnodes=1:4", "--standalone", "--grow-delay=1"}).size() == 1);
  CHECK(warnings({"--on-silence=report"}) ==
        Lines{"--on-silence=report has no effect here: no silence is looked for without "
              "--log-timeout=SECONDS"});
  CHECK(warnings({"--log-keep=3"}) ==
        Lines{"--log-keep=3 has no effect here: log files have no limit without "
              "--log-max-size=SIZE"});
  CHECK(
      warnings({"--log-max-size=1M", "--log-dir=logs"}) ==
      Lines{"--log-max-size=1M has no effect here: no output goes to files without --redirects or "
            "--tee"});
  CHECK(warnings({"--preflight-timeout=9"}) ==
        Lines{"--preflight-timeout=9 has no effect here: no check runs without "
              "--preflight=COMMAND"});

  CHECK(warnings({"--max-restarts=1", "--restart-window=60", "--restart-delay=1"}).empty());
  CHECK(warnings({"--nnodes=2", "--restart-delay=1"}).empty());
  CHECK(warnings({"--log-timeout=9", "--on-silence=report"}).empty());
  CHECK(warnings({"--log-max-size=1M", "--log-keep=3", "-r", "3"}).empty());
  CHECK(warnings({"--log-max-size=1M", "--tee=1:3"}).empty());
  CHECK(warnings({"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--standalone"}).empty());
  CHECK(warnings({"--rdzv-auth=required", "--rdzv-secret-file=s"}).empty());
}

TEST_CASE("the check of a node is a command, and has a time of its own") {
  const auto options =
      accepted_options({"--preflight=nvidia-smi && true", "--preflight-timeout=2m", "t.py"});
  CHECK(options.failures.preflight == "nvidia-smi && true");
  CHECK(options.failures.preflight_timeout == 2min);
  CHECK(accepted_options({"t.py"}).failures.preflight_timeout == 5min);
  const auto problem = [](const std::string& option) {
    const auto refused = parse_launch_options({option, "--preflight=true", "t.py"}, {});
    return refused ? std::string() : refused.error().message;
  };
  CHECK(problem("--preflight-timeout=0") ==
        "--preflight-timeout=0: no command ends within 0 s; without --preflight there is no check");
  const auto empty = parse_launch_options({"--preflight= ", "t.py"}, {});
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error().message == "--preflight= : expected a command, as in --preflight=nvidia-smi");
}

TEST_CASE("without options one worker is started and nothing is restarted") {
  const auto options = accepted_options({"train", "--lr", "1"});
  CHECK(options.request == Request::run);
  CHECK(options.workers.processes.kind == ProcessCount::Kind::number);
  CHECK(options.workers.processes.number == 1);
  CHECK_FALSE(options.workers.processes.given);
  CHECK(options.failures.restart.max_restarts == 0);
  CHECK(options.failures.restart.back_off_max == ddprun::rdzv::kAutoBackOffMax);
  CHECK_FALSE(options.nodes.standalone);
  CHECK(options.store.master_addr.empty());
  CHECK_FALSE(options.store.master_port.has_value());
  CHECK_FALSE(options.rendezvous.run_id.has_value());
  CHECK(options.workers.role == "default");
  CHECK_FALSE(options.program.module);
  CHECK_FALSE(options.program.no_python);
  CHECK(options.program.name == "train");
  CHECK(options.program.arguments == std::vector<std::string>{"--lr", "1"});
  CHECK(options.devices.gpus.kind == GpuSelection::Kind::all);
  CHECK_FALSE(options.devices.gpus.given);
  CHECK(options.devices.gpu_visibility == GpuVisibility::all);
  CHECK_FALSE(options.output.mode.has_value());
  CHECK(options.output.standard_input == StdinMode::rank0);
  CHECK(options.failures.stop.grace_period == std::chrono::seconds(30));
  CHECK(options.failures.watch.progress_timeout == std::chrono::seconds(0));
  CHECK(options.failures.watch.log_timeout == std::chrono::seconds(0));
  CHECK(options.log_level == LogLevel::warning);
  CHECK(options.warnings.empty());
}

TEST_CASE("every option finds its typed field") {
  const auto options = accepted_options(
      {"--nproc_per_node=4", "--nnodes=1:1", "--role=trainer", "--max-restarts=3", "--standalone",
       "--master-addr=10.0.0.1", "--master-port=2950", "--rdzv-id=job7", "--no-python",
       "--gpus=2,0", "--gpu-visibility=own", "--output=pty", "--stdin=none", "--grace-period=0.5",
       "--progress-timeout=2m", "--log-timeout=0.25", "--log-level=debug", "./a.out"});
  CHECK(options.workers.processes.given);
  CHECK(options.workers.processes.number == 4);
  CHECK(options.workers.role == "trainer");
  CHECK(options.failures.restart.max_restarts == 3);
  CHECK(options.nodes.standalone);
  CHECK(options.store.master_addr == "10.0.0.1");
  CHECK(options.store.master_port == 2950);
  CHECK(options.rendezvous.run_id == "job7");
  CHECK(options.program.no_python);
  CHECK(options.devices.gpus.kind == GpuSelection::Kind::list);
  CHECK(options.devices.gpus.given);
  CHECK(options.devices.gpus.list == std::vector<int>{2, 0});
  CHECK(options.devices.gpu_visibility == GpuVisibility::own);
  CHECK(options.output.mode == OutputMode::pty);
  CHECK(options.output.standard_input == StdinMode::none);
  CHECK(options.failures.stop.grace_period == std::chrono::milliseconds(500));
  CHECK(options.failures.watch.progress_timeout == std::chrono::minutes(2));
  CHECK(options.failures.watch.log_timeout == std::chrono::milliseconds(250));
  CHECK(options.log_level == LogLevel::debug);
  CHECK(accepted_options({"-m", "package.module"}).program.module);
}

TEST_CASE("every choice of an option has its own typed value") {
  CHECK(accepted_options({"--output=prefix", "p"}).output.mode == OutputMode::prefix);
  CHECK(accepted_options({"--output=raw", "p"}).output.mode == OutputMode::raw);
  CHECK(accepted_options({"--output=pipe", "p"}).output.mode == OutputMode::pipe);
  CHECK(accepted_options({"--stdin=rank0", "p"}).output.standard_input == StdinMode::rank0);
  CHECK(accepted_options({"--stdin=all", "p"}).output.standard_input == StdinMode::all);
  CHECK(accepted_options({"--gpu-visibility=all", "p"}).devices.gpu_visibility ==
        GpuVisibility::all);
  CHECK(accepted_options({"--gpus=none", "p"}).devices.gpus.kind == GpuSelection::Kind::none);
  CHECK(accepted_options({"--gpus=all", "p"}).devices.gpus.kind == GpuSelection::Kind::all);
  CHECK(accepted_options({"--gpus=free", "p"}).devices.gpus.kind == GpuSelection::Kind::free);
  CHECK(accepted_options({"--gpus=free", "p"}).devices.gpus.count == 0);
  CHECK(accepted_options({"--gpus=free:2", "p"}).devices.gpus.kind == GpuSelection::Kind::free);
  CHECK(accepted_options({"--gpus=free:2", "p"}).devices.gpus.count == 2);
  CHECK(accepted_options({"--log-level=trace", "p"}).log_level == LogLevel::trace);
  CHECK(accepted_options({"--log-level=info", "p"}).log_level == LogLevel::info);
  CHECK(accepted_options({"--log-level=error", "p"}).log_level == LogLevel::error);
  CHECK(accepted_options({"--log-level=off", "p"}).log_level == LogLevel::off);
  CHECK(accepted_options({"--log-level=WARN", "p"}).log_level == LogLevel::warning);
  CHECK(accepted_options({"--log-level=critical", "p"}).log_level == LogLevel::error);
  CHECK(accepted_options({"--nproc-per-node=auto", "p"}).workers.processes.kind ==
        ProcessCount::Kind::automatic);
  CHECK(accepted_options({"--nproc-per-node=cpu", "p"}).workers.processes.kind ==
        ProcessCount::Kind::cpu);
}

TEST_CASE("a restart's wait is a time, none, or automatic") {
  CHECK(accepted_options({"--restart-delay=auto", "p"}).failures.restart.back_off_max ==
        ddprun::rdzv::kAutoBackOffMax);
  CHECK(accepted_options({"--restart-delay=0", "p"}).failures.restart.back_off ==
        std::chrono::seconds(0));
  CHECK(accepted_options({"--restart-delay=2m", "p"}).failures.restart.back_off ==
        std::chrono::minutes(2));
}

TEST_CASE("silence restarts only where it is looked for") {
  CHECK(accepted_options({"--log-timeout=9", "p"}).failures.watch.on_silence == OnSilence::report);
  CHECK(accepted_options({"--log-timeout=9", "--on-silence=restart", "p"})
            .failures.watch.on_silence == OnSilence::restart);
  CHECK_THAT(refused_options({"--on-silence=restart", "p"}), Contains("--log-timeout=SECONDS"));
}

TEST_CASE("torchrun's customary command line is understood") {
  const auto options = accepted_options(
      {"--standalone", "--nnodes", "1", "--nproc_per_node", "2", "train.py", "--epochs", "3"});
  CHECK(options.nodes.standalone);
  CHECK(options.workers.processes.number == 2);
  CHECK(options.program.name == "train.py");
}

TEST_CASE("the abbreviation that torchrun calls ambiguous is the one option it can only be") {
  CHECK(accepted_options({"--nproc=2", "p"}).workers.processes.number == 2);
}

TEST_CASE("requests that print something need no PROGRAM") {
  CHECK(accepted_options({"--help"}).request == Request::help);
  CHECK(accepted_options({"-h"}).request == Request::short_help);
  CHECK(accepted_options({"--version"}).request == Request::version);
  CHECK(accepted_options({"--man"}).request == Request::man_page);
  CHECK(accepted_options({"--man"}).texts.man_format == "roff");
  CHECK(accepted_options({"--man=markdown"}).texts.man_format == "markdown");
  CHECK(accepted_options({"--completion=zsh"}).request == Request::completion);
  CHECK(accepted_options({"--completion=zsh"}).texts.completion_shell == "zsh");
  CHECK(accepted_options({"--nnodes=9", "--help"}).request == Request::help);
}

TEST_CASE("a dry run is text unless it asks for JSON") {
  CHECK(accepted_options({"--dry-run", "p"}).request == Request::dry_run);
  CHECK(accepted_options({"--dry-run=json", "p"}).request == Request::dry_run_json);
  CHECK(accepted_options({"--dry_run=text", "p"}).request == Request::dry_run);
}

TEST_CASE("what a user typed controls no terminal in a message and begins no line there") {
  CHECK_THAT(refused_options({"--nproc-per-node=\x1b[31m2\n", "p"}),
             StartsWith("--nproc-per-node=\\x1b[31m2\\n: expected"));
  CHECK_THAT(refused_options({"--a\nb", "p"}), StartsWith("unknown option --a\\nb"));
  CHECK_THAT(refused_options({"--log_dir", "a\rb"}),
             StartsWith("PROGRAM is missing (--log_dir took a\\rb)\nUsage: "));
}

TEST_CASE("a missing PROGRAM is refused with a short usage") {
  CHECK_THAT(refused_options({}),
             StartsWith("PROGRAM is missing\nUsage: ddprun [OPTIONS] PROGRAM [ARGUMENTS...]"));
  CHECK_THAT(refused_options({"--nproc-per-node=2"}), StartsWith("PROGRAM is missing"));
  CHECK_THAT(refused_options({"--dry-run"}), StartsWith("PROGRAM is missing"));
  CHECK_THAT(refused_options({"--log_dir", "out.py"}),
             StartsWith("PROGRAM is missing (--log_dir took out.py)\nUsage: "));
  CHECK_THAT(refused_options({"--nproc-per-node", "2"}), StartsWith("PROGRAM is missing\n"));
  CHECK_THAT(refused_options({"--"}), StartsWith("PROGRAM is missing"));
  CHECK_THAT(refused_options({""}), Contains("shell variable"));
}

TEST_CASE("an option that took PROGRAM as its value is an error that tells how to type both") {
  CHECK(refused_options({"--max-restarts", "plain.py", "--lr=3"}) ==
        "--max-restarts=plain.py: expected a whole number, 0 or more; if plain.py is PROGRAM, type "
        "--max-restarts=N plain.py");
  CHECK_THAT(refused_options({"--output", "train"}),
             EndsWith("; if train is PROGRAM, type --output=prefix|raw|pty|pipe train"));
  CHECK_THAT(refused_options({"--log-timeout", "bin/app", "-x"}),
             EndsWith("; if bin/app is PROGRAM, type --log-timeout=SECONDS bin/app"));
  CHECK_THAT(refused_options({"-t", "plain.py"}),
             StartsWith("PROGRAM is missing (-t took plain.py)"));
  CHECK_THAT(refused_options({"--nnodes", "plain.py"}),
             StartsWith("PROGRAM is missing (--nnodes took plain.py)"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--max-restarts=plain.py", "p"},
        {"--max-restarts", "x", "p"},
        {"--max-restarts", "1.5", "p"},
        {"--log-timeout", "3/4"}})
    CHECK_THAT(refused_options(words), !Contains("PROGRAM"));
}

TEST_CASE("the accelerators of five vendors are counted, others are refused") {
  for (const std::string word : {"gpu", "xpu", "npu", "hpu"}) {
    const auto options = accepted_options({"--nproc-per-node=" + word, "p"});
    CHECK(options.workers.processes.kind == ProcessCount::Kind::devices);
    CHECK(options.workers.processes.word == word);
  }
  for (const std::string word : {"mps", "mtia", "TPU"}) {
    CHECK(refused_options({"--nproc-per-node=" + word, "p"}) ==
          "--nproc-per-node=" + word +
              ": ddprun cannot count such devices (only gpu, xpu, npu and hpu); give the number of "
              "workers, as in --nproc-per-node=4");
  }
}

TEST_CASE("Paddle's options mean what they mean there, or have no effect") {
  const auto options =
      accepted_options({"--master=10.0.0.1:6070", "--rank=0", "--nnodes=1", "--nproc_per_node=2",
                        "--job_id=bert", "--log_level=INFO", "--log_dir=log", "--devices=0,1",
                        "--max_restart=3", "--run_mode=collective", "--host=10.0.0.1", "train.py"});
  CHECK(options.warnings.empty());
  CHECK(options.rendezvous.run_id == "bert");
  CHECK(options.failures.restart.max_restarts == 3);
  CHECK(options.log_level == LogLevel::info);
  CHECK(options.devices.gpus.list == std::vector<int>{0, 1});
  REQUIRE(options.rendezvous.endpoint.has_value());
  CHECK(options.rendezvous.endpoint->host == "10.0.0.1");
  const auto no_effect =
      accepted_options({"--ips=10.0.0.1", "--elastic_timeout=30", "--xpus=0,1", "train.py"});
  CHECK(no_effect.warnings.size() == 3);
  CHECK(refused_options({"--ips=10.0.0.1,10.0.0.2", "p"}) ==
        "--ips=10.0.0.1,10.0.0.2: type --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=10.0.0.1 "
        "instead, the same on each node");
  CHECK_THAT(refused_options({"--run_mode=ps", "p"}), Contains("expected collective"));
  const auto backend = accepted_options({"--backend=gloo", "--heter_devices=gpu", "p"});
  REQUIRE(backend.warnings.size() == 2);
  CHECK_THAT(backend.warnings[0], StartsWith("--backend=gloo has no effect here: the workers"));
  // That would be torchrun's --rdzv-backend.
  CHECK_THAT(refused_options({"--backend=c10d", "p"}), Contains("expected auto"));
}

TEST_CASE("a report without a file is refused") {
  CHECK(accepted_options({"--report=r.json", "p"}).report.file == "r.json");
  CHECK_THAT(refused_options({"--report=", "p"}), StartsWith("--report=: expected a file"));
}

TEST_CASE("an impossible number of workers is refused before anything is looked at") {
  for (const std::string bad : {"0", "-1", "two", "1.5", "", "gpus"}) {
    CHECK_THAT(
        refused_options({"--nproc-per-node=" + bad, "p"}),
        StartsWith("--nproc-per-node=" + bad +
                   ": expected a whole number, 1 or more, or auto, cpu, gpu, xpu, npu or hpu"));
  }
  CHECK_THAT(refused_options({"--nproc-per-node=100000", "p"}), Contains("at most 65536"));
  CHECK_THAT(refused_options({"p"}, {{"PET_NPROC_PER_NODE", "0"}}),
             StartsWith("PET_NPROC_PER_NODE=0: expected"));
}

TEST_CASE("numbers out of their range are refused") {
  CHECK_THAT(refused_options({"--master-port=65536", "p"}), Contains("at most 65535"));
  CHECK_THAT(refused_options({"--master-port=-1", "p"}), Contains("0 or more"));
  CHECK_THAT(refused_options({"--max-restarts=-1", "p"}), Contains("0 or more"));
  CHECK_THAT(refused_options({"--restart-delay=autp", "p"}), Contains("did you mean auto?"));
  CHECK_THAT(refused_options({"--max-restarts=9999999999", "p"}), Contains("at most"));
  CHECK_THAT(refused_options({"--gpus=0,0", "p"}), Contains("each once"));
  CHECK_THAT(refused_options({"--gpus=-1", "p"}), Contains("numbers from 0"));
  for (const std::string bad :
       {"free:0", "free:", "free:N", "free:-1", "free:x", "none:1", "free:9999999"})
    CHECK_THAT(refused_options({"--gpus=" + bad, "p"}), Contains("all, none, free or free:N"));
  CHECK_THAT(refused_options({"--gpus=0,", "p"}), Contains("numbers from 0"));
}

TEST_CASE("a module can not be started without Python") {
  CHECK_THAT(refused_options({"-m", "--no-python", "p"}), Contains("exclude each other"));
}

TEST_CASE("torchrun's default run id, the text none, counts as not given") {
  CHECK_FALSE(accepted_options({"--rdzv-id=none", "p"}).rendezvous.run_id.has_value());
  CHECK_FALSE(accepted_options({"--rdzv-id=", "p"}).rendezvous.run_id.has_value());
  CHECK(accepted_options({"p"}, {{"PET_RDZV_ID", "a"}}).rendezvous.run_id == "a");
}

TEST_CASE("PET variables are defaults for their options") {
  const auto options = accepted_options({"--max-restarts=1", "p"}, {{"PET_NPROC_PER_NODE", "3"},
                                                                    {"PET_MAX_RESTARTS", "9"},
                                                                    {"PET_STANDALONE", "1"},
                                                                    {"PET_MASTER_PORT", "1234"},
                                                                    {"PET_MODULE", "0"}});
  CHECK(options.workers.processes.number == 3);
  CHECK(options.failures.restart.max_restarts == 1);
  CHECK(options.nodes.standalone);
  CHECK(options.store.master_port == 1234);
  CHECK_FALSE(options.program.module);
}

TEST_CASE("LOGLEVEL counts where --log-level is absent, by name or number, and never fails") {
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "DEBUG"}}).log_level == LogLevel::debug);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "FATAL"}}).log_level == LogLevel::error);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "info"}}).log_level == LogLevel::info);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "20"}}).log_level == LogLevel::info);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "10"}}).log_level == LogLevel::debug);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "50"}}).log_level == LogLevel::error);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "chatty"}}).log_level == LogLevel::warning);
  CHECK(accepted_options({"p"}, {{"LOGLEVEL", "0"}}).log_level == LogLevel::warning);
  CHECK(accepted_options({"--log-level=off", "p"}, {{"LOGLEVEL", "DEBUG"}}).log_level ==
        LogLevel::off);
}

TEST_CASE("torchrun's options without effect here are noted") {
  const auto options = accepted_options({"--monitor-interval=0.1", "--start-method=fork", "p"});
  REQUIRE(options.warnings.size() == 2);
  CHECK_THAT(options.warnings[0], StartsWith("--monitor-interval=0.1 has no effect here"));
  CHECK_THAT(options.warnings[1], StartsWith("--start-method=fork has no effect here"));
}
