#include "texts/misplaced_option.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("an option given to the wrong program is answered with the right one") {
  CHECK(misplaced_option("ddprun", "epochs", "3") ==
        "--epochs is an option of train: put it behind PROGRAM, as in ddprun train --epochs=3");
  CHECK(misplaced_option("train", "nproc-per-node", "2") ==
        "--nproc-per-node is an option of ddprun: put it before train, as in ddprun "
        "--nproc-per-node=2 train");
  CHECK(misplaced_option("train", "standalone", "") ==
        "--standalone is an option of ddprun: put it before train, as in ddprun --standalone "
        "... train");
  CHECK(misplaced_option("rdzvd", "epochs", "") == "--epochs is an option of train");
}

TEST_CASE("options of no program, of all programs and of the asked one are not misplaced") {
  CHECK(misplaced_option("ddprun", "frobnicate", "").empty());
  CHECK(misplaced_option("train", "help", "").empty());
  CHECK(misplaced_option("ddprun", "max-restarts", "3").empty());
}
