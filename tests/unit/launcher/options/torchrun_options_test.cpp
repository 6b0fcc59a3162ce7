// The grammars of torchrun's options: endpoints, rendezvous settings, stream maps, signals, and the
// local rank argument of torch.distributed.launch.
#include <catch2/catch.hpp>
#include <csignal>

#include "launcher/options/log_options.hpp"
#include "launcher/options/option_value.hpp"
#include "launcher/options/options.hpp"
#include "launcher/options/rdzv_conf.hpp"
#include "launcher/program/options_behind.hpp"
#include "tests/unit/launcher/fake_files.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string conf_error(std::string_view text) {
  const auto conf = parse_rdzv_conf(text);
  if (conf) FAIL("was accepted: " << text);
  return conf.error().message;
}

LaunchOptions torchrun_options(const std::vector<std::string>& arguments,
                               const Environment& environment = {}) {
  const auto options = parse_launch_options(arguments, environment);
  if (!options) FAIL(options.error().message);
  return *options;
}

std::string torchrun_refusal(const std::vector<std::string>& arguments,
                             const Environment& environment = {}) {
  const auto options = parse_launch_options(arguments, environment);
  if (options) FAIL("was accepted");
  CHECK(options.error().exit_code == 2);
  return options.error().message;
}

ProgramChoice python_script(std::vector<std::string> own) {
  ProgramChoice choice;
  choice.kind = ProgramChoice::Kind::python_script;
  choice.argv = {"/usr/bin/python3", "-u", "t.py"};
  choice.argv.insert(choice.argv.end(), own.begin(), own.end());
  return choice;
}

}  // namespace

TEST_CASE("rendezvous settings are split at commas and the first equals sign and trimmed") {
  const auto conf = parse_rdzv_conf(" timeout = 60 ,is_host=0,store_type=a=b, timeout=90");
  REQUIRE(conf.has_value());
  CHECK(conf->value("timeout") == "90");
  CHECK(conf->value("is_host") == "0");
  CHECK(conf->value("store_type") == "a=b");
  CHECK(conf->settings.size() == 3);
  CHECK(conf->warnings.empty());
  CHECK_FALSE(conf->value("read_timeout").has_value());
  CHECK(parse_rdzv_conf("")->settings.empty());
  CHECK(parse_rdzv_conf("  ")->settings.empty());
}

TEST_CASE("an unknown setting is one note with the nearest known one") {
  const auto conf = parse_rdzv_conf("jointimeout=5,join_timeot=6,colour=red,colour=blue");
  REQUIRE(conf.has_value());
  REQUIRE(conf->warnings.size() == 3);
  CHECK_THAT(conf->warnings[0],
             Contains("--rdzv-conf: unknown key jointimeout; did you mean join_timeout?"));
  CHECK_THAT(conf->warnings[1], Contains("did you mean join_timeout?"));
  CHECK_THAT(conf->warnings[2], Contains("colour; it is ignored"));
}

TEST_CASE("rendezvous settings without key or value or with a value of another kind are errors") {
  for (const std::string text : {"timeout", "=5", "timeout=", "a=1,,b=2", "timeout=5,", ","}) {
    INFO(text);
    CHECK_THAT(conf_error(text), Contains("expected KEY=VALUE"));
  }
  CHECK_THAT(conf_error("timeout=soon"), Contains("timeout is a positive number"));
  CHECK_THAT(conf_error("timeout=0"), Contains("positive"));
  CHECK_THAT(conf_error("join_timeout=-1"), Contains("positive"));
  CHECK_THAT(conf_error("is_host=maybe"), Contains("true or false"));
  CHECK_THAT(conf_error("keep_alive_max_attempt=x"), Contains("a number"));
}

