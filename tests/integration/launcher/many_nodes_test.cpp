// One job on several nodes, each a ddprun of its own.
#include <filesystem>

#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::EndsWith;
using Words = std::multiset<std::string>;

namespace {

std::string of(const ChildResult& result) { return result.out + result.err; }

}  // namespace

TEST_CASE("the same command on two nodes forms one job") {
  ManyNodes job;
  job.start(job.c10d("2"));
  job.start(job.c10d("2"));
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(of(node));
    CHECK(node.status == 0);
  }
  CHECK(all_said(nodes, "rank") == Words{"0/4", "1/4", "2/4", "3/4"});
  CHECK(all_said(nodes, "node") == Words{"0/2", "0/2", "1/2", "1/2"});
  CHECK(all_said(nodes, "local") == Words{"0/2", "0/2", "1/2", "1/2"});
}

TEST_CASE("a hint of the report is about the Python of the culprit's node") {
  const TempDir folder;
  const auto python = [&](const std::string& name, const std::string& script) {
    const std::string path = (folder / name).string();
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  const std::string whole = python("whole", "sleep 20\n");
  const std::string poor =
      python("poor",
             "printf \"ModuleNotFoundError: No module named 'torch'\\n\" >&2; sleep 0.2; exit 1\n");
  const std::string program_file = (folder / "x.py").string();
  std::ofstream(program_file) << "pass\n";
  ManyNodes job;
  for (const std::string& one : {whole, poor}) {
    auto settings = job.job.settings();
    settings.environment.emplace_back("PYTHON_EXEC", one);
    std::vector<std::string> words{program("ddprun"), "--grace-period=2"};
    for (const std::string& option : job.c10d("2")) words.push_back(option);
    words.push_back(program_file);
    job.nodes.emplace_back(words, settings);
    if (one == poor) break;
    CHECK(job.nodes.back().wait_for([](const std::string&, const std::string& err) {
      return err.find("1 of 2 nodes have joined") != std::string::npos;
    }));
  }
  for (const ChildResult& node : job.wait()) {
    CHECK_THAT(node.err, Catch::Contains("the workers ran under " + poor +
                                         ": is the module installed there") &&
                             !Catch::Contains("ran under " + whole) &&
                             Catch::Contains("ddprun: joined with node rank "));
  }
}

TEST_CASE("a port that another program has for a moment delays a job") {
  ManyNodes job;
  std::optional<Child> other(
      std::in_place,
      std::vector<std::string>{
          "python3", "-c",
          "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); "
          "print('there', flush=True); s.accept()[0].close(); s.accept()[0].close()",
          std::to_string(job.port)});
  other->wait_for_output("there");
  job.start(job.c10d("2"));
  job.start(job.c10d("2"));
  CHECK(other->wait().status == 0);
  job.succeed();
}

TEST_CASE("static nodes have the ranks that they were given, and the store is at MASTER_PORT") {
  ManyNodes job;
  job.start(job.fixed("3", 2));
  job.start(job.fixed("3", 1));
  job.start(job.fixed("3", 0));
  const auto nodes = job.wait();
  const std::string at = " at 127.0.0.1:" + std::to_string(job.port);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    INFO(of(nodes[i]));
    CHECK(nodes[i].status == 0);
    const std::string group = std::to_string(2 - i) + "/3";
    CHECK(said(nodes[i].out, "node") == std::vector<std::string>{group, group});
    CHECK(nodes[i].out.find(at) != std::string::npos);
  }
  CHECK(all_said(nodes, "rank") == Words{"0/6", "1/6", "2/6", "3/6", "4/6", "5/6"});
}

TEST_CASE("a worker that fails on one node restarts the job on all") {
  ManyNodes job;
  const bool fixed = GENERATE(false, true);
  for (int rank = 0; rank < 2; ++rank) {
    auto options = fixed ? job.fixed("2", rank) : job.c10d("2");
    options.push_back("--max-restarts=1");
    job.start(options, {"fail", "3", "0", "7", "fail", "0", "1", "0"});
  }
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(of(node));
    CHECK(node.status == 0);
    CHECK(node.err.find("restarting the workers (1 of 1 restarts)") != std::string::npos);
  }
  CHECK(all_said(nodes, "round").count("1") == 4);
  CHECK(all_said(nodes, "restarts").count("1") == 4);
}

TEST_CASE("without restarts a failure ends the job on all nodes with the same exit code") {
  ManyNodes job;
  for (int i = 0; i < 2; ++i)
    job.start(job.c10d("2"), {"fail", "2", "0", "7", "until", job.gate()});
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(of(node));
    CHECK(node.status == 7);
    CHECK(node.err.find("rank 2") != std::string::npos);
  }
}

