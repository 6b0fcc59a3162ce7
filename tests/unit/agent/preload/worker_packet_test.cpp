// What crosses the socket to the importing process and back.
#include "agent/preload/worker_packet.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::string_literals;

TEST_CASE("the request for modules has the worker's words and the modules") {
  CHECK(agent::import_text({"python3", "-u", "", "a b"}, {"torch", "auto"}) ==
        "4\0python3\0-u\0\0a b\0torch\0auto"s);
  CHECK(agent::import_text({"python3"}, {}) == "1\0python3"s);
}

TEST_CASE("a command line without its program has Python's options") {
  using Words = std::vector<std::string>;
  const auto options = [](Words words) {
    words.insert(words.begin(), "python3");
    Words without = agent::words_without_program(words);
    REQUIRE(without.size() >= 3);
    CHECK(without.front() == "python3");
    CHECK(Words(without.end() - 2, without.end()) == Words{"-c", ""});
    return Words(without.begin() + 1, without.end() - 2);
  };
  CHECK(options({"-u", "train.py", "-E"}) == Words{"-u"});
  CHECK(options({"-u", "-m", "train", "-I"}) == Words{"-u"});
  CHECK(options({"-um", "train"}) == Words{"-u"});
  CHECK(options({"-mtrain", "-I"}).empty());
  CHECK(options({"-IBc", "print()", "-S"}) == Words{"-IB"});
  CHECK(options({"-W", "error", "-Xdev", "-X", "faulthandler", "-S", "x.py"}) ==
        Words{"-W", "error", "-Xdev", "-X", "faulthandler", "-S"});
  CHECK(options({"-bWerror::BytesWarning", "x.py"}) == Words{"-bWerror::BytesWarning"});
  CHECK(options({"-Wmodule", "x.py"}) == Words{"-Wmodule"});
  CHECK(options({"--check-hash-based-pycs", "always", "x.py", "-c"}) ==
        Words{"--check-hash-based-pycs", "always"});
  CHECK(options({"-"}).empty());
  CHECK(options({}).empty());
  CHECK(options({"-X"}) == Words{"-X"});
}

TEST_CASE("a worker's request has its parent, CPUs, words and variables") {
  machine::SpawnRequest request;
  request.argv = {"python3", ""};
  request.environment = {"RANK=1", "EMPTY="};
  CHECK(agent::worker_text(request, 77) == "77\0\0002\0python3\0\0RANK=1\0EMPTY="s);
  request.cpus = {0, 12};
  request.environment.clear();
  CHECK(agent::worker_text(request, 77) == "77\0000,12\0002\0python3\0"s);
}

TEST_CASE("answers are ready or say why not") {
  const auto ready = agent::parse_answer("ready\0a remark\0torch, json"s);
  CHECK(ready.ready);
  CHECK(ready.more == "a remark");
  CHECK(ready.text == "torch, json");
  CHECK(agent::parse_answer("ready").ready);
  CHECK(agent::parse_answer("ready").text.empty());
  const auto failed = agent::parse_answer("failed\0json\0no such\0module"s);
  CHECK(!failed.ready);
  CHECK(failed.more == "json");
  CHECK(failed.text == "no such\0module"s);
  CHECK(agent::parse_answer("failed\0\0none"s).more.empty());
}

TEST_CASE("what is no answer is none") {
  CHECK(!agent::parse_answer("").ready);
  CHECK(agent::parse_answer("").text.empty());  // the other end is gone
  for (const std::string& packet : {"failed"s, "failed\0"s, "failed\0json"s, "failed\0json\0"s,
                                    "readyx"s, "\0ready"s, "READY"s, "x"s}) {
    const auto answer = agent::parse_answer(packet);
    CHECK(!answer.ready);
    CHECK(answer.more.empty());
    CHECK(answer.text == "it answered what ddprun does not understand");
  }
}
