// A node at the end of its descriptors. Unsanitized: UBSan needs one to look at an object's type.
#include <catch2/catch.hpp>
#include <deque>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"

using namespace ddprun;

TEST_CASE("a node that has the rendezvous warns once that connections wait for a descriptor") {
  test::ManyNodes job;
  const std::vector<std::string> options = job.c10d("2");
  std::vector<std::string> words{"/bin/bash", "-c", "ulimit -n 64; exec \"$@\"", "bash",
                                 test::program("ddprun")};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(test::helper("meeting_worker"));
  test::Child& host = job.nodes.emplace_back(words, job.job.settings());
  const auto says = [&](const std::string& text) {
    return host.wait_for(
        [&](const auto&, const auto& err) { return err.find(text) != std::string::npos; });
  };
  REQUIRE(says("1 of 2 nodes have joined"));
  std::deque<test::RawClient> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(job.port);
  const std::string warning =
      "connections wait, because this process has as many open files as it may have (64): raise "
      "the limit (ulimit -n); agents connected: 1\n";
  REQUIRE(says(warning));
  silent.clear();
  job.start(options);
  const auto nodes = job.wait();
  for (const test::ChildResult& node : nodes) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
  }
  CHECK(nodes[0].err.find("connections wait", nodes[0].err.find(warning) + warning.size()) ==
        std::string::npos);
}
