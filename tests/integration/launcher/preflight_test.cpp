// Nodes that run a command before they take part, and one that steps back: real ddprun processes.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/exit_codes.hpp"
#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Words = std::multiset<std::string>;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string content(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a check that passes is shown, and what it has left is killed before workers start") {
  Job job;
  const auto result = job.run(
      {"--preflight=echo GPU 0 is well; printf 'no line end'; sleep 1000 & setsid sleep 1000 &",
       "--nproc-per-node=2"},
      {"print", "worker"});
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK(has(result.err, "[preflight] GPU 0 is well\n"));
  CHECK(has(result.err, "[preflight] no line end\n"));
  CHECK(has(result.err, "ddprun: this node has passed its check (--preflight) in "));
  CHECK_FALSE(has(result.err, "left processes"));
  CHECK(has(result.out, "worker"));
}

TEST_CASE("no worker starts on a node that fails its check, which has an exit code of its own") {
  Job job;
  std::string command = "echo no GPU >&2; exit 3";
  std::string why = "exited with code 3: no GPU";
  std::vector<std::string> more;
  SECTION("it exits") {}
  SECTION("it is killed") {
    command = "kill -9 $$";
    why = "killed by SIGKILL (signal 9)";
  }
  SECTION("it is not found") {
    command = "no-such-check";
    why = "exited with code 127: ";
  }
  SECTION("it takes too long, and has left its session") {
    command = "echo begun; setsid sleep 1000 & sleep 1000";
    why = "not finished within 300 ms (--preflight-timeout): begun";
    more = {"--preflight-timeout=0.3"};
  }
  more.push_back("--preflight=" + command);
  const auto result = job.run(more, {"print", "worker"});
  INFO(result.err);
  CHECK(result.status == kExitUnsound);
  const std::string told = " failed its check (--preflight): " + why;
  CHECK(has(result.err, told));
  CHECK(result.err.find(told) == result.err.rfind(told));  // once
  CHECK_FALSE(has(result.out, "worker"));
}

TEST_CASE("whatever ends ddprun ends a check that runs, with all that it has started") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGKILL);
  CAPTURE(signal);
  Job job;
  Child ddprun(
      Job::command({"--preflight=echo begun; setsid sleep 1000 & sleep 1000"}, {"print", "worker"}),
      job.settings());
  REQUIRE(ddprun.wait_for(
      [](const auto&, const auto& err) { return has(err, "[preflight] begun\n"); }));
  ddprun.signal(signal);
  const auto result = ddprun.wait();
  INFO(result.err);
  CHECK(result.status == 128 + signal);
  CHECK(eventually([&] { return processes_with(job.mark_entry()).empty(); }));
  CHECK_FALSE(has(result.out, "worker"));
}

TEST_CASE("a node that fails its check gets no rank, and the report names it") {
  ManyNodes job;
  TempDir folder;
  const std::string report = (folder / "report.json").string();
  auto options = job.c10d("2");
  options.push_back("--report=" + report);
  options.push_back("--preflight=true");
  Child& first = job.start(options);
  REQUIRE(
      first.wait_for([](const auto&, const auto& err) { return has(err, "passed its check"); }));
  auto broken = job.c10d("2");
  broken.push_back("--preflight=echo GPU 3 is gone; exit 4");
  CHECK(job.start(broken).wait().status == kExitUnsound);
  REQUIRE(first.wait_for([](const auto&, const auto& err) {
    return has(err, "failed its check (--preflight): exited with code 4: GPU 3 is gone");
  }));
  auto sound = job.c10d("2");
  sound.push_back("--preflight=true");
  job.start(sound);
  const auto ended = first.wait();
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(job.nodes[2].wait().status == 0);
  const auto json = nlohmann::json::parse(content(report));
  REQUIRE(json["unsound_nodes"].size() == 1);
  CHECK(json["unsound_nodes"][0]["reason"] ==
        "failed its check (--preflight): exited with code 4: GPU 3 is gone");
  CHECK(json["unsound_nodes"][0]["times"] == 1);
  CHECK(processes_with(job.job.mark_entry()).empty());
}