TEST_CASE("a node that is killed leaves nothing behind, and the others go on without it") {
  ManyNodes job;
  for (int i = 0; i < 3; ++i) {
    auto options = job.c10d("1:3");
    options.push_back(i == 0 ? "--rdzv-conf=last_call_timeout=1,is_host=1"
                             : "--rdzv-conf=last_call_timeout=1,is_host=0");
    job.start(options, {"until", job.gate()});
  }
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/6 "));
  job.nodes[2].signal(SIGKILL);
  for (int i : {0, 1}) REQUIRE(job.nodes[static_cast<std::size_t>(i)].wait_for_output("/4 "));
  CHECK(job.nodes[2].wait().status == 128 + SIGKILL);
  job.open_gate();
  const auto nodes = job.wait();
  for (int i : {0, 1}) {
    INFO(of(nodes[static_cast<std::size_t>(i)]));
    CHECK(nodes[static_cast<std::size_t>(i)].status == 0);
  }
}

TEST_CASE("SIGTERM takes one node away, Ctrl-C ends the job on all nodes") {
  ManyNodes job;
  for (int i = 0; i < 2; ++i) {
    auto options = job.c10d("1:2");
    options.push_back(i == 0 ? "--rdzv-conf=last_call_timeout=1,is_host=1"
                             : "--rdzv-conf=last_call_timeout=1,is_host=0");
    job.start(options, {"until", job.gate()});
  }
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  SECTION("SIGTERM") {
    job.nodes[1].signal(SIGTERM);
    const ChildResult gone = job.nodes[1].wait();
    CHECK(gone.status == 128 + SIGTERM);
    CHECK_THAT(gone.err,
               Catch::Contains("\nddprun: SIGTERM: stopping the workers; SIGKILL follows after ") &&
                   EndsWith("\nddprun: stopped by SIGTERM\n"));
    REQUIRE(job.nodes[0].wait_for_output("/2 "));
    job.open_gate();
    const ChildResult stayed = job.nodes[0].wait();
    CHECK(stayed.status == 0);
    CHECK_THAT(stayed.err,
               EndsWith(" was stopped by SIGTERM; starting the workers again on 1 node\n"));
  }
  SECTION("SIGINT, or SIGTERM at the node that has the rendezvous") {
    const bool at_host = GENERATE(false, true);
    if (at_host) {
      job.nodes[0].signal(SIGTERM);
    } else {
      job.nodes[1].signal(SIGINT);
    }
    for (const ChildResult& node : job.wait()) {
      INFO(of(node));
      CHECK(node.status == 128 + (at_host ? SIGTERM : SIGINT));
    }
  }
}

TEST_CASE("a node more than the job may have waits as a spare, and ends with it") {
  ManyNodes job;
  for (int i = 0; i < 2; ++i) job.start(job.c10d("2"), {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  Child& spare = job.start(job.c10d("2"), {"until", job.gate()});
  REQUIRE(spare.wait_for([](const auto&, const auto& err) {
    return err.find("the job runs on 2 other nodes: this one waits as a spare") !=
           std::string::npos;
  }));
  job.open_gate();
  job.succeed();
}

TEST_CASE("a node that comes later makes the job grow") {
  ManyNodes job;
  auto options = job.c10d("1:2");
  // A round of one node waits for the lease and 2 s.
  options.push_back(
      "--rdzv-conf=last_call_timeout=0.2,keep_alive_interval=0.4,keep_alive_max_attempt=3");
  options.push_back("--grow-delay=0.1");
  job.start(options, {"until", job.gate()});
  REQUIRE(job.nodes[0].wait_for_output("/2 "));
  job.start(options, {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  job.open_gate();
  job.succeed();
}

TEST_CASE("a node that waits says how many are missing, and gives up") {
  ManyNodes job;
  auto options = job.c10d("2");
  options.push_back("--rdzv-conf=join_timeout=3");
  job.start(options);
  const auto nodes = job.wait();
  INFO(of(nodes[0]));
  CHECK(nodes[0].status == 69);
  CHECK(nodes[0].err.find("1 of 2 nodes") != std::string::npos);
}

TEST_CASE("Ctrl-C ends a node that finds no rendezvous") {
  ManyNodes job;
  auto options = job.fixed("2", 1);
  job.start(options);
  REQUIRE(job.nodes[0].wait_for([](const auto&, const auto& err) {
    return err.find("does not answer") != std::string::npos;
  }));
  job.nodes[0].signal(SIGINT);
  CHECK(job.wait()[0].status == 128 + SIGINT);
}