TEST_CASE("a wrong endpoint is refused as it was typed, with the right form") {
  CHECK_THAT(torchrun_refusal({"--rdzv-endpoint=http://x:1", "p"}),
             StartsWith("--rdzv-endpoint=http://x:1: ") &&
                 Contains("is not a host name; expected HOST, HOST:PORT or [IPV6]:PORT"));
  CHECK_THAT(torchrun_refusal({"--rdzv-backend=c10d", "--rdzv-endpoint=a,", "p"}),
             Contains("the host is missing"));
  CHECK_THAT(torchrun_refusal({"--rdzv-endpoint=a,b", "p"}), Contains("add --rdzv-backend=c10d"));
  CHECK(torchrun_options({"--rdzv-endpoint= ", "p"}).rendezvous.endpoint->host == "localhost");
  CHECK_FALSE(torchrun_options({"--rdzv-endpoint=", "p"}).rendezvous.endpoint.has_value());
}

TEST_CASE("a stream map is one digit for all or any local ranks with theirs") {
  CHECK(parse_stream_map("0", "x")->empty());
  CHECK(parse_stream_map("3", "x")->of(70) == StreamSet{true, true});
  const auto map = parse_stream_map("0:1,12:2,0:3,4:0", "x");
  REQUIRE(map.has_value());
  CHECK(map->of(0) == StreamSet{true, true});
  CHECK(map->of(12) == StreamSet{false, true});
  CHECK(map->of(4) == StreamSet{});
  CHECK(map->of(1) == StreamSet{});
  CHECK_FALSE(map->empty());
  CHECK(parse_stream_map("1:0", "x")->empty());
}

TEST_CASE("a stream map of another form is a usage error that shows the form") {
  for (const std::string text :
       {"", "4", "-1", "0:", ":1", "0:4", "0:1,", "a:1", "-1:1", "0:11", "0=1", "70000:1"}) {
    INFO(text);
    const auto map = parse_stream_map(text, "--tee=" + text);
    REQUIRE_FALSE(map.has_value());
    CHECK_THAT(map.error().message, StartsWith("--tee=" + text) && Contains("0:3,1:2"));
  }
}

TEST_CASE("filter texts are split at single commas") {
  CHECK(parse_texts("a,b c") == std::vector<std::string>{"a", "b c"});
  CHECK(parse_texts("a,,b,c") == std::vector<std::string>{"a,b", "c"});
  CHECK(parse_texts(",,") == std::vector<std::string>{","});
  CHECK(parse_texts("").empty());
  CHECK(parse_texts(",a,").size() == 1);
}

TEST_CASE("signals are named with or without SIG in any case or numbered") {
  const auto list = parse_signals("SIGTERM,int, sigusr1 ,15,1", "x");
  CHECK(list.signals == std::vector<int>{SIGTERM, SIGINT, SIGUSR1, SIGHUP});
  CHECK(list.warnings.empty());
}

TEST_CASE("signals that cannot be handled or do not exist cause a warning and are left out") {
  const auto list = parse_signals("SIGKILL,SIGTERMM,SIGHUP,,99", "--signals-to-handle=...");
  CHECK(list.signals == std::vector<int>{SIGHUP});
  REQUIRE(list.warnings.size() == 3);
  CHECK_THAT(list.warnings[0], Contains("SIGKILL cannot"));
  CHECK_THAT(list.warnings[1], Contains("did you mean SIGTERM?"));
  CHECK_THAT(list.warnings[2], Contains("unknown signal 99; left out"));
}