TEST_CASE("a spare is checked again before it takes a lost node's place") {
  ManyNodes job;
  TempDir folder;
  const auto passes_once = [&](const std::string& name, int times) {
    const std::string file = (folder / name).string();
    auto options = job.c10d("2");
    options.push_back("--preflight=echo x >> " + file + "; test $(wc -l < " + file + ") -le " +
                      std::to_string(times));
    return options;
  };
  const auto is_spare = [](const auto&, const auto& err) { return has(err, "waits as a spare"); };
  const std::vector<std::string> until{"until", job.gate()};
  Child& host = job.start(passes_once("host", 1), until);
  REQUIRE(host.wait_for([](const auto&, const auto& err) { return has(err, "passed its check"); }));
  Child& lost = job.start(passes_once("lost", 1), until);
  REQUIRE(lost.wait_for_output("met rank="));
  Child& unsound = job.start(passes_once("unsound", 1), until);
  REQUIRE(unsound.wait_for(is_spare));
  Child& sound = job.start(passes_once("sound", 2), until);
  REQUIRE(sound.wait_for(is_spare));
  lost.signal(SIGKILL);
  CHECK(unsound.wait().status == kExitUnsound);
  REQUIRE(sound.wait_for_output("met rank="));
  job.open_gate();
  CHECK(host.wait().status == 0);
  CHECK(sound.wait().status == 0);
  CHECK(said(unsound.out(), "rank").empty());
  CHECK(content(folder / "host") == "x\n");  // it never was a spare
  CHECK(content(folder / "sound") == "x\nx\n");
  static_cast<void>(lost.wait());
  CHECK(processes_with(job.job.mark_entry()).empty());
}

TEST_CASE("a node that fails twice in a row gives its place to a spare, and the report names it") {
  ManyNodes job;
  TempDir folder;
  const std::string report = (folder / "report.json").string();
  const std::string end = (folder / "end").string();
  const std::vector<std::string> actions{"until", job.gate(), "fail", "0", "0",     "3",
                                         "fail",  "0",        "1",    "3", "until", end};
  auto options = job.c10d("2");
  options.push_back("--max-restarts=3");
  options.push_back("--restart-delay=0");
  Child& failing = job.start(options, actions);  // it has the rendezvous, too
  REQUIRE(failing.wait_for(
      [](const auto&, const auto& err) { return has(err, "1 of 2 nodes have joined"); }));
  auto with_report = options;
  with_report.push_back("--report=" + report);
  Child& other = job.start(with_report, actions);
  REQUIRE(other.wait_for_output("met rank="));
  Child& spare = job.start(options, actions);
  REQUIRE(
      spare.wait_for([](const auto&, const auto& err) { return has(err, "waits as a spare"); }));
  job.open_gate();
  const std::string why =
      " gave its place to a spare: 2 rounds in a row failed on this node; the last one: rank "
      "0";
  REQUIRE(failing.wait_for([&](const auto&, const auto& err) {
    return has(err, why) && has(err, "this one waits as a spare\n");
  }));
  REQUIRE(spare.wait_for_output("met rank="));
  std::ofstream(end) << "x";
  const auto stepped_back = failing.wait();
  const auto reporter = other.wait();
  const auto promoted = spare.wait();
  INFO(stepped_back.err + reporter.err + promoted.err);
  CHECK(stepped_back.status == 0);
  CHECK(reporter.status == 0);
  CHECK(promoted.status == 0);
  CHECK(stepped_back.err.find(why) == stepped_back.err.rfind(why));
  CHECK(has(reporter.err, why));
  const auto rounds = [](const ChildResult& node) {
    const auto all = said(node.out, "round");
    return Words(all.begin(), all.end());
  };
  CHECK(rounds(stepped_back) == Words{"0", "0", "1", "1"});
  CHECK(rounds(promoted) == Words{"2", "2"});
  const auto json = nlohmann::json::parse(content(report));
  REQUIRE(json["unsound_nodes"].size() == 1);
  CHECK(has(json["unsound_nodes"][0]["reason"], why.substr(1)));
  CHECK(processes_with(job.job.mark_entry()).empty());
}

TEST_CASE("the node that has the rendezvous ends the job when it fails its check") {
  ManyNodes job;
  auto options = job.c10d("2");
  const std::string gate = job.gate();
  options.push_back("--preflight=echo begun; until test -e " + gate +
                    "; do sleep 0.02; done; exit 1");
  Child& host = job.start(options);
  // The rendezvous asks for the check, so it is there, and not in the other one.
  REQUIRE(
      host.wait_for([](const auto&, const auto& err) { return has(err, "[preflight] begun\n"); }));
  auto others = job.c10d("2");
  others.push_back("--preflight=true");
  Child& other = job.start(others);
  REQUIRE(
      other.wait_for([](const auto&, const auto& err) { return has(err, "passed its check"); }));
  job.open_gate();
  const auto first = host.wait();
  const auto second = other.wait();
  INFO(first.err + second.err);
  for (const std::string& err : {first.err, second.err})
    CHECK(err.find("exited with code 1: begun") == err.rfind("exited with code 1: begun"));
  CHECK(first.status == kExitUnsound);
  CHECK(second.status == kExitNoRound);
  CHECK(
      has(second.err,
          "failed its check (--preflight): exited with code 1: begun; the rendezvous runs there"));
}
