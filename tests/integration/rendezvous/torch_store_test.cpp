// Unmodified PyTorch against our store: its TCPStore client, and gloo workers that meet in it.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "rendezvous/store/store_server.hpp"
#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::rdzv;
using namespace ddprun::test;

namespace {

std::string python_with_torch() {
  const char* chosen = std::getenv("DDPRUN_TEST_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  ChildOptions options;
  options.leave_stdin = true;
  if (run({"/usr/bin/env", python, "-c", "import torch.distributed as d; d.TCPStore"}, options)
          .status != 0) {
    skip("torch cannot be imported by " + python + " (DDPRUN_TEST_PYTHON names another Python)");
  }
  return python;
}

ChildResult run_script(const StoreServer& server, const std::string& mode) {
  ChildOptions options;
  options.leave_stdin = true;
  options.limit = std::chrono::minutes(3);
  return run({"/usr/bin/env", python_with_torch(), DDPRUN_TORCH_SCRIPT, server.addr(),
              std::to_string(server.port()), mode},
             options);
}

StoreListener listener() {
  auto made = listen_store("127.0.0.1", 0);
  REQUIRE(made.has_value());
  return std::move(*made);
}

}  // namespace

TEST_CASE("PyTorch's TCPStore client gets from our store what it gets from its own") {
  StoreServer server(listener());
  const ChildResult result = run_script(server, "api");
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(server.refused_clients() == 0);
  WARN(result.out);
}

TEST_CASE("gloo workers of PyTorch meet in our store") {
  StoreServer server(listener());
  const ChildResult result = run_script(server, "gloo");
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(server.refused_clients() == 0);
}
