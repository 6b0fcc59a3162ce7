// What a launcher and its nodes tell each other.
#include "launcher/ssh/node_messages.hpp"

#include <catch2/catch.hpp>

#include "launcher/ssh/node_output.hpp"

using namespace ddprun::launcher;

namespace {

NodePlan a_plan() {
  NodePlan plan;
  plan.host = "b2";
  plan.run_id = "job";
  plan.secret = "0123";
  plan.mark = "end-77";
  plan.launcher = "head:4711";
  plan.rank = 1;
  plan.min_nodes = 1;
  plan.max_nodes = 2;
  plan.slots = 8;
  plan.wants_error_file = true;
  plan.stderr_is_terminal = true;
  plan.stop.grace_period = std::chrono::milliseconds(1'500);
  plan.stop.kill_timeout = std::chrono::seconds(4);
  plan.stop.signals = {2, 15};
  plan.folder = "/data/my project";
  plan.command = {"ddprun", "--hosts=a,b2", "train.py", "", "\xff\n"};
  plan.environment = {"PATH=/bin", "EMPTY=", "BYTES=\xfe\n\x1e"};
  return plan;
}

/// The text behind its first line, which tells its length.
std::string body_of(const std::string& text) {
  const auto newline = text.find('\n');
  const auto bytes = plan_bytes(text.substr(0, newline));
  REQUIRE(bytes == text.size() - newline - 1);
  return text.substr(newline + 1);
}

}  // namespace

TEST_CASE("a plan is read as it was written, whatever bytes it has") {
  const NodePlan plan = a_plan();
  const auto read = decode_plan(body_of(encode(plan)));
  REQUIRE(read.has_value());
  CHECK(encode(*read) == encode(plan));
  CHECK(read->command == plan.command);
  CHECK(read->environment == plan.environment);
  CHECK(read->folder == plan.folder);
  CHECK(read->slots == 8);
  CHECK(read->wants_error_file);
  CHECK_FALSE(read->stdout_is_terminal);
}

TEST_CASE("what is no plan is refused") {
  const std::string body = body_of(encode(a_plan()));
  for (std::size_t bytes = 0; bytes < body.size(); ++bytes) {
    const auto part = decode_plan(body.substr(0, bytes));
    CHECK((!part.has_value() || part->environment != a_plan().environment));
  }
  using namespace std::string_literals;
  CHECK_FALSE(decode_plan("").has_value());
  CHECK(decode_plan("host"s).error() == "its last value has no end");
  CHECK(decode_plan("host\0"s).error() == "its last name has no value");
  CHECK(decode_plan("what\0x\0"s).error() == "it has a name that is not known");
  CHECK(decode_plan("rank\0-1\0"s).error() == "its value of rank is wrong");
  CHECK(decode_plan("rank\0x\0"s).error() == "its value of rank is wrong");
  CHECK(decode_plan("wants-error-file\0yes\0"s).error() ==
        "its value of wants-error-file is wrong");
  CHECK(decode_plan("host\0a\0"s).error() == "a part of it is missing");
  for (const char* line :
       {"", "plan 3", "ddprun-plan ", "ddprun-plan -1", "ddprun-plan 99999999999"})
    CHECK_FALSE(plan_bytes(line));
}

TEST_CASE("a signal is one line") {
  CHECK(signal_line(15) == "signal 15\n");
  CHECK(signal_in("signal 15") == 15);
  for (const char* line : {"", "signal", "signal ", "signal 0", "signal 65", "signal 9x", "kill 9"})
    CHECK_FALSE(signal_in(line));
}

TEST_CASE("output is taken apart however its bytes come") {
  NodeEnd end;
  end.exit_code = 7;
  end.has_culprit = true;
  end.text = "ddprun: culprit: rank 1\n";
  end.json = "{\"a\": 1}\n";
  const std::string all = "Welcome!\nno newline" + greeting("0.1.0") +
                          "[rank0] one\n[rank1] \x1e"
                          "end-7 two\nbegun" +
                          encode(end, "end-77");
  const auto step = static_cast<std::size_t>(GENERATE(1, 2, 3, 7, 64, 100'000));
  NodeOutput output("end-77");
  std::string lines;
  std::string version;
  std::optional<NodeEnd> came;
  for (std::size_t at = 0; at < all.size(); at += step) {
    auto taken = output.add(std::string_view(all).substr(at, step));
    CHECK(taken.problem.empty());
    CHECK((taken.lines.empty() || taken.lines.back() == '\n'));
    lines += taken.lines;
    if (taken.version) version = *taken.version;
    if (taken.end) came = taken.end;
  }
  CHECK(version == "0.1.0");
  CHECK(lines ==
        "[rank0] one\n[rank1] \x1e"
        "end-7 two\nbegun\n");
  REQUIRE(came);
  CHECK(came->exit_code == 7);
  CHECK(came->has_culprit);
  CHECK_FALSE(came->reports);
  CHECK(came->text == end.text);
  CHECK(came->json == end.json);
  CHECK(output.rest().empty());
}

TEST_CASE("the last line of a node that ended without a record is kept") {
  NodeOutput output("end-77");
  CHECK(output.add(greeting("0.1.0") + "a\nb").lines == "a\n");
  CHECK(output.rest() == "b\n");
}

TEST_CASE("without a greeting what was printed is a banner, and has a limit") {
  NodeOutput output("end-77");
  CHECK(output.add("hello\n").problem.empty());
  CHECK(output.banner() == "hello\n");
  CHECK(output.rest().empty());
  CHECK_FALSE(output.add(std::string(NodeOutput::kBannerBytesMax, 'x')).problem.empty());
}

TEST_CASE("a wrong record is a problem, and nothing else") {
  NodeOutput output("end-77");
  output.add(greeting("0.1.0"));
  CHECK_FALSE(output
                  .add("\x1e"
                       "end-77 x\n")
                  .problem.empty());
  NodeOutput other("end-77");
  other.add(greeting("0.1.0"));
  CHECK_FALSE(other
                  .add("\x1e"
                       "end-77 3\nabc")
                  .problem.empty());
}

TEST_CASE("what a login shell prints to stderr is kept apart from the lines of the job") {
  const std::string all = "Last login\nno newline" + greeting("0.1.0") + "ddprun: one\n[rank0] two";
  const auto step = static_cast<std::size_t>(GENERATE(1, 5, 100'000));
  NodeErrors errors;
  std::string lines;
  for (std::size_t at = 0; at < all.size(); at += step)
    lines += errors.add(std::string_view(all).substr(at, step));
  CHECK(lines == "ddprun: one\n");
  CHECK(errors.last() == "ddprun: one\n[rank0] two");
  CHECK(errors.rest() == "[rank0] two\n");
  NodeErrors none;
  CHECK(none.add("ssh: no route\n").empty());
  CHECK(none.last() == "ssh: no route\n");
  CHECK(none.rest().empty());
}

TEST_CASE("lines that all hosts print are shown once, with the host that was first") {
  OwnLines lines;
  CHECK(lines.take("a", "ddprun: restarting\n[rank0] x\n") == "ddprun: a: restarting\n[rank0] x\n");
  CHECK(lines.take("b", "ddprun: restarting\n[rank1] x\n") == "[rank1] x\n");
  CHECK(lines.take("b", "ddprun: restarting\n") == "ddprun: b: restarting\n");
  CHECK(lines.take("a", "ddprun: restarting\nddprun: other\n") == "ddprun: a: other\n");
}
