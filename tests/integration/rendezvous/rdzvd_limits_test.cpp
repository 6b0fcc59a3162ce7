// rdzvd with too little of something. UBSan opens a pipe for each class that is new to it and so
// cannot do without descriptors: the release build runs this.
#include <catch2/catch.hpp>
#include <deque>
#include <string>

#include "rendezvous/client/store_client.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/running_rdzvd.hpp"
#include "tests/support/child.hpp"

using namespace ddprun::test;

namespace {

/// Without the descriptors that we have inherited, which would count, too.
Words rdzvd_with(int files) {
  return {"/bin/sh", "-c",
          "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n " + std::to_string(files) +
              "; exec " + program("rdzvd") + " --listen=127.0.0.1:0"};
}

}  // namespace

TEST_CASE("rdzvd with too few open files ends with 1 and the limit to raise") {
  for (const int files : {4, 5, 6, 7, 8, 9, 10}) {
    CAPTURE(files);
    const auto result = run(rdzvd_with(files));
    CAPTURE(result.err);
    CHECK(result.status == 1);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("rdzvd: "));
    CHECK(result.err.ends_with("raise the limit of open files (ulimit -n)\n"));
  }
}

TEST_CASE("rdzvd with no descriptor left lets clients wait, warns, and serves when others leave") {
  Rdzvd daemon(rdzvd_with(40), Rdzvd::whole_command);
  std::deque<RawClient> silent;
  for (int i = 0; i < 60; ++i) silent.emplace_back(daemon.port);
  const std::string warning =
      "rdzvd: warning: store: cannot accept clients: Too many open files; they wait until a "
      "descriptor is free (see `ulimit -n`)";
  REQUIRE(daemon.child.wait_for([&](const std::string&, const std::string& err) {
    return err.find(warning) != std::string::npos;
  }));
  silent.clear();
  CHECK(daemon.client().set("key", "value", soon()).has_value());
  CHECK(daemon.stop().status == 0);
}
