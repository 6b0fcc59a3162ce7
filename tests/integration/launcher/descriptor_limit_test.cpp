// A node at the end of its descriptors. Unsanitized: UBSan needs one to look at an object's type.
#include <catch2/catch.hpp>
#include <deque>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"

using namespace ddprun;

namespace {

test::Child& start_with_limit(test::ManyNodes& job, int files,
                              const std::vector<std::string>& options) {
  std::vector<std::string> words{"/bin/bash",
                                 "-c",
                                 "ulimit -n " + std::to_string(files) + "; exec \"$@\"",
                                 "bash",
                                 test::program("ddprun"),
                                 "--output=pipe"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(test::helper("meeting_worker"));
  return job.nodes.emplace_back(words, job.job.settings());
}

}  // namespace

TEST_CASE("a node that has the rendezvous warns once that connections wait for a descriptor") {
  test::ManyNodes job;
  const std::vector<std::string> options = job.c10d("2");
  test::Child& host = start_with_limit(job, 64, options);
  const auto says = [&](const std::string& text) {
    return host.wait_for(
        [&](const auto&, const auto& err) { return err.find(text) != std::string::npos; });
  };
  REQUIRE(says("1 of 2 nodes have joined"));
  std::deque<test::RawClient> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(job.port);
  const std::string warning =
      "connections wait, because this process may have no more than 64 open files: raise the limit "
      "(ulimit -n); agents connected: 1\n";
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

TEST_CASE(
    "connections that say nothing do not keep the node that has the rendezvous from its work") {
  test::ManyNodes job;
  const bool is_static = GENERATE(false, true);
  CAPTURE(is_static);
  test::Child& host = start_with_limit(job, 128, is_static ? job.fixed("2", 0) : job.c10d("2"));
  REQUIRE(host.wait_for([](const auto&, const auto& err) {
    return err.find("1 of 2 nodes have joined") != std::string::npos;
  }));
  std::deque<test::RawClient> silent;
  for (int i = 0; i < 300; ++i) silent.emplace_back(job.port);
  REQUIRE(host.wait_for([](const auto&, const auto& err) {
    return err.find("connections wait") != std::string::npos;
  }));
  job.start(is_static ? job.fixed("2", 1) : job.c10d("2"));
  for (const test::ChildResult& node : job.wait()) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    CHECK(node.err.find("Too many open files") == std::string::npos);
  }
}