TEST_CASE("an empty list of signals is refused because then nothing could end the job") {
  CHECK_THAT(torchrun_refusal({"--signals-to-handle=SIGKILL", "p"}), Contains("no signal is left"));
  CHECK_THAT(torchrun_refusal({"--signals-to-handle=FOO", "p"}),
             Contains("--signals-to-handle=FOO: unknown signal FOO; the usual ones are SIGTERM"));
  CHECK(torchrun_options({"--signals-to-handle=TERM", "p"}).failures.stop.signals ==
        std::vector<int>{SIGTERM});
  CHECK(torchrun_options({"p"}).failures.stop.signals ==
        std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
}

TEST_CASE("the shutdown timeout is the grace period under all of its names") {
  CHECK(torchrun_options({"--shutdown-timeout=7", "p"}).failures.stop.grace_period ==
        std::chrono::seconds(7));
  CHECK(torchrun_options({"--shutdown_timeout", "0", "p"}).failures.stop.grace_period.count() == 0);
  CHECK(torchrun_options({"p"}, {{"PET_SHUTDOWN_TIMEOUT", "8"}}).failures.stop.grace_period ==
        std::chrono::seconds(8));
  CHECK(torchrun_options({"p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "9"}})
            .failures.stop.grace_period == std::chrono::seconds(9));
  CHECK(torchrun_options({"--grace-period=1", "p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "9"}})
            .failures.stop.grace_period == std::chrono::seconds(1));
  CHECK_THAT(torchrun_refusal({"p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}),
             StartsWith("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=soon"));
}

TEST_CASE("Paddle's names for the GPUs are understood") {
  CHECK(torchrun_options({"--devices=0,1", "p"}).devices.gpus.list == std::vector<int>{0, 1});
  CHECK(torchrun_options({"--selected_gpus", "2", "p"}).devices.gpus.list == std::vector<int>{2});
}

TEST_CASE("every option of torchrun is taken in both spellings with its typed field") {
  const auto options = torchrun_options({"--rdzv_backend=c10d",
                                         "--rdzv-endpoint=[::1]:29400",
                                         "--rdzv_conf=timeout=5",
                                         "--nnodes=2:3",
                                         "--node_rank=1",
                                         "--local-addr=10.0.0.3",
                                         "--log_dir=/logs",
                                         "-r",
                                         "3",
                                         "-t0:1",
                                         "--local_ranks_filter=0,2",
                                         "--duplicate-stdout-filters=a,,b",
                                         "--run-path",
                                         "--duplicate_stderr_filters=c,d",
                                         "--numa-binding=core-complex",
                                         "--virtual_local_rank",
                                         "--worker-store=rank0",
                                         "--store-allow-uid=1000,1001",
                                         "--omp-threads=4",
                                         "p"});
  CHECK(options.rendezvous.backend == "c10d");
  CHECK(options.rendezvous.endpoint->host == "::1");
  CHECK(options.rendezvous.conf.value("timeout") == "5");
  CHECK(options.nodes.count.min == 2);
  CHECK(options.nodes.count.max == 3);
  CHECK(options.nodes.rank == 1);
  CHECK(options.nodes.local_addr == "10.0.0.3");
  CHECK(options.output.logs.folder == "/logs");
  CHECK(options.output.logs.redirects.of(5) == StreamSet{true, true});
  CHECK(options.output.logs.tee.of(0) == StreamSet{true, false});
  CHECK(options.output.logs.console_ranks == std::vector<int>{0, 2});
  CHECK(options.output.logs.lines.stdout_filters == std::vector<std::string>{"a,b"});
  CHECK(options.output.logs.lines.stderr_filters == std::vector<std::string>{"c", "d"});
  CHECK(options.program.run_path);
  CHECK(options.workers.numa_binding == machine::NumaBinding::core_complex);
  CHECK(options.devices.virtual_local_rank);
  CHECK(options.devices.gpu_visibility == GpuVisibility::own);
  CHECK(options.store.host == WorkerStore::rank0);
  CHECK(options.store.users.uids == std::vector<unsigned>{1000, 1001});
  CHECK(options.workers.omp_threads.number == 4);
  CHECK(options.warnings.empty());
}

TEST_CASE("options that torchrun does not combine are refused with a remedy") {
  CHECK_THAT(torchrun_refusal({"--node-rank=1", "p"}), Contains("only node rank 0"));
  CHECK_THAT(torchrun_refusal({"--rdzv-backend=zookeeper", "p"}), Contains("static, c10d"));
  CHECK_THAT(torchrun_refusal({"--run-path", "-m", "p"}), Contains("exclude each other"));
  CHECK_THAT(torchrun_refusal({"--local-ranks-filter=0,x", "p"}), Contains("local ranks"));
  CHECK_THAT(torchrun_refusal({"--redirects=9", "p"}), Contains("--redirects=9"));
  CHECK_THAT(torchrun_refusal({"--rdzv-conf=x", "p"}), Contains("KEY=VALUE"));
}

TEST_CASE("Python plug-ins are accepted with one note on why they have no effect") {
  const auto options = torchrun_options({"--logs-specs=mine", "--event-log-handler=console", "p"});
  REQUIRE(options.warnings.size() == 2);
  CHECK_THAT(options.warnings[0], Contains("no effect here"));
}

TEST_CASE("a script that declares a local rank option is recognized by its declaration only") {
  const auto declared = [](std::string_view source) {
    return declared_local_rank_option(source).value_or("");
  };
  CHECK(declared("parser.add_argument('--local_rank', type=int)") == "--local_rank");
  CHECK(declared("parser.add_argument(\n    \"--local-rank\",\n    type=int)") == "--local-rank");
  CHECK(declared("p.add_argument('-l', '--local_rank', default=-1)") == "--local_rank");
  CHECK(declared("p.add_argument('--local-rank', '--local_rank')") == "--local-rank");
  CHECK(declared("@click.option('--local_rank')\ndef main(): pass") == "--local_rank");
  CHECK(declared("import torch\n").empty());
  CHECK(declared("# parser.add_argument('--local_rank')").empty());
  CHECK(declared("cmd = ['torchrun', '--local_rank', '3']").empty());
  CHECK(declared("p.add_argument('--rank', help='not --local_rank')").empty());
  CHECK(declared("p.add_argument('--rank', help='x'); run('--local_rank')").empty());
  CHECK(declared("p.add_argument('--local_rank_of_host')").empty());
  CHECK(declared("").empty());
}

TEST_CASE("a local rank argument goes before the script's own and never where one is given") {
  test::FakeFiles files;
  files.text("t.py", "p.add_argument('--local_rank')");
  using enum LocalRankArgument;
  const auto argv = [&](LocalRankArgument wanted, const std::vector<std::string>& own) {
    ProgramChoice choice = python_script(own);
    add_local_rank_argument(choice, own.size(), wanted, files);
    return std::vector<std::string>(choice.argv.begin() + 3, choice.argv.end());
  };
  using Words = std::vector<std::string>;
  CHECK(argv(automatic, {"--lr=1"}) == Words{"--local_rank=${local_rank}", "--lr=1"});
  CHECK(argv(dash, {}) == Words{"--local-rank=${local_rank}"});
  CHECK(argv(underscore, {}) == Words{"--local_rank=${local_rank}"});
  CHECK(argv(none, {}).empty());
  CHECK(argv(automatic, {"--local_rank=7"}) == Words{"--local_rank=7"});
  CHECK(argv(dash, {"--local_rank", "7"}) == Words{"--local_rank", "7"});
  CHECK(torchrun_options({"--use_env", "p"}).program.local_rank_argument == none);
  CHECK(torchrun_options({"--local-rank-argument=dash", "p"}).program.local_rank_argument == dash);
}

TEST_CASE("a module under the current folder is searched for a local rank option") {
  test::FakeFiles files;
  files.text("pk/lm.py", "p.add_argument('--local-rank')");
  files.text("pk/app/__main__.py", "p.add_argument('--local_rank')");
  const auto added = [&](const std::string& module) {
    ProgramChoice choice;
    choice.kind = ProgramChoice::Kind::python_module;
    choice.argv = {"python3", "-m", module};
    add_local_rank_argument(choice, 0, LocalRankArgument::automatic, files);
    return choice.argv.size() == 4 ? choice.argv.back() : "";
  };
  CHECK(added("pk.lm") == "--local-rank=${local_rank}");
  CHECK(added("pk.app") == "--local_rank=${local_rank}");
  CHECK(added("installed.elsewhere").empty());
}

TEST_CASE("only Python is searched for a local rank option") {
  test::FakeFiles files;
  files.text("a.out", "p.add_argument('--local_rank')");
  ProgramChoice choice;
  choice.kind = ProgramChoice::Kind::file;
  choice.argv = {"a.out"};
  CHECK(add_local_rank_argument(choice, 0, LocalRankArgument::automatic, files).empty());
  CHECK(choice.argv.size() == 1);
  add_local_rank_argument(choice, 0, LocalRankArgument::dash, files);
  CHECK(choice.argv.size() == 2);
}
