// rdzvd with too little of something. UBSan opens a pipe for each class that is new to it and so
// cannot do without descriptors: the release build runs this.
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/child.hpp"

using ddprun::test::program;
using ddprun::test::run;

TEST_CASE("rdzvd with too few open files ends with 1 and the limit to raise") {
  for (const int files : {4, 5, 6, 7, 8, 9, 10}) {
    CAPTURE(files);
    // Those that we have inherited would count, too.
    const auto result =
        run({"/bin/sh", "-c",
             "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n " + std::to_string(files) +
                 "; exec " + program("rdzvd") + " --listen=127.0.0.1:0"});
    CAPTURE(result.err);
    CHECK(result.status == 1);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("rdzvd: "));
    CHECK(result.err.ends_with("raise the limit of open files (ulimit -n)\n"));
  }
}
