// The command line of ddpctl.
#include "launcher/ctl/ctl_options.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "launcher/ctl/ctl_text.hpp"
#include "tests/support/example_words.hpp"

using namespace ddprun::ctl;
using Catch::Matchers::Contains;

namespace {

CtlOptions parsed(const std::vector<std::string>& words) {
  const auto result = parse_ctl_options(words);
  INFO((std::holds_alternative<CtlExit>(result) ? std::get<CtlExit>(result).text : ""));
  REQUIRE(std::holds_alternative<CtlOptions>(result));
  return std::get<CtlOptions>(result);
}

std::string refused(const std::vector<std::string>& words) {
  const auto result = parse_ctl_options(words);
  REQUIRE(std::holds_alternative<CtlExit>(result));
  CHECK(std::get<CtlExit>(result).code == 2);
  return std::get<CtlExit>(result).text;
}

}  // namespace

TEST_CASE("a command may have a job, and options before and behind it") {
  CHECK(parsed({"ls"}).command == Command::list);
  CHECK(parsed({"--json", "status", "train7"}).json);
  CHECK(parsed({"--json", "status", "train7"}).job == "train7");
  CHECK(parsed({"events", "-f"}).follow);
  CHECK(parsed({"events", "train7", "--follow"}).job == "train7");
  CHECK(parsed({"stacks", "--rank=3"}).rank == 3);
  CHECK(parsed({"stop", "--now"}).now);
  CHECK(parsed({"top"}).interval == std::chrono::seconds(1));
  CHECK(parsed({"top", "--interval=100ms", "train7"}).interval == std::chrono::milliseconds(100));
  CHECK(parsed({"save"}).timeout == std::chrono::minutes(10));
  CHECK(parsed({"save", "train7", "--timeout=2m"}).timeout == std::chrono::minutes(2));
}

TEST_CASE("a signal is a name with or without SIG, or a number") {
  for (const std::string word : {"USR1", "sigusr1", "SIGUSR1", "10"}) {
    const auto options = parsed({"signal", word, "train7", "--rank", "2"});
    CHECK(options.signal == SIGUSR1);
    CHECK(options.job == "train7");
    CHECK(options.rank == 2);
  }
}

TEST_CASE("every option has one example, which names it and is accepted") {
  const auto help = parse_ctl_options({"--help"});
  const std::string text = std::get<CtlExit>(help).text;
  for (const auto& [option, command] : ctl_text().option_examples) {
    INFO(command);
    CHECK_THAT(text, Contains(option));
    const auto words = ddprun::test::arguments_after("ddpctl", command);
    CHECK(ddprun::test::names_option(words, option));
    const auto result = parse_ctl_options(words);
    if (const auto* exit = std::get_if<CtlExit>(&result)) CHECK(exit->code == 0);
  }
  for (const ddprun::Term& command : ctl_text().commands)
    CHECK_THAT(ctl_text().short_help, Contains("  ddpctl " + command.term));
}

TEST_CASE("what is wrong is answered with what to type") {
  CHECK_THAT(refused({}), Contains("Usage: ddpctl COMMAND"));
  CHECK(refused({"statsu"}) == "ddpctl: unknown command statsu; did you mean status?\n");
  CHECK_THAT(refused({"x"}), Contains("it is one of ls, status, top, events"));
  CHECK(refused({"status", "a", "b"}) == "ddpctl: unexpected argument b: status takes one JOB\n");
  CHECK(refused({"stop", "--rank=1"}) == "ddpctl: --rank is not for stop\n");
  CHECK_THAT(refused({"signal"}), Contains("ddpctl signal USR1 [JOB]"));
  CHECK(refused({"signal", "USR3"}) == "ddpctl: unknown signal USR3; did you mean SIGUSR1?\n");
  CHECK_THAT(refused({"stacks", "--rank=x"}), Contains("must be a number"));
  CHECK_THAT(refused({"save", "--timeout=0"}), Contains("--timeout"));
  CHECK_THAT(refused({"top", "--interval=0.05"}), Contains("--interval"));
  CHECK_THAT(refused({"top", "--interval=61"}), Contains("--interval is at most 60 seconds"));
  CHECK_THAT(refused({"status", "--interval=2"}), Contains("--interval is not for status"));
  CHECK_THAT(refused({"events", "--folow"}), Contains("did you mean --follow?"));
}
