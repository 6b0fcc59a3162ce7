// The messages between an agent and workers that can take part in another round.
#include "agent/control/elastic_workers.hpp"

#include <catch2/catch.hpp>
#include <string_view>

using namespace ddprun;
using namespace std::string_view_literals;
using agent::parse_wait;
using agent::WorkerMessage;

TEST_CASE("a message has entries, each with a NUL behind it") {
  WorkerMessage message;
  message.add("message", "round");
  message.add("RANK", "3");
  message.add("RANK2", "a=b");
  CHECK(message.bytes() == "message=round\0RANK=3\0RANK2=a=b\0"sv);
  CHECK(message.value("RANK") == "3");
  CHECK(message.value("RANK2") == "a=b");
  CHECK_FALSE(message.value("RAN"));
  CHECK(WorkerMessage::is_one(message.bytes()));
  CHECK_FALSE(WorkerMessage::is_one("{}"));
}

TEST_CASE("a worker says after how many steps its state is, or that it has none") {
  const auto step_of = [](std::string_view bytes) {
    return parse_wait(WorkerMessage(bytes)).value().step;
  };
  CHECK(step_of("message=wait\0step=0\0"sv) == 0);
  CHECK(step_of("message=wait\0step=18446744073709551615\0"sv) == 18446744073709551615U);
  CHECK(step_of("message=wait\0step=12"sv) == 12);
  CHECK_FALSE(step_of("message=wait\0"sv));
  CHECK_FALSE(step_of("message=wait\0other=1\0"sv));
}

TEST_CASE("bytes that are no answer of a worker are refused") {
  for (const std::string_view bytes :
       {""sv, "\0\0\0"sv, "message=join"sv, "message"sv, "step=1\0"sv, "message=wait\0step=\0"sv,
        "message=wait\0step=-1\0"sv, "message=wait\0step=1x\0"sv,
        "message=wait\0step=18446744073709551616\0"sv}) {
    CAPTURE(bytes);
    CHECK_FALSE(parse_wait(WorkerMessage(bytes)));
  }
}
